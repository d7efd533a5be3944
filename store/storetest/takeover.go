package storetest

import (
	"errors"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var takeoverCases = []testCase{
	{"UnstartedAreFree", func(w *world) {
		// Ready at once, first in line, nothing charged.
		w.add("pos", "a", "b", "c")
		r1, r2 := w.register("r1"), w.register("r2")
		w.claim(r1, 2, "pos")
		w.clock.Move(time.Second)
		equal(w, w.takeOver(r1, r2), store.Taken{Freed: 2}, "taken")
		a := w.item("a")
		equal(w, [4]int{a.Attempt, a.Failures, a.Crashes, a.Defers}, [4]int{}, "attempt and budgets")
		w.wantKeys(w.claim(r2, 100, "pos"), "a b c")
		equal(w, len(must(w.db.OtherRuns(w.ctx, r2))(w)), 0, "the dead run is over")
		equal(w, w.takeOver(r1, r2), store.Taken{}, "taken once more")
	}},
	{"StartedStayCounted", func(w *world) {
		w.spec("pos").Uses = map[string]int{"db": 3}
		w.enqueue(store.Enqueue{Job: "pos", Scope: "today", Items: []store.NewItem{{Key: []byte("a"), Priority: 4}, {Key: []byte("b")}}})
		r1, r2 := w.register("r1"), w.register("r2")
		s := w.start(r1, w.claim(r1, 1, "pos"))[0]
		w.advance(store.Advance{Run: r1, Pids: []store.Process{{Held: s.Held, PID: 815, Start: 77}}})
		w.clock.Move(5 * time.Second)
		equal(w, w.takeOver(r1, r2), store.Taken{Orphans: 1}, "taken")
		w.wantStates("a=running b=ready")
		o := w.orphan(r2)
		equal(w, o.Claim > s.Claim, true, "a claim of its own")
		want := store.Orphan{Held: o.Held, It: &jobs.Item{ID: s.Item, Job: "pos", Scope: "today", Key: []byte("a"), State: jobs.Running, Priority: 4, Generation: 1, Attempt: 1},
			Policy: w.spec("pos").Policy, PID: 815, PIDStart: 77, Age: 5 * time.Second, Attempt: 1,
			Owner: store.RunInfo{ID: r1, Token: "r1", PID: 4711, PIDStart: 99, BootID: "boot", PIDNS: "ns", Host: "host",
				Command: []string{"batchq", "work"}, Started: o.Owner.Ended.Add(-5 * time.Second), Ended: w.clock.Now()}}
		equal(w, o.Item, s.Item, "item")
		equal(w, o.Slot, s.Slot, "slot")
		want.It.Due = o.It.Due
		if diff := cmp.Diff(want, o); diff != "" {
			w.t.Errorf("orphan (-want +got):\n%s", diff)
		}
		slot := must(w.db.Stats(w.ctx))(w).Slots[0]
		equal(w, slot.Orphan, true, "the slot is an orphan's")
		equal(w, slot.Run, r2, "run that has the slot")
		req := w.request(r2, 100, "pos")
		req.Limits.Lanes = map[string]int{jobs.Serial: 1}
		equal(w, must(w.db.Claim(w.ctx, req))(w).LaneFull, true, "the lane is full until the orphan is settled")
		req.Limits = store.Limits{Pools: map[string]int{"db": 5}}
		equal(w, must(w.db.Claim(w.ctx, req))(w).Passed, 1, "the pool is taken until the orphan is settled")

		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		it := w.item("a")
		equal(w, it.State, jobs.Ready, "state")
		equal(w, [3]int{it.Attempt, it.Failures, it.Crashes}, [3]int{1, 0, 1}, "attempt, failures, crashes")
		equal(w, it.Class, jobs.ClassCrash, "class")
		equal(w, len(must(w.db.Orphans(w.ctx, r2))(w)), 0, "orphans left")
		equal(w, len(must(w.db.Renew(w.ctx, r2, lease))(w)), 0, "claims left")
		c := w.job("pos").Counters
		equal(w, c, store.Counters{Crashes: 1}, "counters")
	}},
	{"DroppedByAPerson", func(w *world) {
		// Where what is left can't be ended, a person may know better; while
		// its run lives, a running item is nobody's to drop.
		w.add("pos", "a", "b")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		a := []int64{w.item("a").ID}
		refused := must(w.db.Drop(w.ctx, a))(w)
		equal(w, refused.Moved, 0, "dropped while its run lives")
		w.takeOver(r1, r2)
		o := w.orphan(r2)
		equal(w, must(w.db.Drop(w.ctx, a))(w).Moved, 1, "dropped")
		w.wantStates("a=dropped b=ready")
		equal(w, len(must(w.db.Orphans(w.ctx, r2))(w)), 0, "orphans left")
		equal(w, len(must(w.db.Stats(w.ctx))(w).Slots), 0, "slots in use")
		equal(w, errors.Is(w.db.SettleOrphan(w.ctx, r2, o, crashed), store.ErrStale), true, "settled after all")
		w.add("pos", "a")
		w.wantStates("a=dropped b=ready a=ready")
	}},
	{"SettledOnce", func(w *world) {
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		o := w.orphan(r2)
		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		w.stale(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		equal(w, w.item("a").Crashes, 1, "crashes")
		equal(w, w.job("pos").Counters.Crashes, 1, "crashes counted")
	}},
	{"SettledByItsOwnerOnly", func(w *world) {
		w.add("pos", "a")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		o := w.orphan(r2)
		w.stale(w.db.SettleOrphan(w.ctx, r3, o, crashed))
		equal(w, len(must(w.db.Orphans(w.ctx, r3))(w)), 0, "orphans of another run")
		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
	}},
	{"AtTheLimitItIsDead", func(w *world) {
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		w.clock.Move(time.Second)
		o := w.orphan(r2)
		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashDead))
		d := must(w.db.DeadLetters(w.ctx, store.Selection{Class: jobs.ClassCrash}))(w)
		equal(w, len(d), 1, "dead letters of class crash")
		want := &store.AttemptRow{Number: 1, Run: r1, Claim: o.Claim, Class: jobs.ClassCrash, Reason: crashDead.Reason, Started: dawn.UTC(), Duration: time.Second}
		if diff := cmp.Diff(want, d[0].Last); diff != "" {
			w.t.Errorf("attempt (-want +got):\n%s", diff)
		}
	}},
	{"Lapse", func(w *world) {
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		must(w.db.TakeOver(w.ctx, r1, r2, store.DeathLease, lease))(w)
		w.noError(w.db.SettleOrphan(w.ctx, r2, w.orphan(r2), crashed))
		equal(w, w.job("pos").Counters, store.Counters{Crashes: 1, Lapses: 1}, "counters")
	}},
	{"ThirdRun", func(w *world) {
		// The rescuer dies before it has settled: the run that started the item
		// stays its owner on record, and one crash is charged.
		w.add("pos", "a", "b")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		own := w.start(r2, w.claim(r2, 1, "pos"))[0]
		old := w.orphan(r2)
		equal(w, w.takeOver(r2, r3), store.Taken{Orphans: 2}, "taken by the third")
		w.stale(w.db.SettleOrphan(w.ctx, r2, old, crashed))
		owners := map[int64]int64{}
		for _, o := range must(w.db.Orphans(w.ctx, r3))(w) {
			owners[o.Item] = o.Owner.ID
			w.noError(w.db.SettleOrphan(w.ctx, r3, o, crashed))
		}
		if diff := cmp.Diff(map[int64]int64{old.Item: r1, own.Item: r2}, owners); diff != "" {
			w.t.Errorf("owners by item (-want +got):\n%s", diff)
		}
		equal(w, w.item("a").Crashes, 1, "crashes of a")
		equal(w, w.item("b").Crashes, 1, "crashes of b")
		w.wantStates("a=ready b=ready")
	}},
	{"EndedWithOrphans", func(w *world) {
		// A rescuer that ends before it could settle leaves them to the next.
		w.add("pos", "a")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		w.noError(w.db.EndRun(w.ctx, r2, store.RunEnd{Outcome: "finished"}))
		w.wantStates("a=running")
		equal(w, w.otherRun(r3, r2).Held, 1, "held by the run that ended")
		equal(w, w.takeOver(r2, r3), store.Taken{Orphans: 1}, "taken")
		equal(w, w.orphan(r3).Owner.ID, r1, "owner")
		w.noError(w.db.SettleOrphan(w.ctx, r3, w.orphan(r3), crashed))
		equal(w, len(must(w.db.OtherRuns(w.ctx, r3))(w)), 0, "other runs")
	}},
	{"PolicyOfTheRunThatStartedIt", func(w *world) {
		w.add("pos", "a", "b")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.spec("pos").Policy.OnCrash = jobs.CrashDead
		w.spec("pos").Policy.Timeout = 42 * time.Second
		w.start(r1, w.claim(r1, 1, "pos"))
		w.specs["pos"] = nil
		w.claim(r2, 1, "pos") // works the job in another way
		w.takeOver(r1, r3)
		p := w.orphan(r3).Policy
		equal(w, p.OnCrash, jobs.CrashDead, "on_crash")
		equal(w, p.Timeout, 42*time.Second, "timeout")
	}},
	{"More", func(w *world) {
		w.add("pos", numbered(2500)...)
		r1, r2 := w.register("r1"), w.register("r2")
		for range 5 {
			w.claim(r1, 500, "pos")
		}
		var started store.Claim
		w.add("pos", "running")
		started = w.claim(r1, 1, "pos")
		w.start(r1, started)
		freed, orphans, rounds := 0, 0, 0
		for more := true; more; rounds++ {
			taken := w.takeOver(r1, r2)
			equal(w, taken.Freed <= store.MaxRows, true, "%d freed in one transaction", taken.Freed)
			freed, orphans, more = freed+taken.Freed, orphans+taken.Orphans, taken.More
			if rounds > 5 {
				w.t.Fatalf("still more after %d rounds", rounds)
			}
		}
		equal(w, [2]int{freed, orphans}, [2]int{2500, 1}, "freed, orphans")
		equal(w, w.counts(), store.Counts{Enqueued: 2501, Ready: 2500, Running: 1}, "counts")
	}},
	{"OnlyTheDead", func(w *world) {
		w.add("pos", "a", "b", "c", "d")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.start(r2, w.claim(r2, 1, "pos"))
		w.claim(r2, 1, "pos")
		w.takeOver(r1, r3)
		w.wantStates("a=running b=running c=claimed d=ready")
		equal(w, len(must(w.db.Renew(w.ctx, r2, lease))(w)), 2, "claims of the run that lives")
	}},
	{"TwoRescuers", func(w *world) {
		w.add("pos", "a", "b")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		c := w.claim(r1, 2, "pos")
		w.advance(store.Advance{Run: r1, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c).Items}}})
		equal(w, w.takeOver(r1, r2), store.Taken{Freed: 1, Orphans: 1}, "taken by the first")
		other := w.other()
		equal(w, must(other.TakeOver(w.ctx, r1, r3, store.DeathLock, lease))(w), store.Taken{}, "taken by the second")
		equal(w, len(must(other.Orphans(w.ctx, r3))(w)), 0, "orphans of the second")
		equal(w, w.orphan(r2).Owner.ID, r1, "owner")
	}},
	{"ClockSetBack", func(w *world) {
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.clock.Move(-time.Hour)
		w.takeOver(r1, r2)
		equal(w, w.orphan(r2).Age, 0, "age of what was started in the future")
		// From now on it grows, or a wait for its timeout would have no end.
		w.clock.Move(time.Minute)
		equal(w, w.orphan(r2).Age, time.Minute, "age a minute later")
	}},
	{"OrphansAreRenewed", func(w *world) {
		w.add("pos", "a")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.takeOver(r1, r2)
		w.clock.Move(lease)
		equal(w, w.otherRun(r3, r2).Lapsed, true, "lapsed")
		must(w.db.Renew(w.ctx, r2, lease))(w)
		equal(w, w.otherRun(r3, r2).Lapsed, false, "lapsed after a renewal")
	}},
}

func (w *world) takeOver(dead, by int64) store.Taken {
	w.t.Helper()
	return must(w.db.TakeOver(w.ctx, dead, by, store.DeathLock, lease))(w)
}

func (w *world) stale(err error) {
	w.t.Helper()
	if !errors.Is(err, store.ErrStale) {
		w.t.Errorf("got %v, want %v", err, store.ErrStale)
	}
}
