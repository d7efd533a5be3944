package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A pause holds from its commit on, in every run, and for what is held too.
var pauseCases = []testCase{
	{"Everything", func(w *world) { w.barredBy(store.Target{}, "") }},
	{"Lane", func(w *world) { w.barredBy(store.Target{Lane: jobs.Serial}, "x") }},
	{"Job", func(w *world) { w.barredBy(store.Target{Job: "pos"}, "x") }},
	{"OthersGoOn", func(w *world) {
		// Also what is held of them, in the lane of a job that is paused.
		w.add("pos", "a")
		w.add("other", "b")
		run := w.register("r")
		c := w.claim(run, 2, "pos", "other")
		w.pause(store.Target{Job: "pos"}, store.Target{Lane: "parallel"}, store.Target{Job: "unknown"})
		w.wantStates("a=ready b=claimed")
		out := w.advance(store.Advance{Run: run, Start: []store.Start{w.startOf(c)}})
		equal(w, startedKeys(c, out.Started), "b ", "started")
		w.wantKeys(w.claim(run, 2, "pos", "other"), "")
	}},
	{"LaneOfTheStart", func(w *world) {
		// Which lane counts is where it is to start, whatever was the job's.
		w.add("pos", "a")
		run := w.register("r")
		s := w.startOf(w.claim(run, 1, "pos"))
		w.pause(store.Target{Lane: "parallel"})
		s.Lane = "parallel"
		out := w.advance(store.Advance{Run: run, Start: []store.Start{s}})
		equal(w, len(out.Started), 0, "started in a lane that is paused")
		equal(w, out.Full["parallel"].Passed, 1, "passed over")
		s.Lane = jobs.Serial
		equal(w, len(w.advance(store.Advance{Run: run, Start: []store.Start{s}}).Started), 1, "started in the other")
	}},
	{"SaidOnce", func(w *world) {
		// The widest pause is named, and that of a lane not for each job of it.
		w.add("pos", "a")
		w.add("other", "b")
		w.add("idle")
		run := w.register("r")
		holds := func(want ...store.Hold) {
			w.t.Helper()
			w.wantHolds(w.claim(run, 9, "pos", "other", "idle"), want...)
		}
		pos, other, lane, all := store.Target{Job: "pos"}, store.Target{Job: "other"}, store.Target{Lane: jobs.Serial}, store.Target{}
		w.pause(other, pos)
		holds(w.holdOf(pos), w.holdOf(other))
		w.pause(lane)
		holds(w.holdOf(lane))
		w.pause(all)
		holds(w.holdOf(all))
		must(w.db.Resume(w.ctx, []store.Target{all, lane, pos}))(w)
		w.wantKeys(w.claim(run, 9, "pos"), "a")
		holds(w.holdOf(other))
	}},
	{"OnlyOfWhatIsReady", func(w *world) {
		w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("a")}}})
		run := w.register("r")
		w.pause(store.Target{})
		r := w.request(run, 9, "pos")
		r.Scope = ptr("mon")
		w.wantHolds(must(w.db.Claim(w.ctx, r))(w))
		r.Scope = ptr("tue")
		w.wantHolds(must(w.db.Claim(w.ctx, r))(w), w.holdOf(store.Target{}))
	}},
	{"Again", func(w *world) {
		// The new reason counts, and the time of the first.
		job := store.Target{Job: "pos"}
		w.noError(w.db.Pause(w.ctx, []store.Target{job}, "ann", "the bank is down"))
		w.clock.Move(time.Hour)
		w.noError(w.other().Pause(w.ctx, []store.Target{job}, "bob", ""))
		w.wantPauses(must(w.db.Stats(w.ctx))(w).Pauses, store.Pause{Target: job, Since: dawn.UTC(), By: "bob"})
	}},
	{"Resume", func(w *world) {
		a, b, lane, other, all := store.Target{Job: "a"}, store.Target{Job: "b"}, store.Target{Lane: "b"}, store.Target{Lane: "c"}, store.Target{}
		was := func(ts ...store.Target) (ps []store.Pause) {
			for _, t := range ts {
				ps = append(ps, store.Pause{Target: t, Since: dawn.UTC(), By: "ann", Reason: "why"})
			}
			return ps
		}
		w.pause(b, other, all, lane, a)
		// Everything, then lanes, then jobs, each by name.
		w.wantPauses(must(w.db.Stats(w.ctx))(w).Pauses, was(all, lane, other, a, b)...)
		w.wantPauses(must(w.db.Resume(w.ctx, []store.Target{}))(w))
		w.wantPauses(must(w.db.Resume(w.ctx, []store.Target{b, {Lane: "a"}, {Job: "c"}}))(w), was(b)...)
		w.wantPauses(must(w.db.Resume(w.ctx, []store.Target{b}))(w))
		w.wantPauses(must(w.db.Resume(w.ctx, []store.Target{all}))(w), was(all)...)
		w.wantPauses(must(w.other().Resume(w.ctx, nil))(w), was(lane, other, a)...)
		w.wantPauses(must(w.db.Stats(w.ctx))(w).Pauses)
	}},
	{"TakesBackAll", func(w *world) {
		// More than one transaction may touch, and of several runs.
		w.add("pos", numbered(2300)...)
		r1, r2 := w.register("r1"), w.register("r2")
		for range 3 {
			w.claim(r1, 600, "pos")
		}
		started := w.start(r2, w.claim(r2, 3, "pos"))
		w.claim(r2, 400, "pos")
		w.pause(store.Target{})
		equal(w, w.counts(), store.Counts{Enqueued: 2300, Ready: 2297, Running: 3}, "counts")
		w.settle(r2, done, started...)
		must(w.db.Resume(w.ctx, nil))(w)
		w.wantKeys(w.claim(r2, 2, "pos"), "k0001 k0002")
	}},
	{"TakesBackForFree", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		w.claim(run, 1, "pos")
		w.pause(store.Target{Lane: jobs.Serial})
		a := w.item("a")
		equal(w, [4]int{a.Attempt, a.Failures, a.Crashes, a.Defers}, [4]int{}, "attempt and budgets")
		w.noError(w.db.EndRun(w.ctx, run, store.RunEnd{}))
		must(w.db.Resume(w.ctx, nil))(w)
		w.wantKeys(w.claim(w.register("r2"), 2, "pos"), "a b")
	}},
	{"InHand", func(w *world) {
		w.add("pos", numbered(5)...)
		w.add("heavy", "h")
		w.spec("heavy").Lane = "parallel"
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 2, "pos"))
		w.clock.Move(time.Second)
		w.start(r2, w.claim(r2, 1, "pos"))
		w.claim(r2, 1, "pos")
		r := w.request(r2, 1, "heavy")
		r.Lane = "parallel"
		w.clock.Move(time.Second)
		w.start(r2, must(w.db.Claim(w.ctx, r))(w))
		first := store.Holder{Run: r1, Since: dawn.UTC(), Slots: 2}
		second := store.Holder{Run: r2, Since: dawn.UTC().Add(time.Second), Slots: 1}
		both := second
		both.Slots = 2
		for _, c := range []struct {
			target store.Target
			want   store.InHand
		}{
			{store.Target{}, store.InHand{Claimed: 1, Running: 4, Holders: []store.Holder{first, both}}},
			{store.Target{Lane: jobs.Serial}, store.InHand{Claimed: 1, Running: 3, Holders: []store.Holder{first, second}}},
			{store.Target{Job: "pos"}, store.InHand{Claimed: 1, Running: 3, Holders: []store.Holder{first, second}}},
			{store.Target{Job: "heavy"}, store.InHand{Running: 1, Holders: []store.Holder{{Run: r2, Since: dawn.UTC().Add(2 * time.Second), Slots: 1}}}},
			{store.Target{Lane: "parallel"}, store.InHand{Running: 1, Holders: []store.Holder{{Run: r2, Since: dawn.UTC().Add(2 * time.Second), Slots: 1}}}},
			{store.Target{Lane: "unknown"}, store.InHand{}},
			{store.Target{Job: "unknown"}, store.InHand{}},
		} {
			if diff := cmp.Diff(c.want, must(w.other().InHand(w.ctx, c.target))(w)); diff != "" {
				w.t.Errorf("in hand of %s (-want +got):\n%s", c.target, diff)
			}
		}
	}},
	{"LaneNames", func(w *world) {
		w.add("pos", "a", "b")
		equal(w, len(must(w.db.LaneNames(w.ctx))(w)), 0, "lanes in which something was worked")
		run := w.register("r")
		for _, lane := range []string{"parallel", "night"} {
			r := w.request(run, 1, "pos")
			r.Lane = lane
			w.start(run, must(w.db.Claim(w.ctx, r))(w))
		}
		// The job's last one, and one that has a slot.
		if diff := cmp.Diff([]string{"night", "parallel"}, must(w.db.LaneNames(w.ctx))(w)); diff != "" {
			w.t.Errorf("lanes (-want +got):\n%s", diff)
		}
	}},
}

