package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// Retention on its own goes round and round, a step at a time, whoever takes
// the step.
var sweepCases = []testCase{
	{"GoesRound", func(w *world) {
		keep := map[string]time.Duration{"pos": time.Hour}
		w.done("pos", "", "a")
		w.done("other", "", "x")
		w.add("waits", "ready")
		equal(w, w.sweep(w.db, keep), store.Pruned{Next: w.item("ready").ID}, "swept too early")
		w.clock.Move(time.Hour)
		w.done("pos", "", "b")
		equal(w, w.sweep(w.db, keep), store.Pruned{Done: 1, Next: w.item("b").ID}, "swept after an hour")
		w.wantStates("x=done ready=ready b=done")
		w.clock.Move(time.Hour)
		equal(w, w.sweep(w.db, keep).Done, 1, "swept after two hours")
		w.wantStates("x=done ready=ready")
		equal(w, w.sweep(w.db, nil), store.Pruned{Next: w.item("ready").ID}, "swept when no job is named")
		equal(w, w.counts(), store.Counts{Enqueued: 4, Ready: 1, Done: 1, Pruned: 2}, "counts")
	}},
	{"ContinuesWhereTheLastEnded", func(w *world) {
		// Two processes and one that comes later take one step each.
		const n = 2*store.MaxRows + 500
		w.dropped("pos", numbered(n)...)
		w.clock.Move(time.Second)
		keep := map[string]time.Duration{"pos": time.Second}
		a, b := w.db, w.other()
		first := w.sweep(a, keep)
		equal(w, first, store.Pruned{Dropped: store.MaxRows, Next: first.Next, More: true}, "first step")
		second := w.sweep(b, keep)
		equal(w, second, store.Pruned{Dropped: store.MaxRows, Next: second.Next, More: true}, "second step, by another")
		equal(w, second.Next > first.Next, true, "the second step ends at %d after %d", second.Next, first.Next)
		third := w.sweep(w.other(), keep)
		equal(w, third, store.Pruned{Dropped: 500, Next: third.Next}, "third step, by one that came later")
		equal(w, w.counts(), store.Counts{Enqueued: n, Pruned: n}, "counts")
	}},
	{"BeginsAnew", func(w *world) {
		// What stood in front when it passed is met in the next round, and what
		// stands behind is met in this one.
		old := map[string]time.Duration{"pos": 0}
		w.add("pos", "front")
		front := w.item("front").ID
		w.dropped("pos", numbered(store.MaxRows+1)...)
		equal(w, w.sweep(w.db, old).More, true, "there is more")
		must(w.db.Drop(w.ctx, []int64{front}))(w)
		w.dropped("pos", "behind")
		equal(w, w.sweep(w.db, old).Dropped, 2, "the rest of the round")
		equal(w, len(w.idsOf(store.Selection{})), 1, "items left")
		equal(w, w.sweep(w.other(), old).Dropped, 1, "the next round")
		equal(w, len(w.idsOf(store.Selection{})), 0, "items left")
		equal(w, w.sweep(w.db, old), store.Pruned{}, "a round over nothing")
	}},
	{"AcrossManyThatStay", func(w *world) {
		w.lengthy()
		const many = 20_500
		stay := make([]store.NewItem, many)
		for i := range stay {
			stay[i] = store.NewItem{Key: fmt.Append(nil, i)}
		}
		w.addItems("pos", stay...)
		w.dropped("pos", "last")
		old := map[string]time.Duration{"pos": 0}
		steps, dropped := 0, int64(0)
		for more := true; more; steps++ {
			db := w.db
			if steps%2 == 1 {
				db = w.other()
			}
			p := w.sweep(db, old)
			more, dropped = p.More, dropped+p.Dropped
			if steps > 10 {
				w.t.Fatalf("no end after %d steps", steps)
			}
		}
		equal(w, steps > 1, true, "%d steps", steps)
		equal(w, dropped, 1, "swept")
	}},
}

func (w *world) sweep(db store.Store, keep map[string]time.Duration) store.Pruned {
	w.t.Helper()
	p := must(db.Sweep(w.ctx, keep))(w)
	if p.Done+p.Dropped > store.MaxRows {
		w.t.Fatalf("one step deletes %d items", p.Done+p.Dropped)
	}
	if h := must(w.db.Check(w.ctx))(w); !h.Sound() {
		w.t.Fatalf("after a step: %q %q", h.Integrity, h.Faults)
	}
	return p
}

