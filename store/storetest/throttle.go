package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A server that says that it is too much holds the whole job, in every run.
var throttleCases = []testCase{
	{"HoldsTheJobInEveryRun", func(w *world) {
		run := w.broken("pos", 1, "a", "b", "c")
		w.add("other", "x")
		r2, other := w.register("r2"), w.other()
		held := must(other.Claim(w.ctx, store.ClaimRequest{Run: r2, Lane: jobs.Serial, Jobs: w.specsOf("pos"), Max: 1, Lease: lease}))(w)
		out := w.end(run, "pos", throttledFor(time.Minute), w.startNext(run, "pos", "b")...)
		if diff := cmp.Diff([]store.Throttled{{Job: "pos", For: time.Minute, Reason: "HTTP 429"}}, out.Throttled); diff != "" {
			w.t.Errorf("throttled (-want +got):\n%s", diff)
		}
		equal(w, len(out.Tripped), 0, "a breaker of one failure is not fed")
		now := w.clock.Now().UTC()
		want := &store.Throttle{Since: now, Until: now.Add(time.Minute), Gap: 100 * time.Millisecond, Reason: "HTTP 429"}
		for _, db := range []store.Store{w.db, other} {
			c := must(db.Claim(w.ctx, w.request(run, 9, "pos")))(w)
			w.wantKeys(c, "")
			w.wantHolds(c, store.Hold{Job: "pos", Throttle: want})
			equal(w, c.NextDue, time.Minute, "until one may be tried")
			out := must(db.Advance(w.ctx, store.Advance{Run: r2, Start: []store.Start{w.startOf(held)}}))(w)
			equal(w, len(out.Started), 0, "started of what was held")
			equal(w, out.Full[jobs.Serial].Passed, 1, "passed over")
		}
		if diff := cmp.Diff(want, w.job("pos").Throttle); diff != "" {
			w.t.Errorf("throttle in stats (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, w.story(w.item("c").ID).Throttle); diff != "" {
			w.t.Errorf("throttle in the story (-want +got):\n%s", diff)
		}
		equal(w, w.job("pos").Counters, store.Counters{Retries: 1, Throttled: 1}, "counters")
		w.wantKeys(w.claim(run, 9, "pos", "other"), "x")
		w.clock.Move(time.Minute)
		equal(w, len(must(other.Advance(w.ctx, store.Advance{Run: r2, Start: []store.Start{w.startOf(held)}}))(w).Started), 1, "started after the hold")
	}},
	{"AWaveIsOneHold", func(w *world) {
		run := w.broken("pos", 9, "a", "b", "c", "d")
		started := w.startNext(run, "pos", "a", "b", "c")
		equal(w, len(w.end(run, "pos", throttledFor(time.Minute), started[0]).Throttled), 1, "holds by the first")
		w.clock.Move(time.Second)
		equal(w, len(w.end(run, "pos", throttledFor(2*time.Minute), started[1]).Throttled), 0, "holds by the second of the wave")
		equal(w, len(w.end(run, "pos", throttledFor(time.Second), started[2]).Throttled), 0, "holds by the third")
		h := w.job("pos").Throttle
		equal(w, h.Until, w.clock.Now().UTC().Add(2*time.Minute), "the longest counts")
		equal(w, h.Gap, 100*time.Millisecond, "the pace is told once")
		for _, key := range []string{"a", "b", "c"} {
			equal(w, w.item(key).Failures, 1, "charged to %s", key)
		}
	}},
	{"OneAtATimeUntilOneIsTaken", func(w *world) {
		run := w.broken("pos", 9, "a", "b", "c", "d")
		w.end(run, "pos", throttledFor(time.Second), w.startNext(run, "pos", "a")...)
		w.clock.Move(time.Second)
		// a is due again, and has failed: another goes first.
		c := w.claim(run, 9, "pos")
		w.wantKeys(c, "b")
		tried := w.start(run, c)
		c = w.claim(run, 9, "pos")
		w.wantKeys(c, "")
		equal(w, len(c.Holds), 1, "held beside the try")
		w.end(run, "pos", dead, tried...) // it was refused, and so it was read
		equal(w, w.job("pos").Throttle.Proven, true, "the server has taken one")
		equal(w, len(w.claim(run, 9, "pos").Items), 3, "and then all of it")
	}},
	{"AFailedTryHoldsAgainAndSlower", func(w *world) {
		run := w.broken("pos", 9, "a", "b", "c")
		w.end(run, "pos", throttledFor(time.Second), w.startNext(run, "pos", "a")...)
		w.clock.Move(time.Second)
		out := w.end(run, "pos", throttledFor(time.Minute), w.startNext(run, "pos", "b")...)
		equal(w, len(out.Throttled), 1, "holds")
		h := w.job("pos").Throttle
		equal(w, h.Gap, 200*time.Millisecond, "gap")
		equal(w, h.Until, w.clock.Now().UTC().Add(time.Minute), "until")
	}},
	{"StartsAreApart", func(w *world) {
		run := w.broken("pos", 9, numbered(9)...)
		w.end(run, "pos", throttledFor(time.Second), w.startNext(run, "pos", "k0001")...)
		w.clock.Move(time.Second)
		w.end(run, "pos", done, w.startNext(run, "pos", "k0002")...)
		gap := w.job("pos").Throttle.Gap
		equal(w, gap, 98571*time.Microsecond, "gap after a success")
		w.clock.Move(100 * time.Millisecond) // the gap as it was when that one started
		c := w.claim(run, 9, "pos")
		out := w.advance(store.Advance{Run: run, Start: []store.Start{w.startOf(c)}})
		equal(w, len(out.Started), 1, "started at once")
		equal(w, out.Paced["pos"], gap, "until the next")
		w.clock.Move(gap)
		out = w.advance(store.Advance{Run: run, Start: []store.Start{w.startOf(c)}})
		equal(w, len(out.Started), 0, "started before a whole millisecond")
		w.clock.Move(time.Millisecond)
		s := w.startOf(c)
		s.Items = s.Items[1:]
		equal(w, len(w.advance(store.Advance{Run: run, Start: []store.Start{s}}).Started), 1, "started after it")
	}},
	{"OldNewsIsNoSuccess", func(w *world) {
		run := w.broken("pos", 9, "a", "b", "c")
		started := w.startNext(run, "pos", "a", "b")
		w.end(run, "pos", throttledFor(time.Minute), started[0])
		w.end(run, "pos", done, started[1])
		h := w.job("pos").Throttle
		equal(w, h.Proven, false, "what had begun before says nothing of now")
		equal(w, h.Until, w.clock.Now().UTC().Add(time.Minute), "and ends no hold")
	}},
	{"NeverBeyondTheCap", func(w *world) {
		run := w.broken("pos", 9, "a", "b")
		w.end(run, "pos", throttledFor(time.Hour), w.startNext(run, "pos", "a")...)
		w.wantKeys(w.claim(run, 9, "pos"), "")
		w.spec("pos").Policy.RetryAfterCap = time.Minute // who asks allows less
		w.wantKeys(w.claim(run, 9, "pos"), "b")
	}},
	{"AClockSetBackFreezesNothing", func(w *world) {
		run := w.broken("pos", 9, "a", "b", "c")
		w.end(run, "pos", throttledFor(time.Minute), w.startNext(run, "pos", "a")...)
		w.clock.Move(-24 * time.Hour)
		w.end(run, "pos", done, w.startNext(run, "pos", "b")...)
		equal(w, w.job("pos").Throttle.Proven, true, "its success counts")
	}},
	{"Unthrottle", func(w *world) {
		for _, job := range []string{"a", "b"} {
			run := w.broken(job, 9, job+"1", job+"2")
			w.end(run, job, throttledFor(time.Minute), w.startNext(run, job, job+"1")...)
		}
		equal(w, len(must(w.db.Unthrottle(w.ctx, []string{"none"}))(w)), 0, "of another job")
		equal(w, must(w.db.Unthrottle(w.ctx, []string{"b"}))(w)[0], "b", "lifted")
		equal(w, w.job("b").Throttle == nil && w.job("a").Throttle != nil, true, "b alone")
		run := w.register("r")
		w.wantKeys(w.claim(run, 9, "a", "b"), "b2")
		equal(w, len(must(w.db.Unthrottle(w.ctx, nil))(w)), 1, "all that is left")
	}},
}