// barredBy pauses a target that job pos in the serial lane belongs to, while
// two runs work it by two handles. stays is what of another job in another
// lane may still be claimed.
func (w *world) barredBy(target store.Target, stays string) {
	w.add("pos", "a", "b", "c", "d")
	w.spec("other").Lane = "parallel"
	w.add("other", "x")
	r1, r2, other := w.register("r1"), w.register("r2"), w.other()
	c1 := w.claim(r1, 3, "pos")
	a := w.advance(store.Advance{Run: r1, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c1).Items}}}).Started[0]
	c2 := must(other.Claim(w.ctx, w.request(r2, 3, "pos")))(w)
	w.wantStates("a=running b=claimed c=claimed d=claimed x=ready")
	before := must(w.db.InHand(w.ctx, target))(w)
	equal(w, [2]int64{before.Claimed, before.Running}, [2]int64{3, 1}, "in hand before")

	w.pause(target)
	w.wantStates("a=running b=ready c=ready d=ready x=ready")
	after := must(w.db.InHand(w.ctx, target))(w)
	equal(w, [2]int64{after.Claimed, after.Running}, [2]int64{0, 1}, "in hand after")

	for i, db := range []store.Store{w.db, other} {
		run, c := []int64{r1, r2}[i], []store.Claim{c1, c2}[i]
		got := must(db.Claim(w.ctx, w.request(run, 9, "pos")))(w)
		w.wantKeys(got, "")
		w.wantHolds(got, w.holdOf(target))
		equal(w, got.Passed, 0, "a pause is no lack of room")
		out := must(db.Advance(w.ctx, store.Advance{Run: run, Start: []store.Start{w.startOf(c)}}))(w)
		equal(w, len(out.Started)+len(out.Lost), 0, "started or lost while it is paused")
		equal(w, out.Full[jobs.Serial].Passed, len(c.Items), "passed over")
	}
	r := w.request(r2, 9, "other")
	r.Lane = "parallel"
	x := must(other.Claim(w.ctx, r))(w)
	w.wantKeys(x, stays)
	w.settle(r1, done, a) // what runs may finish

	ended := must(other.Resume(w.ctx, []store.Target{target}))(w)
	w.wantPauses(ended, store.Pause{Target: target, Since: dawn.UTC(), By: "ann", Reason: "why"})
	// The tokens of before are worth nothing: others may have had the items.
	out := w.advance(store.Advance{Run: r1, Start: []store.Start{w.startOf(c1)}})
	equal(w, len(out.Started), 0, "started by a token of before")
	equal(w, len(out.Lost), 3, "lost")
	w.wantKeys(must(other.Claim(w.ctx, w.request(r2, 9, "pos")))(w), "b c d")
}

// pause pauses targets as ann.
func (w *world) pause(targets ...store.Target) {
	w.t.Helper()
	w.noError(w.db.Pause(w.ctx, targets, "ann", "why"))
}

// holdOf is what claims say while a target is paused, since dawn.
func (w *world) holdOf(t store.Target) store.Hold {
	return store.Hold{Job: t.Job, Pause: &store.Pause{Target: t, Since: dawn.UTC(), By: "ann", Reason: "why"}}
}

func (w *world) wantHolds(c store.Claim, want ...store.Hold) {
	w.t.Helper()
	if diff := cmp.Diff(want, c.Holds); diff != "" {
		w.t.Errorf("holds (-want +got):\n%s", diff)
	}
}

func (w *world) wantPauses(got []store.Pause, want ...store.Pause) {
	w.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("pauses (-want +got):\n%s", diff)
	}
}