var pruneRunsCases = []testCase{
	{"Boundary", func(w *world) {
		r1, r2 := w.register("r1"), w.register("r2")
		w.noError(w.db.EndRun(w.ctx, r1, store.RunEnd{}))
		w.clock.Move(time.Second)
		w.noError(w.db.EndRun(w.ctx, r2, store.RunEnd{}))
		w.clock.Move(time.Hour - time.Second - time.Millisecond)
		w.pruneRuns(time.Hour, 0)
		w.wantRuns(store.RunSelection{}, r2, r1)
		w.clock.Move(time.Millisecond)
		w.pruneRuns(time.Hour, 1)
		w.wantRuns(store.RunSelection{}, r2)
		w.clock.Move(-2 * time.Hour)
		w.pruneRuns(0, 0) // it ended in the future
		w.clock.Move(3 * time.Hour)
		w.pruneRuns(0, 1)
		w.wantRuns(store.RunSelection{})
		r3 := w.register("r3")
		equal(w, r3 > r2, true, "run %d after %d", r3, r2)
	}},
	{"NotWhatLives", func(w *world) {
		run := w.register("lives")
		w.clock.Move(10 * 365 * 24 * time.Hour)
		w.pruneRuns(0, 0)
		w.wantRuns(store.RunSelection{}, run)
	}},
	{"NotWhatHolds", func(w *world) {
		// A rescuer that ended before it could settle what it took over, and the
		// run that started it, whose marks its children bear.
		w.add("pos", "a")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		w.clock.Move(time.Hour)
		w.pruneRuns(0, 0) // r1 is dead, its orphan is held
		w.noError(w.db.EndRun(w.ctx, r2, store.RunEnd{}))
		w.clock.Move(time.Hour)
		w.pruneRuns(0, 0)
		w.wantRuns(store.RunSelection{}, r3, r2, r1)
		equal(w, w.takeOver(r2, r3), store.Taken{Orphans: 1}, "taken over")
		w.pruneRuns(0, 1) // r2 started nothing
		o := w.orphan(r3)
		equal(w, o.Owner.ID, r1, "owner")
		equal(w, o.Owner.Token, "r1", "token of the owner")
		w.wantRuns(store.RunSelection{}, r3, r1)
		w.noError(w.db.SettleOrphan(w.ctx, r3, o, crashed))
		w.pruneRuns(0, 1)
		w.wantRuns(store.RunSelection{}, r3)
	}},
	{"WhatIsOnRecordStays", func(w *world) {
		for _, job := range []string{"pos", "other"} {
			w.putIn(jobs.Dead, job, store.NewItem{Key: []byte(job)})
		}
		for _, r := range must(w.db.Runs(w.ctx, store.RunSelection{}))(w) {
			w.noError(w.db.EndRun(w.ctx, r.ID, store.RunEnd{}))
		}
		before := must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)
		w.pruneRuns(0, 2)
		if diff := cmp.Diff(before, must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)); diff != "" {
			w.t.Errorf("dead letters (-before +after):\n%s", diff)
		}
	}},
	{"Many", func(w *world) {
		const n = 600
		for i := range n {
			id := w.register(fmt.Sprint("r", i))
			w.noError(w.db.EndRun(w.ctx, id, store.RunEnd{}))
		}
		lives := w.register("lives")
		w.pruneRuns(0, n)
		w.wantRuns(store.RunSelection{}, lives)
	}},
}

// pruneRuns prunes runs to the end and wants so many to go, and a dry run to
// say so.
func (w *world) pruneRuns(age time.Duration, want int) {
	w.t.Helper()
	equal(w, must(w.other().PruneRuns(w.ctx, age, true))(w), want, "runs that a dry run counts")
	got := 0
	for {
		n := must(w.db.PruneRuns(w.ctx, age, false))(w)
		if n > store.MaxRows {
			w.t.Fatalf("one step deletes %d runs", n)
		}
		if h := must(w.db.Check(w.ctx))(w); !h.Sound() {
			w.t.Fatalf("after a step: %q %q", h.Integrity, h.Faults)
		}
		if n == 0 {
			break
		}
		got += n
	}
	equal(w, got, want, "runs pruned")
}
