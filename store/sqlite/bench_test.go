package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// What the file of the large benchmarks holds: the rows for which the design
// promises figures.
const (
	largeReady  = 1_000_000
	largeDone   = 1_000_000
	largeFuture = 200_000
)

var large struct {
	once sync.Once
	dir  string // removed by TestMain
	path string
	err  error
}

// openLarge opens the database with the benchmark's rows, which is built once
// a process.
func openLarge(b *testing.B) *DB {
	b.Helper()
	if testing.Short() {
		b.Skip("a file of 2.2 million rows: not under -short")
	}
	large.once.Do(func() {
		if large.dir, large.err = os.MkdirTemp("", "batchq-bench-"); large.err == nil {
			large.path = filepath.Join(large.dir, "large.db")
			large.err = buildLarge(large.path)
		}
	})
	if large.err != nil {
		b.Fatal(large.err)
	}
	return openAt(b, large.path)
}

func buildLarge(path string) (err error) {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{Create: true})
	if err != nil {
		return err
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	n := 0
	add := func(count int, delay time.Duration) error {
		for end := n + count; n < end; n += store.MaxRows {
			if _, err := db.Enqueue(ctx, portionOf("pos", n, delay)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(largeDone, 0); err != nil {
		return err
	}
	// A million attempts would take minutes; what they leave is these rows.
	err = db.write(ctx, "preparing", synced, func(t *tx) error {
		if err := t.exec("UPDATE item SET state = 4, attempt = 1, started = ?1, finished = ?1", t.now); err != nil {
			return err
		}
		return t.exec("UPDATE tally SET done = ready, ready = 0")
	})
	if err != nil {
		return err
	}
	if err := add(largeReady, 0); err != nil {
		return err
	}
	return add(largeFuture, 24*time.Hour)
}

// portionOf is a full transaction of items whose keys count on from n.
func portionOf(job string, n int, delay time.Duration) store.Enqueue {
	e := store.Enqueue{Job: job, Scope: "2026-11-29", OnDuplicate: store.Skip, Items: make([]store.NewItem, store.MaxRows)}
	for i := range e.Items {
		e.Items[i] = store.NewItem{Key: fmt.Appendf(nil, "store-%08d", n+i), Delay: delay}
	}
	return e
}

func BenchmarkEnqueue(b *testing.B) {
	db := openFresh(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := db.Enqueue(context.Background(), portionOf("pos", n, 0)); err != nil {
			b.Fatal(err)
		}
		n += store.MaxRows
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}

// The goal is less than 5 ms a claim, whatever else is in the file.
func BenchmarkClaim(b *testing.B) {
	db := openLarge(b)
	run := register(b, db, rand.Text())
	req := store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{spec("pos")}, Max: 100, Lease: time.Minute}
	for b.Loop() {
		c, err := db.Claim(context.Background(), req)
		if err != nil || len(c.Items) != 100 {
			b.Fatal(len(c.Items), err)
		}
		if _, err := db.Release(context.Background(), run, heldOf(c)); err != nil {
			b.Fatal(err)
		}
	}
}

// With nothing to take beside all the others, of the wanted job or in the
// wanted scope (pg-boss#72, #228): the goal is the same.
func BenchmarkClaimNothing(b *testing.B) {
	db := openLarge(b)
	run := register(b, db, rand.Text())
	for _, c := range []struct {
		name, job string
		scope     *string
	}{{"OfTheJob", "other", nil}, {"InTheScope", "pos", new("2026-11-30")}} {
		req := store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{spec(c.job)}, Max: 100, Lease: time.Minute, Scope: c.scope}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				c, err := db.Claim(context.Background(), req)
				if err != nil || len(c.Items) != 0 {
					b.Fatal(len(c.Items), err)
				}
			}
		})
	}
}

// One item's result and the start of the next, one transaction an item.
func BenchmarkAdvance(b *testing.B) {
	db := openFresh(b)
	run := register(b, db, rand.Text())
	sp := spec("pos")
	req := store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{sp}, Max: store.MaxRows, Lease: time.Minute}
	var waiting []store.Held
	var running []store.Settlement
	n := 0
	for b.Loop() {
		if len(waiting) == 0 {
			b.StopTimer()
			if _, err := db.Enqueue(context.Background(), portionOf("pos", n, 0)); err != nil {
				b.Fatal(err)
			}
			c, err := db.Claim(context.Background(), req)
			if err != nil {
				b.Fatal(err)
			}
			waiting, n = heldOf(c), n+store.MaxRows
			b.StartTimer()
		}
		out, err := db.Advance(context.Background(), store.Advance{Run: run, Settle: running,
			Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: []store.StartItem{{Held: waiting[0], Spec: sp}}}}})
		if err != nil || len(out.Started) != 1 || len(out.Stale) != 0 {
			b.Fatal(out, err)
		}
		waiting = waiting[1:]
		s := out.Started[0]
		running = []store.Settlement{{Held: s.Held, Attempt: s.Attempt,
			Result: jobs.Result{Duration: time.Millisecond}, Verdict: jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}}}
	}
}

// The goal is less than 30 ms for the whole process, also where the order of
// the line is not that of age.
func BenchmarkStats(b *testing.B) {
	db := openLarge(b)
	for _, c := range []struct {
		name     string
		priority int
	}{{"OnePriority", 0}, {"OneUrgent", 1000}, {"OneLow", -100}} {
		if c.priority != 0 {
			e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte(c.name), Priority: c.priority}}}
			_, err := db.Enqueue(context.Background(), e)
			noError(b, err)
		}
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := db.Stats(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
