package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"batchq/jobs"
	"batchq/store"
)

var concurrentCases = []testCase{
	{"EachOnce", func(w *world) {
		// huey#123, apscheduler#959, solid_queue#735: several processes at once,
		// each item once, and never more in flight than the lane allows.
		const workers, items, limit = 4, 200, 3
		w.add("pos", numbered(items)...)
		var executions sync.Map
		var inFlight, most atomic.Int64
		var wg sync.WaitGroup
		for i := range workers {
			r, db := w.request(w.register(fmt.Sprint("run ", i)), 10, "pos"), w.other()
			r.Limits.Lanes = map[string]int{jobs.Serial: limit}
			wg.Go(func() {
				w.work(db, r, func(s store.Started) {
					n := inFlight.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					count, _ := executions.LoadOrStore(s.Item, new(atomic.Int64))
					count.(*atomic.Int64).Add(1)
				}, func() { inFlight.Add(-1) })
			})
		}
		wg.Wait()
		equal(w, w.counts(), store.Counts{Enqueued: items, Done: items}, "counts")
		executions.Range(func(item, count any) bool {
			equal(w, count.(*atomic.Int64).Load(), 1, "executions of item %v", item)
			return true
		})
		equal(w, most.Load() <= limit, true, "%d at most in flight, with a limit of %d", most.Load(), limit)
	}},
	{"ProducersRace", func(w *world) {
		// The key decides who was first: each is added once, whoever came with it.
		const producers = 4
		var added atomic.Int64
		var wg sync.WaitGroup
		for range producers {
			db := w.other()
			wg.Go(func() {
				for _, k := range numbered(50) {
					out, err := db.Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte(k)}}})
					if err != nil {
						w.t.Errorf("%v", err)
						return
					}
					if out.Outcomes[0] == store.Added {
						added.Add(1)
					}
				}
			})
		}
		wg.Wait()
		equal(w, added.Load(), 50, "said to be added")
		equal(w, w.counts(), store.Counts{Enqueued: 50, Ready: 50}, "counts")
		equal(w, w.job("pos").Counters.Duplicates, 50*(producers-1), "duplicates")
	}},
}

// work claims, starts and settles until nothing is ready or held any more.
func (w *world) work(db store.Store, r store.ClaimRequest, begin func(store.Started), end func()) {
	for {
		c, err := db.Claim(w.ctx, r)
		if err != nil {
			w.t.Errorf("%v", err)
			return
		}
		if len(c.Items) == 0 && !c.LaneFull {
			return
		}
		waiting := w.startOf(c)
		for len(waiting.Items) > 0 {
			waiting.Want = 1
			out, err := db.Advance(w.ctx, store.Advance{Run: r.Run, Limits: r.Limits, Start: []store.Start{waiting}})
			if err != nil || len(out.Lost) > 0 {
				w.t.Errorf("%+v, %v", out.Lost, err)
				return
			}
			for _, s := range out.Started {
				waiting.Items = waiting.Items[1:]
				begin(s)
				end()
				a := store.Advance{Run: r.Run, Settle: []store.Settlement{settlement(s, done)}, Close: []int64{s.Claim}}
				if out, err := db.Advance(w.ctx, a); err != nil || len(out.Stale) > 0 {
					w.t.Errorf("%+v, %v", out.Stale, err)
					return
				}
			}
		}
	}
}
