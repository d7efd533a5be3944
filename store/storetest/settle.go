package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var settleCases = []testCase{
	{"Done", func(w *world) {
		it := w.judged(done)
		equal(w, it.State, jobs.Done, "state")
		equal(w, it.Finished, w.clock.Now().UTC(), "finished")
		equal(w, it.Started, dawn.UTC(), "started")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 0, 0, 0}, "attempt and budgets")
		equal(w, w.job("pos").Counters, store.Counters{Done: 1}, "counters")
	}},
	{"Retry", func(w *world) {
		it := w.judged(retry(10 * time.Second))
		equal(w, it.State, jobs.Delayed, "state")
		equal(w, it.Due, w.clock.Now().UTC().Add(10*time.Second), "due: the delay counts from the moment it is recorded")
		equal(w, it.Finished, time.Time{}, "finished")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 1, 0, 0}, "attempt and budgets")
		equal(w, it.Class, jobs.ClassRetry, "class")
		equal(w, it.Reason, "exit 75", "reason")
		equal(w, w.job("pos").Counters, store.Counters{Retries: 1}, "counters")
	}},
	{"Timeout", func(w *world) {
		v := retry(time.Second)
		v.Class = jobs.ClassTimeout
		w.judged(v)
		equal(w, w.job("pos").Counters, store.Counters{Retries: 1, Timeouts: 1}, "counters")
	}},
	{"Defer", func(w *world) {
		it := w.judged(deferral(time.Hour))
		equal(w, it.State, jobs.Delayed, "state")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 0, 0, 1}, "attempt and budgets")
		equal(w, w.job("pos").Counters, store.Counters{}, "counters: a deferral is no retry")
	}},
	{"Dead", func(w *world) {
		it := w.judged(dead)
		equal(w, it.State, jobs.Dead, "state")
		equal(w, it.Finished, w.clock.Now().UTC(), "finished")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 1, 0, 0}, "attempt and budgets")
		equal(w, w.job("pos").Counters, store.Counters{Dead: 1}, "counters")
	}},
	{"Free", func(w *world) {
		// Interrupted through no fault of its own: ready, in its old place, nothing charged.
		it := w.judged(free)
		equal(w, it.State, jobs.Ready, "state")
		equal(w, it.Due, dawn.UTC(), "due")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 0, 0, 0}, "attempt and budgets")
		equal(w, w.job("pos").Counters, store.Counters{}, "counters")
		w.wantKeys(w.claim(w.register("next"), 1, "pos"), "a")
	}},
	{"FreeButNotYet", func(w *world) {
		// A delay without a charge: the job is held, the item is not at fault.
		it := w.judged(jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassRetry, Delay: time.Hour, Reason: "429"})
		equal(w, it.State, jobs.Delayed, "state")
		equal(w, it.Due, w.clock.Now().UTC().Add(time.Hour), "due")
		equal(w, it.Failures, 0, "failures")
		equal(w, w.claim(w.register("next"), 100, "pos").Items[0].ID != it.ID, true, "claimed before its time")
	}},
	{"DeadWithoutCharge", func(w *world) {
		// on_crash = "dead", and it was killed at a stop.
		it := w.judged(jobs.Verdict{To: jobs.Dead, Class: jobs.ClassFree, Reason: "the outcome is unknown"})
		equal(w, it.State, jobs.Dead, "state")
		equal(w, it.Failures, 0, "failures")
	}},
	{"AttemptsAreNumberedForEver", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		for n := 1; n <= 4; n++ {
			s := w.start(run, w.claim(run, 1, "pos"))[0]
			equal(w, s.Attempt, n, "attempt")
			w.settle(run, dead, s)
			must(w.db.Requeue(w.ctx, []int64{s.Item}, []jobs.State{jobs.Dead}))(w)
		}
		it := w.item("a")
		equal(w, it.Attempt, 4, "attempts")
		equal(w, it.Failures, 0, "failures: the budget begins anew")
	}},
	{"Crash", func(w *world) {
		// graphile/worker#254: nothing that was taken is lost because no attempt
		// is left: a crash is no failure. It goes to the end of the line, so that
		// one which kills its run does not do so before the others had their turn.
		it := w.judged(jobs.Verdict{To: jobs.Ready, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash, Reason: "crash 1 of 3"})
		equal(w, [3]int{it.Attempt, it.Failures, it.Crashes}, [3]int{1, 0, 1}, "attempt, failures, crashes")
		w.add("pos", "c")
		w.wantKeys(w.claim(w.register("next"), 100, "pos"), "b a c")
	}},
	{"Attempts", func(w *world) {
		// What did not succeed is kept: who, when, how it ended, what it said.
		w.add("pos", "exit", "signal", "neither", "fine")
		run := w.register("r")
		c := w.claim(run, 100, "pos")
		started := w.start(run, c)
		results := []jobs.Result{
			{ExitCode: 65, Duration: 1500 * time.Millisecond, Output: jobs.Output{Head: []byte("head"), Tail: []byte("tail"), Omitted: 7}},
			{Signal: 11, SignalName: "SIGSEGV", Duration: time.Microsecond},
			{Ending: jobs.TooLong, Error: "argument too long"},
			{Output: jobs.Output{Head: []byte("all is well")}},
		}
		a := store.Advance{Run: run}
		w.clock.Move(time.Minute)
		for i, r := range results {
			a.Settle = append(a.Settle, store.Settlement{Held: started[i].Held, Attempt: 1, Verdict: dead, Result: r})
		}
		a.Settle[3].Verdict = done
		w.advance(a)
		want := []*store.AttemptRow{
			{Number: 1, Run: run, Claim: c.ID, Class: jobs.ClassPermanent, Exited: true, ExitCode: 65, Reason: "exit 65", Started: dawn.UTC(), Duration: 1500 * time.Millisecond, Output: results[0].Output},
			{Number: 1, Run: run, Claim: c.ID, Class: jobs.ClassPermanent, Signal: "SIGSEGV", Reason: "exit 65", Started: dawn.UTC(), Duration: time.Microsecond},
			{Number: 1, Run: run, Claim: c.ID, Class: jobs.ClassPermanent, Reason: "exit 65", Started: dawn.UTC()},
		}
		var got []*store.AttemptRow
		for _, d := range must(w.db.DeadLetters(w.ctx, store.Selection{}))(w) {
			got = append(got, d.Last)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("attempts (-want +got):\n%s", diff)
		}
	}},
	{"ManyAtOnce", func(w *world) {
		w.add("pos", numbered(300)...)
		run := w.register("r")
		c := w.claim(run, 300, "pos")
		a := store.Advance{Run: run}
		for i, s := range w.start(run, c) {
			a.Settle = append(a.Settle, settlement(s, []jobs.Verdict{done, dead, retry(time.Second)}[i%3]))
		}
		a.Close = []int64{c.ID}
		equal(w, len(w.advance(a).Stale), 0, "refused")
		equal(w, w.counts(), store.Counts{Enqueued: 300, Done: 100, Dead: 100, Delayed: 100}, "counts")
		equal(w, len(must(w.db.Renew(w.ctx, run, lease))(w)), 0, "claims of which nothing is held")
	}},
	{"LateButStillItsOwn", func(w *world) {
		// The token decides, not the clock.
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		w.clock.Move(100 * lease)
		_, _, err := w.db.NoteLapse(w.ctx, run)
		w.noError(err)
		w.settle(run, done, s)
		w.wantStates("a=done")
		equal(w, w.job("pos").Counters.Stale, 0, "refused")
	}},
	{"CloseKeepsWhatIsHeld", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		c := w.claim(run, 2, "pos")
		w.advance(store.Advance{Run: run, Close: []int64{c.ID, 12345}})
		w.start(run, c)
		w.advance(store.Advance{Run: run, Close: []int64{c.ID}})
		if diff := cmp.Diff([]int64{c.ID}, must(w.db.Renew(w.ctx, run, lease))(w)); diff != "" {
			w.t.Errorf("claims (-want +got):\n%s", diff)
		}
	}},
}

// judged starts the first of two items, lets three seconds pass and records
// one verdict over it.
func (w *world) judged(v jobs.Verdict) store.ItemRow {
	w.t.Helper()
	w.add("pos", "a", "b")
	run := w.register("r")
	s := w.start(run, w.claim(run, 1, "pos"))
	w.clock.Move(3 * time.Second)
	w.settle(run, v, s...)
	return w.item("a")
}
