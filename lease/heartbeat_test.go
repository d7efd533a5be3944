package lease

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// beats notes when the lease is renewed, and fails while it is told to.
type beats struct {
	store.Ownership
	began time.Time
	mu    sync.Mutex
	at    []time.Duration
	fail  func(since time.Duration) bool
}

func (b *beats) Renew(ctx context.Context, run int64, lease time.Duration) ([]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := time.Since(b.began)
	b.at = append(b.at, since)
	if b.fail != nil && b.fail(since) {
		return nil, errors.New("the database is locked")
	}
	return b.Ownership.Renew(ctx, run, lease)
}

// beating is a run in a bubble of testing/synctest, in which the clock leaps
// from beat to beat: it holds one item under a lease of a minute.
func beating(t *testing.T, fail func(since time.Duration) bool, f func(b *bundle, r *rescuer, own *beats)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		b.enqueue("a")
		r := b.rescuer()
		own := &beats{Ownership: r.own, began: time.Now(), fail: fail}
		r.own, r.lease = own, time.Minute
		c, err := b.db.Claim(context.Background(), store.ClaimRequest{Run: r.Info.ID, Lane: jobs.Serial, Jobs: []*jobs.Spec{b.spec(holds)}, Max: 1, Lease: r.lease})
		b.must(err)
		r.Hold(c.ID)
		ctx, stop := context.WithCancel(context.Background())
		var beating sync.WaitGroup
		beating.Go(func() { b.check(r.Heartbeat(ctx, func() bool { return false })) })
		f(b, r, own)
		stop()
		beating.Wait()
	})
}

// lapsed says whether others see the lease of a run run out.
func (b *bundle) lapsed(run int64) bool {
	b.Helper()
	others, err := b.db.OtherRuns(context.Background(), 0)
	b.must(err)
	for _, o := range others {
		if o.ID == run {
			return o.Lapsed
		}
	}
	b.Fatalf("run %d is not there", run)
	return false
}

// The lease is renewed every quarter of it, for as long as the run lives, and
// runs out when nobody renews it.
func TestHeartbeat_EveryQuarter(t *testing.T) {
	beating(t, nil, func(b *bundle, r *rescuer, own *beats) {
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		own.mu.Lock()
		if len(own.at) != 40 {
			t.Errorf("%d renewals in 10m, want 40", len(own.at))
		}
		for i, at := range own.at {
			if want := time.Duration(i+1) * 15 * time.Second; at != want {
				t.Errorf("renewal %d came after %s, want %s", i+1, at, want)
			}
		}
		own.fail = func(time.Duration) bool { return true }
		own.mu.Unlock()
		time.Sleep(58 * time.Second) // the last one was a second ago
		if b.lapsed(r.Info.ID) {
			t.Error("the lease has run out 59s after its last renewal")
		}
		time.Sleep(time.Second)
		if !b.lapsed(r.Info.ID) {
			t.Error("the lease has not run out a minute after its last renewal")
		}
	})
}

// Renewals that fail are tried again, also after the lease has run out: the
// token decides who owns an item, not the clock.
func TestHeartbeat_TriesAgain(t *testing.T) {
	down := func(since time.Duration) bool { return since > time.Minute && since < 5*time.Minute }
	beating(t, down, func(b *bundle, r *rescuer, own *beats) {
		time.Sleep(3 * time.Minute)
		if !b.lapsed(r.Info.ID) {
			t.Error("the lease has not run out while it could not be renewed")
		}
		time.Sleep(2*time.Minute + time.Second)
		synctest.Wait()
		if b.lapsed(r.Info.ID) {
			t.Error("the lease was not renewed when that was possible again")
		}
		select {
		case lost := <-r.Lost():
			t.Errorf("it was told that claims %v are lost", lost)
		default:
		}
	})
}

// A file that was replaced is found at the first beat.
func TestHeartbeat_Replaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		r := b.rescuer()
		r.lease = time.Minute
		begin := time.Now()
		if err := r.Heartbeat(context.Background(), func() bool { return true }); err == nil || !strings.Contains(err.Error(), b.path) {
			t.Errorf("it says %v", err)
		}
		if took := time.Since(begin); took != 15*time.Second {
			t.Errorf("it was found after %s", took)
		}
	})
}
