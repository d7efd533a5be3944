package worker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
)

// In a bubble of testing/synctest the clock stands while anything is at work,
// commands too, and leaps when all wait for it: what takes hours by the clock
// takes no time, and is exact to the millisecond of the store.

// bubble is setup inside a bubble. Patience means nothing there: wait for done.
func bubble(t *testing.T, f func(*bundle)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { f(setup(t)) })
}

// ended waits for a run in a bubble.
func (r *run) ended() {
	r.b.Helper()
	<-r.done
	r.b.must(r.err)
}

// A run that waits for retries wakes when one is due: neither before, nor
// later, nor again and again in between.
func TestTime_Backoff(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueue("j", "a")
		spec := b.job("j", jobs.Serial, `say start; [ $BATCHQ_ATTEMPT -ge 8 ]`)
		spec.Policy = jobs.DefaultPolicy()
		spec.Policy.Breaker = jobs.Breaker{}
		p := plan(serial(spec))
		p.Wait = true
		begin := time.Now()
		r := b.start(p)
		r.ended()
		b.want("a", jobs.Done, 7, 0)
		var asked time.Duration
		for _, v := range r.verdict["a"][:7] {
			asked += v.Delay.Truncate(time.Millisecond)
		}
		took := time.Since(begin)
		t.Logf("7 retries in %s", took)
		if took < asked || took > asked+100*time.Millisecond {
			t.Errorf("it took %s; the delays are %s together", took, asked)
		}
	})
}

// An open breaker lets one item be tried when its cooldown is over, which
// doubles each time; and when one succeeds all goes on at once.
func TestTime_Breaker(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueue("j", keys("k", 9)...)
		spec := b.job("j", jobs.Serial, `say start; [ -e up ]`)
		spec.Policy.BackoffBase, spec.Policy.BackoffCap = time.Millisecond, time.Millisecond
		spec.Policy.MaxAttempts = 20
		spec.Policy.Breaker = jobs.Breaker{Failures: 3, Cooldown: time.Minute}
		p := plan(serial(spec))
		p.Wait = true
		begin := time.Now()
		var starts []time.Duration
		r := b.startWith(p, options{started: func(*jobs.Item) {
			starts = append(starts, time.Since(begin).Round(time.Second))
			if len(starts) == 6 { // three that opened it, and three that were tried
				b.touch("up")
			}
		}})
		r.ended()
		b.wantCounts(store.Counts{Done: 9})
		want := []time.Duration{0, 0, 0, time.Minute, 3 * time.Minute, 7 * time.Minute}
		if len(starts) < 6 || !slices.Equal(starts[:6], want) {
			t.Errorf("starts at %v, want %v", starts, want)
		}
		if took := time.Since(begin).Round(time.Second); took > 16*time.Minute {
			t.Errorf("it took %s", took)
		}
		t.Logf("starts at %v", starts)
	})
}

// A rate paces evenly: 30 items at 10 a minute, no burst and no gap.
func TestTime_Rate(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueue("j", keys("k", 30)...)
		s := b.paced("j", jobs.Rate{Count: 10, Per: time.Minute})
		begin := time.Now()
		var starts []time.Duration
		r := b.startWith(plan(lane("parallel", 4, s)), options{started: func(*jobs.Item) { starts = append(starts, time.Since(begin)) }})
		r.ended()
		for i, at := range starts {
			if due := time.Duration(i) * 6 * time.Second; at < due-jobs.RateSlack-time.Millisecond || at > due+100*time.Millisecond {
				t.Errorf("item %d started after %s; its turn is at %s", i+1, at, due)
			}
		}
		b.wantCounts(store.Counts{Done: 30})
	})
}

// sluggish takes its time over each claim, as on a busy machine.
type sluggish struct{ worker.Store }

func (s sluggish) Claim(ctx context.Context, c store.ClaimRequest) (store.Claim, error) {
	defer time.Sleep(700 * time.Millisecond)
	return s.Store.Claim(ctx, c)
}

// The turn of a job with a rate that comes while the loop is busy with
// something else is not slept through.
func TestTime_RateWhileBusy(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueue("j", keys("k", 5)...)
		p := plan(lane("parallel", 4, b.paced("j", jobs.Rate{Count: 1, Per: time.Second}), b.job("other", "parallel", quick)))
		begin := time.Now()
		r := b.startWith(p, options{store: func(s worker.Store) worker.Store { return sluggish{s} }})
		r.ended()
		if took := time.Since(begin); took > p.Lease/2 {
			t.Errorf("it took %s", took)
		}
		b.wantCounts(store.Counts{Done: 5})
	})
}

// An item that is due much later is waited for by --wait.
func TestTime_WaitsForWhatIsDueLater(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueueAs("j", store.NewItem{Delay: time.Hour}, "later")
		p := plan(serial(b.job("j", jobs.Serial, quick)))
		p.Wait = true
		begin := time.Now()
		r := b.start(p)
		r.ended()
		if took := time.Since(begin); took < time.Hour || took > time.Hour+100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		b.wantCounts(store.Counts{Done: 1})
	})
}
