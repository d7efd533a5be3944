package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A write about a held item names its claim. When that is not the item's any
// more, nothing is written, and the answer says so.
var fencingCases = []testCase{
	{"SettledTwice", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		w.settle(run, done, s)
		w.refused(run, settlement(s, dead))
		w.wantStates("a=done")
		equal(w, w.job("pos").Counters, store.Counters{Done: 1, Stale: 1}, "counters")
	}},
	{"SettledTwiceInOneStep", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		out := w.advance(store.Advance{Run: run, Settle: []store.Settlement{settlement(s, done), settlement(s, dead)}})
		if diff := cmp.Diff([]store.Held{s.Held}, out.Stale); diff != "" {
			w.t.Errorf("stale (-want +got):\n%s", diff)
		}
		w.wantStates("a=done")
	}},
	{"OldAttempt", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		old := settlement(s, done)
		old.Attempt = 0
		w.refused(run, old)
		w.wantStates("a=running")
		w.settle(run, done, s)
	}},
	{"NotStarted", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		w.refused(run, store.Settlement{Held: heldOf(w.claim(run, 1, "pos"))[0], Verdict: done})
		w.wantStates("a=claimed")
	}},
	{"UnknownItem", func(w *world) {
		w.refused(w.register("r"), store.Settlement{Held: store.Held{Item: 999, Claim: 1, Slot: 1}, Attempt: 1, Verdict: done})
	}},
	{"OthersOfTheStepAreWritten", func(w *world) {
		w.add("pos", "a", "b", "c")
		run := w.register("r")
		c := w.claim(run, 3, "pos")
		s := w.advance(store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 2, Items: w.startOf(c).Items}}}).Started
		w.settle(run, done, s[0])
		out := w.advance(store.Advance{Run: run, Settle: []store.Settlement{settlement(s[0], done), settlement(s[1], done)}, Start: []store.Start{w.startOf(c)}})
		equal(w, len(out.Stale), 1, "refused")
		equal(w, len(out.Started), 1, "started")
		equal(w, len(out.Lost), 2, "lost: they are done already")
		w.wantStates("a=done b=done c=running")
	}},
	{"StartedTwice", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		c := w.claim(run, 1, "pos")
		w.start(run, c)
		out := w.advance(store.Advance{Run: run, Start: []store.Start{w.startOf(c)}})
		if diff := cmp.Diff(heldOf(c), out.Lost); diff != "" {
			w.t.Errorf("lost (-want +got):\n%s", diff)
		}
		equal(w, w.item("a").Attempt, 1, "attempts")
	}},
	{"OldOwnerOfAFreedItem", func(w *world) {
		// Both hold a token for the same item; only the newer one opens.
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		c1 := w.claim(r1, 1, "pos")
		must(w.db.TakeOver(w.ctx, r1, r2, store.DeathLease, lease))(w)
		c2 := must(w.other().Claim(w.ctx, w.request(r2, 1, "pos")))(w)
		w.wantKeys(c2, "a")
		equal(w, len(w.advance(store.Advance{Run: r1, Start: []store.Start{w.startOf(c1)}}).Lost), 1, "lost")
		equal(w, must(w.db.Release(w.ctx, r1, heldOf(c1)))(w), 0, "released by the old owner")
		w.wantStates("a=claimed")
		s := w.start(r2, c2)
		equal(w, must(w.db.Release(w.ctx, r1, heldOf(c1)))(w), 0, "released by the old owner")
		w.refused(r1, store.Settlement{Held: heldOf(c1)[0], Attempt: 1, Verdict: dead})
		w.settle(r2, done, s...)
		w.wantStates("a=done")
	}},
	{"OldOwnerOfARunningItem", func(w *world) {
		// delayed_job#554, delayed_job_active_record#193: the old owner's late
		// error clears nothing of the new one's.
		w.add("pos", "a")
		r1, r2, r3 := w.register("r1"), w.register("r2"), w.register("r3")
		s1 := w.start(r1, w.claim(r1, 1, "pos"))[0]
		must(w.db.TakeOver(w.ctx, r1, r2, store.DeathLease, lease))(w)
		o := w.orphan(r2)
		w.refused(r1, settlement(s1, retry(time.Second)))
		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		s2 := w.start(r2, w.claim(r2, 1, "pos"))
		w.refused(r1, settlement(s1, retry(time.Second)))
		equal(w, len(w.claim(r3, 100, "pos").Items), 0, "items for a third run")
		w.wantStates("a=running")
		w.settle(r2, done, s2...)
		equal(w, w.job("pos").Counters.Stale, 2, "refused results")
		it := w.item("a")
		equal(w, [3]int{it.Attempt, it.Failures, it.Crashes}, [3]int{2, 0, 1}, "attempts, failures, crashes")
	}},
}

// refused sends a result that must not be taken.
func (w *world) refused(run int64, s store.Settlement) {
	w.t.Helper()
	out := w.advance(store.Advance{Run: run, Settle: []store.Settlement{s}})
	if diff := cmp.Diff([]store.Held{s.Held}, out.Stale); diff != "" {
		w.t.Errorf("stale (-want +got):\n%s", diff)
	}
}

// orphan is the only item that run has taken over.
func (w *world) orphan(run int64) store.Orphan {
	w.t.Helper()
	os := must(w.db.Orphans(w.ctx, run))(w)
	if len(os) != 1 {
		w.t.Fatalf("run %d has %d orphans, want 1", run, len(os))
	}
	return os[0]
}

var releaseCases = []testCase{
	{"BackToItsPlace", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		c := w.claim(run, 1, "pos")
		w.clock.Move(time.Hour)
		equal(w, must(w.db.Release(w.ctx, run, heldOf(c)))(w), 1, "released")
		it := w.item("a")
		equal(w, it.Due, dawn.UTC(), "due")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{}, "attempt and budgets")
		w.wantKeys(w.claim(run, 100, "pos"), "a b")
		equal(w, w.job("pos").Counters, store.Counters{}, "counters")
	}},
	{"StartedOnesArePassedOver", func(w *world) {
		w.add("pos", "a", "b", "c")
		run := w.register("r")
		c := w.claim(run, 3, "pos")
		w.advance(store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c).Items}}})
		equal(w, must(w.db.Release(w.ctx, run, heldOf(c)))(w), 2, "released")
		equal(w, must(w.db.Release(w.ctx, run, heldOf(c)))(w), 0, "released once more")
		w.wantStates("a=running b=ready c=ready")
		equal(w, len(must(w.db.Renew(w.ctx, run, lease))(w)), 1, "claims: one still holds an item")
	}},
	{"EmptyClaimGoes", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		must(w.db.Release(w.ctx, run, heldOf(w.claim(run, 2, "pos"))))(w)
		equal(w, len(must(w.db.Renew(w.ctx, run, lease))(w)), 0, "claims")
		equal(w, must(w.db.Release(w.ctx, run, nil))(w), 0, "released of nothing")
	}},
	{"WrongClaim", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		held := heldOf(w.claim(run, 1, "pos"))
		held[0].Claim++
		equal(w, must(w.db.Release(w.ctx, run, held))(w), 0, "released")
		w.wantStates("a=claimed")
	}},
}
