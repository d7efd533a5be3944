package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var leaseCases = []testCase{
	{"Register", func(w *world) {
		r := store.RunInfo{Token: "token", PID: 4711, PIDStart: 1<<62 + 5, BootID: "boot", PIDNS: "pid:[4026531836]", Host: "host",
			Command: []string{"batchq", "work", "a b", "\xff"[:0]}}
		r.ID = must(w.db.Register(w.ctx, r))(w)
		r.Started = dawn.UTC()
		second := w.register("second")
		equal(w, second > r.ID, true, "run ids grow")
		others := must(w.other().OtherRuns(w.ctx, second))(w)
		if diff := cmp.Diff([]store.OtherRun{{RunInfo: r}}, others); diff != "" {
			w.t.Errorf("other runs (-want +got):\n%s", diff)
		}
		runs := must(w.db.Stats(w.ctx))(w).Runs
		equal(w, len(runs), 2, "runs in stats")
		if diff := cmp.Diff(r, runs[0]); diff != "" {
			w.t.Errorf("run in stats (-want +got):\n%s", diff)
		}
	}},
	{"SameTokenTwice", func(w *world) {
		w.register("token")
		_, err := w.db.Register(w.ctx, store.RunInfo{Token: "token"})
		equal(w, err != nil, true, "a token names one run for ever")
	}},
	{"Renew", func(w *world) {
		w.add("pos", numbered(6)...)
		r1, r2 := w.register("r1"), w.register("r2")
		a, b, c := w.claim(r1, 2, "pos"), w.claim(r1, 2, "pos"), w.claim(r2, 2, "pos")
		w.start(r1, b)
		w.clock.Move(lease - time.Second)
		if diff := cmp.Diff([]int64{a.ID, b.ID}, must(w.db.Renew(w.ctx, r1, lease))(w)); diff != "" {
			w.t.Errorf("claims that were renewed (-want +got):\n%s", diff)
		}
		w.clock.Move(time.Second)
		equal(w, w.otherRun(r2, r1).Lapsed, false, "r1 has been renewed")
		o := w.otherRun(r1, r2)
		equal(w, o.Lapsed, true, "r2 has not")
		equal(w, o.Held, 2, "held by r2")
		equal(w, o.Since, 0, "lapsed since")
		w.clock.Move(10 * time.Second)
		equal(w, w.otherRun(r1, r2).Since, 10*time.Second, "lapsed since")
		// A lease that has run out can still be renewed by its owner.
		if diff := cmp.Diff([]int64{c.ID}, must(w.other().Renew(w.ctx, r2, 2*lease))(w)); diff != "" {
			w.t.Errorf("claims that were renewed late (-want +got):\n%s", diff)
		}
		w.clock.Move(2*lease - time.Millisecond)
		equal(w, w.otherRun(r1, r2).Lapsed, false, "renewed for longer")
	}},
	{"RenewNothing", func(w *world) {
		equal(w, len(must(w.db.Renew(w.ctx, w.register("r"), lease))(w)), 0, "claims")
		equal(w, len(must(w.db.Renew(w.ctx, 999, lease))(w)), 0, "claims of an unknown run")
	}},
	{"RenewAfterTakeOver", func(w *world) {
		// What was taken over is no longer there to be renewed: so a run learns of it.
		w.add("pos", "a", "b", "c")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "pos"))
		w.claim(r1, 1, "pos")
		w.clock.Move(2 * lease)
		must(w.db.TakeOver(w.ctx, r1, r2, store.DeathLease, lease))(w)
		equal(w, len(must(w.db.Renew(w.ctx, r1, lease))(w)), 0, "claims of the old owner")
		equal(w, len(must(w.db.Renew(w.ctx, r2, lease))(w)), 1, "claims of the new one")
	}},
	{"TwoLooks", func(w *world) {
		w.add("pos", "a")
		r := w.register("r")
		w.claim(r, 1, "pos")
		look := func(since, length time.Duration) {
			w.t.Helper()
			gotSince, gotLength, err := w.db.NoteLapse(w.ctx, r)
			w.noError(err)
			equal(w, [2]time.Duration{gotSince, gotLength}, [2]time.Duration{since, length}, "since the first look, and the lease")
		}
		look(0, 0)
		w.clock.Move(lease - time.Millisecond)
		look(0, 0)
		w.clock.Move(time.Millisecond)
		look(0, lease)
		w.clock.Move(10 * time.Second)
		look(10*time.Second, lease)
		w.clock.Move(20 * time.Second)
		// The first look is in the database: another process completes the wait.
		gotSince, _, err := w.other().NoteLapse(w.ctx, r)
		w.noError(err)
		equal(w, gotSince, 30*time.Second, "since the first look, by another handle")
		must(w.db.Renew(w.ctx, r, lease))(w)
		look(0, 0)
		w.clock.Move(lease)
		look(0, lease)
		w.clock.Move(time.Second)
		look(time.Second, lease)
	}},
	{"TwoLooks/ClockSetBack", func(w *world) {
		// A first look that lies in the future is taken anew, and never makes a
		// negative wait.
		w.add("pos", "a")
		r := w.register("r")
		w.claim(r, 1, "pos")
		w.clock.Move(2 * lease)
		_, _, err := w.db.NoteLapse(w.ctx, r)
		w.noError(err)
		w.clock.Move(-lease / 2)
		since, length, err := w.db.NoteLapse(w.ctx, r)
		w.noError(err)
		equal(w, [2]time.Duration{since, length}, [2]time.Duration{0, lease}, "since the first look, and the lease")
		w.clock.Move(5 * time.Second)
		since, _, err = w.db.NoteLapse(w.ctx, r)
		w.noError(err)
		equal(w, since, 5*time.Second, "since the first look")
	}},
	{"TwoLooks/SeveralClaims", func(w *world) {
		// Claims that lapsed one after another: what counts is the first look.
		w.add("pos", "a", "b", "c")
		r := w.register("r")
		w.claim(r, 1, "pos")
		w.clock.Move(lease / 2)
		w.claim(r, 1, "pos")
		w.clock.Move(lease / 2)
		for i, want := range []time.Duration{0, lease / 2, lease} {
			since, _, err := w.db.NoteLapse(w.ctx, r)
			w.noError(err)
			equal(w, since, want, "look %d", i)
			w.clock.Move(lease / 2)
		}
	}},
	{"NoWaitOutlastsItsCap", func(w *world) {
		// A lease that was written before the clock was set back by a day would
		// hold for a day: it is looked at as if it had run out.
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.claim(r1, 1, "pos")
		w.clock.Move(-24 * time.Hour)
		o := w.otherRun(r2, r1)
		equal(w, o.Lapsed, true, "lapsed")
		equal(w, o.Since, 0, "lapsed since")
		_, length, err := w.db.NoteLapse(w.ctx, r1)
		w.noError(err)
		equal(w, length, lease, "lease at the first look")
		w.clock.Move(lease / 2)
		since, _, err := w.db.NoteLapse(w.ctx, r1)
		w.noError(err)
		equal(w, since, lease/2, "since the first look")
		// A run that lives renews it before the second look.
		must(w.db.Renew(w.ctx, r1, lease))(w)
		equal(w, w.otherRun(r2, r1).Lapsed, false, "lapsed after a renewal")
	}},
	{"EndRun", func(w *world) {
		w.add("pos", "a", "b", "c")
		r1, r2 := w.register("r1"), w.register("r2")
		c := w.claim(r1, 2, "pos")
		w.advance(store.Advance{Run: r1, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c).Items}}})
		w.noError(w.db.EndRun(w.ctx, r1, store.RunEnd{Outcome: "stopped by TERM", PeakBytes: 1 << 40}))
		w.wantStates("a=running b=ready c=ready")
		o := w.otherRun(r2, r1)
		equal(w, o.Ended, true, "ended")
		equal(w, o.Held, 1, "held: what was running")
		equal(w, len(must(w.db.Stats(w.ctx))(w).Runs), 1, "runs that have not ended")
	}},
	{"EndRunHoldingNothing", func(w *world) {
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		w.settle(r1, done, w.start(r1, w.claim(r1, 1, "pos"))...)
		w.noError(w.db.EndRun(w.ctx, r1, store.RunEnd{Outcome: "finished"}))
		equal(w, len(must(w.db.OtherRuns(w.ctx, r2))(w)), 0, "other runs")
	}},
	{"EndRunHoldingMuch", func(w *world) {
		// What it still holds unstarted becomes ready, however much it is.
		for i := range 3 {
			w.add("pos", numbered(700 * (i + 1))[700*i:]...)
		}
		r1, r2 := w.register("r1"), w.register("r2")
		for range 4 {
			w.claim(r1, 700, "pos")
		}
		w.noError(w.db.EndRun(w.ctx, r1, store.RunEnd{Outcome: "finished"}))
		equal(w, w.counts(), store.Counts{Enqueued: 2100, Ready: 2100}, "counts")
		equal(w, len(must(w.db.OtherRuns(w.ctx, r2))(w)), 0, "other runs")
	}},
	{"ManyLiveLeases", func(w *world) {
		// river PR#1318: what is alive must not hide what is dead behind it.
		const live, dead = 490, 5
		w.add("pos", numbered(live+dead)...)
		deadRun := w.register("dead")
		w.clock.Move(-2 * lease) // its claims are made, and lapse, before the others
		r := w.request(0, 1, "pos")
		tail := map[int64]bool{}
		for _, it := range w.items(store.Selection{Limit: live}) {
			tail[it.ID] = true
		}
		r.Run, r.Skip, r.Max = deadRun, tail, dead
		equal(w, len(must(w.db.Claim(w.ctx, r))(w).Items), dead, "claimed by the run that dies")
		w.clock.Move(2 * lease)
		for i := range 7 {
			run := w.register(fmt.Sprint("live ", i))
			for range live / 7 {
				w.claim(run, 1, "pos")
			}
		}
		rescuer := w.register("rescuer")
		for _, o := range must(w.db.OtherRuns(w.ctx, rescuer))(w) {
			equal(w, o.Lapsed, o.ID == deadRun, "run %d has lapsed", o.ID)
		}
		equal(w, must(w.db.TakeOver(w.ctx, deadRun, rescuer, store.DeathLock, lease))(w), store.Taken{Freed: dead}, "taken over")
		equal(w, w.counts(), store.Counts{Enqueued: live + dead, Ready: dead, Claimed: live}, "counts")
	}},
	{"Changed", func(w *world) {
		other := w.other()
		changed := func(db store.Store) bool {
			w.t.Helper()
			return must(db.Changed(w.ctx))(w)
		}
		changed(w.db)
		equal(w, changed(w.db), false, "nothing happened")
		w.add("pos", "a")
		equal(w, changed(w.db), false, "only this handle wrote")
		must(other.Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("b")}}}))(w)
		equal(w, changed(w.db), true, "another handle wrote")
		equal(w, changed(w.db), false, "since then nothing happened")
		must(other.Stats(w.ctx))(w)
		equal(w, changed(w.db), false, "another handle read")
	}},
}

// otherRun is what run sees of one other run.
func (w *world) otherRun(run, other int64) store.OtherRun {
	w.t.Helper()
	for _, o := range must(w.db.OtherRuns(w.ctx, run))(w) {
		if o.ID == other {
			return o
		}
	}
	w.t.Fatalf("run %d does not see run %d", run, other)
	return store.OtherRun{}
}
