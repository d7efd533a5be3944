package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A breaker keeps a herd from what is down, in every run, and lets one item
// at a time find out whether it is up again.
var breakerCases = []testCase{
	{"OpensAfterDifferentItems", func(w *world) {
		run := w.broken("pos", 3, "a", "b", "c", "d", "e")
		r2, other := w.register("r2"), w.other()
		held := must(other.Claim(w.ctx, store.ClaimRequest{Run: r2, Lane: jobs.Serial, Jobs: w.specsOf("pos"), Max: 1, Lease: lease}))(w)
		w.wantKeys(held, "a")
		for i, key := range []string{"b", "c", "d"} {
			w.clock.Move(time.Second)
			out := w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", key)...)
			equal(w, len(out.Tripped), i/2, "breakers that %s has opened", key)
			if i == 2 {
				equal(w, out.Tripped[0], store.Tripped{Job: "pos", Failures: 3, For: time.Minute, Reason: "exit 75"}, "tripped")
			}
		}
		opened := w.clock.Now().UTC()
		want := &store.Breaker{Opened: opened, Until: opened.Add(time.Minute), Times: 1, Reason: "exit 75"}
		for _, db := range []store.Store{w.db, other} {
			c := must(db.Claim(w.ctx, w.request(run, 9, "pos")))(w)
			w.wantKeys(c, "")
			w.wantHolds(c, store.Hold{Job: "pos", Breaker: want})
			equal(w, c.NextDue, time.Minute, "until one may be tried")
			equal(w, c.Passed, 0, "a breaker is no lack of room")
			out := must(db.Advance(w.ctx, store.Advance{Run: r2, Start: []store.Start{w.startOf(held)}}))(w)
			equal(w, len(out.Started), 0, "started of what was held")
			equal(w, out.Full[jobs.Serial].Passed, 1, "passed over")
		}
		if diff := cmp.Diff(want, w.job("pos").Breaker); diff != "" {
			w.t.Errorf("breaker in stats (-want +got):\n%s", diff)
		}
		w.clock.Move(time.Minute - time.Millisecond)
		equal(w, w.claim(run, 9, "pos").NextDue, time.Millisecond, "a moment before")
		w.clock.Move(time.Millisecond)
		equal(w, len(must(other.Advance(w.ctx, store.Advance{Run: r2, Start: []store.Start{w.startOf(held)}}))(w).Started), 1, "started after the cooldown")
	}},
	{"NextDueIsTheSooner", func(w *world) {
		run := w.broken("pos", 1, "a", "b")
		w.addItems("pos", store.NewItem{Key: []byte("soon"), Delay: 10 * time.Second})
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a")...)
		equal(w, w.claim(run, 9, "pos").NextDue, 10*time.Second, "an item is due before the cooldown is over")
		w.clock.Move(10 * time.Second)
		equal(w, w.claim(run, 9, "pos").NextDue, 50*time.Second, "the cooldown is over before an item is due")
	}},
	{"TheSameItemCountsOnce", func(w *world) {
		run := w.broken("pos", 2, "a", "b")
		for range 5 {
			out := w.end(run, "pos", retry(0), w.startNext(run, "pos", "a")...)
			equal(w, len(out.Tripped), 0, "breakers opened by one item alone")
			w.claim(run, 0) // promotes a
		}
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a")...)
		out := w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "b")...)
		equal(w, len(out.Tripped), 1, "breakers opened by two")
	}},
	{"ASuccessResets", func(w *world) {
		run := w.broken("pos", 2, numbered(6)...)
		for i, v := range []jobs.Verdict{retry(time.Hour), done, retry(time.Hour), done, retry(time.Hour)} {
			out := w.end(run, "pos", v, w.startNext(run, "pos", numbered(6)[i])...)
			equal(w, len(out.Tripped)+len(out.Mended), 0, "breakers opened or closed")
		}
		equal(w, w.job("pos").Breaker == nil, true, "closed")
		equal(w, len(w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "k0006")...).Tripped), 1, "opened by two in a row")
	}},
	{"WhatNeitherCountsNorResets", func(w *world) {
		verdicts := []jobs.Verdict{dead, free, deferral(time.Hour), {To: jobs.Dead, Class: jobs.ClassDefer, Charge: jobs.ChargeDefer},
			{To: jobs.Delayed, Class: jobs.ClassRetry, Delay: time.Hour, Reason: "429"}, {To: jobs.Ready, Class: jobs.ClassSuspect}, {To: jobs.Dead, Class: jobs.ClassFree}}
		run := w.broken("pos", 2, "a", "b", "c")
		rescuer := w.register("rescuer")
		started := w.startNext(run, "pos", "a", "b", "c")
		w.end(run, "pos", retry(time.Hour), started[0])
		for i, v := range verdicts {
			key := numbered(9)[i]
			w.add("pos", key)
			for range 2 { // as often as would open it
				out := w.end(run, "pos", v, w.startNext(run, "pos", key)...)
				equal(w, len(out.Tripped)+len(out.Mended), 0, "breakers opened or closed by %+v", v)
				if v.To != jobs.Ready {
					break
				}
			}
		}
		w.takeOver(run, rescuer) // b and c crash
		for _, o := range must(w.db.Orphans(w.ctx, rescuer))(w) {
			w.noError(w.db.SettleOrphan(w.ctx, rescuer, o, crashed))
		}
		equal(w, w.job("pos").Breaker == nil, true, "closed still")
		equal(w, len(w.end(rescuer, "pos", retry(time.Hour), w.startNext(rescuer, "pos", "b")...).Tripped), 1, "opened by the second")
	}},
	{"WhatCounts", func(w *world) {
		// Also a failure that was an item's last.
		for _, v := range []jobs.Verdict{retry(0), {To: jobs.Delayed, Class: jobs.ClassTimeout, Charge: jobs.ChargeFailure, Delay: time.Hour},
			{To: jobs.Dead, Class: jobs.ClassRetry, Charge: jobs.ChargeFailure}, {To: jobs.Dead, Class: jobs.ClassTimeout, Charge: jobs.ChargeFailure}} {
			job := string(v.Class) + v.To.String()
			run := w.broken(job, 1, job)
			out := w.end(run, job, v, w.startNext(run, job, job)...)
			equal(w, len(out.Tripped), 1, "opened by %+v", v)
		}
	}},
	{"ManyInOneStep", func(w *world) {
		// What had started before it opened is old news, in the same step too.
		run := w.broken("pos", 3, numbered(9)...)
		started := w.startNext(run, "pos", numbered(9)[:7]...)
		out := w.end(run, "pos", retry(time.Hour), started...)
		equal(w, len(out.Tripped), 1, "breakers opened")
		equal(w, out.Tripped[0].Failures, 3, "failures")
		equal(w, w.job("pos").Breaker.Times, 1, "times")
	}},
	{"NothingStartsInTheStepThatOpens", func(w *world) {
		run := w.broken("pos", 1, "a", "b")
		c := w.claim(run, 2, "pos")
		a := w.startSome(run, c, 1)
		out := w.advance(store.Advance{Run: run, Settle: []store.Settlement{w.result("pos", a[0], retry(time.Hour))}, Start: []store.Start{w.startOf(c)}})
		equal(w, len(out.Tripped), 1, "opened")
		equal(w, len(out.Started), 0, "started in the same step")
	}},
	{"JobsApart", func(w *world) {
		run := w.broken("pos", 1, "a", "b")
		w.add("other", "x")
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a")...)
		c := w.claim(run, 9, "pos", "other")
		w.wantKeys(c, "x")
		equal(w, len(c.Holds), 1, "holds")
		w.end(run, "other", done, w.start(run, c)...)
		equal(w, w.job("pos").Breaker != nil, true, "another job's success mends nothing")
	}},
	{"HalfOpenOneAtATime", func(w *world) {
		run := w.broken("pos", 1, numbered(6)...)
		r2, other := w.register("r2"), w.other()
		held := w.claim(run, 2, "pos")
		w.end(run, "pos", retry(time.Hour), w.startSome(run, held, 1)...)
		equal(w, w.job("pos").Breaker.Times, 1, "times")
		w.clock.Move(time.Minute)
		c2 := must(other.Claim(w.ctx, w.request(r2, 9, "pos")))(w)
		w.wantKeys(c2, "k0003") // one, though 9 were asked for
		equal(w, len(c2.Holds), 0, "holds")
		out := must(other.Advance(w.ctx, store.Advance{Run: r2, Start: []store.Start{w.startOf(c2)}}))(w)
		equal(w, len(out.Started), 1, "tried by the second run")
		// While it is in flight nobody starts another one, held or claimed.
		for _, db := range []store.Store{w.db, other} {
			no := must(db.Advance(w.ctx, store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(held).Items[1:]}}}))(w)
			equal(w, len(no.Started), 0, "started beside the try")
			c := must(db.Claim(w.ctx, w.request(r2, 9, "pos")))(w)
			w.wantKeys(c, "")
			equal(w, len(c.Holds), 1, "holds")
			equal(w, c.NextDue > 50*time.Minute, true, "next due %s: that of the retry", c.NextDue)
		}
		// When it has ended without saying anything about the job, the next one.
		w.end(r2, "pos", free, out.Started...)
		s := w.startOf(held)
		s.Items = s.Items[1:]
		s.Items = append(s.Items, w.startOf(w.claim(run, 1, "pos")).Items...)
		equal(w, len(s.Items), 2, "held by the first run")
		s.Want = 2
		again := w.advance(store.Advance{Run: run, Start: []store.Start{s}})
		equal(w, len(again.Started), 1, "tried, of two in one step")
		equal(w, again.Full[jobs.Serial].Passed, 1, "passed over")
	}},
	{"TheOneWithFewestFailuresFirst", func(w *world) {
		run := w.broken("pos", 3, "a", "b", "c", "d")
		for i, key := range []string{"a", "b", "a", "c"} {
			if i == 3 {
				equal(w, w.item("a").Failures, 2, "failures of a")
			}
			w.end(run, "pos", retry(0), w.startNext(run, "pos", key)...)
			w.claim(run, 0) // promotes it
		}
		w.clock.Move(time.Minute)
		for _, want := range []string{"d", "b", "c", "a"} {
			r := w.request(run, 9, "pos")
			w.wantKeys(must(w.db.Claim(w.ctx, r))(w), want)
		}
	}},
	{"FewestFailuresAndSkipped", func(w *world) {
		run := w.broken("pos", 1, "a", "b", "c")
		w.end(run, "pos", retry(0), w.startNext(run, "pos", "a")...)
		w.clock.Move(time.Minute)
		r := w.request(run, 9, "pos")
		r.Skip = map[int64]bool{w.item("b").ID: true}
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "c")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "a")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "")
	}},
	{"ATryThatFailsHoldsTwiceAsLong", func(w *world) {
		run := w.broken("pos", 2, numbered(9)...)
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "k0001", "k0002")...)
		for i, hold := range []time.Duration{2, 4, 8, 16, 30, 30} {
			w.clock.Move(min(time.Minute<<i, 30*time.Minute))
			c := w.claim(run, 1, "pos")
			equal(w, len(c.Items), 1, "to be tried")
			opened := w.clock.Now().UTC()
			out := w.end(run, "pos", retry(time.Hour), w.start(run, c)...)
			want := []store.Tripped{{Job: "pos", For: hold * time.Minute, Reason: "exit 75"}}
			if diff := cmp.Diff(want, out.Tripped); diff != "" {
				w.t.Errorf("try %d (-want +got):\n%s", i+1, diff)
			}
			b := w.job("pos").Breaker
			equal(w, *b, store.Breaker{Opened: opened, Until: opened.Add(hold * time.Minute), Times: i + 2, Reason: "exit 75"}, "breaker")
			equal(w, len(w.claim(run, 1, "pos").Items), 0, "claimed while it is held")
		}
	}},
	{"OldResults", func(w *world) {
		// They neither close it nor hold the job longer, before, while and after
		// one is tried.
		run := w.broken("pos", 2, numbered(9)...)
		old := w.startNext(run, "pos", numbered(8)...)
		w.clock.Move(time.Second)
		w.end(run, "pos", retry(24*time.Hour), old[0], old[1])
		was := *w.job("pos").Breaker
		news := func(when string) {
			w.t.Helper()
			out := w.end(run, "pos", done, old[2])
			w.clock.Move(time.Second)
			more := w.end(run, "pos", retry(24*time.Hour), old[3])
			old = old[2:]
			equal(w, len(out.Tripped)+len(out.Mended)+len(more.Tripped)+len(more.Mended), 0, "opened or closed %s", when)
			equal(w, *w.job("pos").Breaker, was, "breaker %s", when)
		}
		news("while it is held")
		w.clock.Move(time.Minute)
		try := w.startNext(run, "pos", "k0009")
		news("while one is tried")
		w.end(run, "pos", retry(24*time.Hour), try...)
		was.Opened = w.clock.Now().UTC()
		was.Times, was.Until = 2, was.Opened.Add(2*time.Minute)
		news("after the try")
	}},
	{"ASuccessMends", func(w *world) {
		run := w.broken("pos", 2, numbered(9)...)
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "k0001", "k0002")...)
		w.clock.Move(time.Minute)
		out := w.end(run, "pos", done, w.startNext(run, "pos", "k0003")...)
		if diff := cmp.Diff([]string{"pos"}, out.Mended); diff != "" {
			w.t.Errorf("mended (-want +got):\n%s", diff)
		}
		equal(w, w.job("pos").Breaker == nil, true, "closed")
		started := w.startNext(run, "pos", "k0004", "k0005", "k0006")
		// All is forgotten: two more are needed, and the first hold is the short one.
		equal(w, len(w.end(run, "pos", retry(time.Hour), started[0]).Tripped), 0, "opened by the first")
		equal(w, w.end(run, "pos", retry(time.Hour), started[1]).Tripped[0].For, time.Minute, "held")
	}},
	{"MendedAndMore", func(w *world) {
		// In one step: the success of the try, and what starts after it.
		run := w.broken("pos", 1, numbered(5)...)
		c := w.claim(run, 5, "pos")
		w.end(run, "pos", retry(time.Hour), w.startSome(run, c, 1)...)
		w.clock.Move(time.Minute)
		s := w.startOf(c)
		s.Items = s.Items[1:]
		out := w.advance(store.Advance{Run: run, Start: []store.Start{s}})
		equal(w, len(out.Started), 1, "tried")
		s.Items = s.Items[1:]
		out = w.advance(store.Advance{Run: run, Settle: []store.Settlement{w.result("pos", out.Started[0], done)}, Start: []store.Start{s}})
		equal(w, len(out.Started), 3, "started")
	}},
	{"ATryWhoseRunDied", func(w *world) {
		run := w.broken("pos", 1, "a", "b", "c")
		r2 := w.register("r2")
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a")...)
		w.clock.Move(time.Minute)
		w.startNext(run, "pos", "b")
		w.takeOver(run, r2)
		w.wantKeys(w.claim(r2, 9, "pos"), "") // what it left may be at work still
		w.noError(w.db.SettleOrphan(w.ctx, r2, w.orphan(r2), crashed))
		w.start(r2, w.claim(r2, 9, "pos"))
		w.wantKeys(w.claim(r2, 9, "pos"), "")
	}},
	{"ClockSetBack", func(w *world) {
		// It holds nobody for longer than it was to; and the failure of a try
		// counts, though by the clock it began before the breaker opened.
		run := w.broken("pos", 1, numbered(9)...)
		w.end(run, "pos", retry(0), w.startNext(run, "pos", "k0001")...)
		w.clock.Move(-24 * time.Hour)
		try := w.startNext(run, "pos", "k0002")
		w.wantKeys(w.claim(run, 9, "pos"), "")
		out := w.end(run, "pos", retry(0), try...)
		equal(w, len(out.Tripped) == 1 && out.Tripped[0].For == 2*time.Minute, true, "the try failed: %+v", out.Tripped)
		equal(w, w.claim(run, 9, "pos").NextDue, 2*time.Minute, "until the next")
		w.clock.Move(-24 * time.Hour)
		out = w.end(run, "pos", done, w.startNext(run, "pos", "k0003")...)
		equal(w, len(out.Mended), 1, "the try succeeded")
	}},
	{"ClockSetBackAndATryThatSaysNothing", func(w *world) {
		run := w.broken("pos", 1, "a", "b", "c")
		w.end(run, "pos", retry(0), w.startNext(run, "pos", "a")...)
		w.clock.Move(-24 * time.Hour)
		w.end(run, "pos", free, w.startNext(run, "pos", "b")...)
		c := w.claim(run, 9, "pos")
		w.wantKeys(c, "b")
		equal(w, len(w.end(run, "pos", done, w.start(run, c)...).Mended), 1, "mended")
	}},
	{"ClockSetBackAndOldResults", func(w *world) {
		// What began before the breaker opened stays old, and is no try.
		run := w.broken("pos", 1, numbered(9)...)
		old := w.startNext(run, "pos", "k0001", "k0002", "k0003", "k0004")
		w.clock.Move(time.Second)
		w.end(run, "pos", retry(time.Hour), old[0])
		w.clock.Move(-time.Hour)
		try := w.startNext(run, "pos", "k0005")
		equal(w, len(w.end(run, "pos", retry(2*time.Hour), old[1]).Tripped), 0, "opened by an old failure")
		equal(w, len(w.end(run, "pos", done, old[2]).Mended), 0, "closed by an old success")
		w.end(run, "pos", free, try...)
		w.end(run, "pos", done, w.startNext(run, "pos", "k0005")...) // old[3] runs still
		equal(w, w.job("pos").Breaker == nil, true, "mended")
	}},
	{"OpensOnAClockThatWasSetBack", func(w *world) {
		run := w.broken("pos", 1, numbered(9)...)
		old := w.startNext(run, "pos", "k0001", "k0002", "k0003", "k0004")
		w.clock.Move(-time.Hour)
		w.end(run, "pos", retry(2*time.Hour), old[0])
		equal(w, w.claim(run, 9, "pos").NextDue, time.Minute, "until one may be tried")
		equal(w, len(w.end(run, "pos", done, old[1]).Mended), 0, "closed by an old success")
		equal(w, len(w.end(run, "pos", retry(2*time.Hour), old[2]).Tripped), 0, "opened by an old failure")
		w.clock.Move(time.Minute)
		w.startNext(run, "pos", "k0005") // old[3] runs still
	}},
	{"Never", func(w *world) {
		run := w.broken("pos", 0, numbered(30)...)
		out := w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", numbered(20)...)...)
		equal(w, len(out.Tripped), 0, "opened")
		equal(w, w.job("pos").Breaker == nil, true, "closed")
		w.start(run, w.claim(run, 10, "pos"))
	}},
	{"NeverForThisRun", func(w *world) {
		// Each run goes by its own numbers: one that has no breaker is not held
		// by another's.
		run := w.broken("pos", 1, "a", "b", "c", "d")
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a")...)
		w.spec("pos").Policy.Breaker.Failures = 0
		c := w.claim(run, 2, "pos")
		w.wantKeys(c, "b c")
		w.start(run, c)
		w.spec("pos").Policy.Breaker.Failures = 1
		w.wantKeys(w.claim(run, 2, "pos"), "")
	}},
	{"NoLongerThanItsOwnCap", func(w *world) {
		// A hold that was set for longer than the job would be held today.
		run := w.broken("pos", 1, "a", "b")
		w.spec("pos").Policy.Breaker.Cooldown = 9 * time.Hour
		w.end(run, "pos", retry(24*time.Hour), w.startNext(run, "pos", "a")...)
		w.wantKeys(w.claim(run, 2, "pos"), "")
		w.spec("pos").Policy.Breaker.Cooldown = time.Second
		w.wantKeys(w.claim(run, 2, "pos"), "b")
	}},
	{"TryNow", func(w *world) {
		run := w.broken("pos", 1, "a", "b", "c")
		w.add("other", "o")
		w.spec("other").Policy.Breaker = jobs.Breaker{Failures: 1, Cooldown: time.Hour}
		for _, job := range []string{"pos", "other"} {
			w.end(run, job, retry(24*time.Hour), w.startNext(run, job, map[string]string{"pos": "a", "other": "o"}[job])...)
		}
		waited := func(names ...string) string {
			return strings.Join(must(w.db.TryNow(w.ctx, names))(w), " ")
		}
		equal(w, waited("unknown"), "", "waited")
		equal(w, waited("pos", "unknown"), "pos", "waited")
		equal(w, waited("pos"), "", "waited, the second time")
		equal(w, waited(), "other", "waited of all")
		// It is half open: one is tried, and what it says counts.
		out := w.end(run, "pos", retry(24*time.Hour), w.startNext(run, "pos", "b")...)
		equal(w, out.Tripped[0].For, 2*time.Minute, "held after the try")
		waited()
		equal(w, len(w.end(run, "pos", done, w.startNext(run, "pos", "c")...).Mended), 1, "mended")
	}},
}

// broken makes a job with a breaker of a minute and items, and a run.
func (w *world) broken(job string, failures int, keys ...string) (run int64) {
	w.t.Helper()
	w.spec(job).Policy.Breaker = jobs.Breaker{Failures: failures, Cooldown: time.Minute}
	w.add(job, keys...)
	return w.register("works " + job)
}

// startNext claims and starts the items with these keys.
func (w *world) startNext(run int64, job string, keys ...string) []store.Started {
	w.t.Helper()
	r := w.request(run, len(keys), job)
	r.Skip = map[int64]bool{}
	for _, it := range w.items(store.Selection{Jobs: []string{job}}) {
		r.Skip[it.ID] = !slices.Contains(keys, string(it.Key))
	}
	c := must(w.db.Claim(w.ctx, r))(w)
	if len(c.Items) != len(keys) {
		w.t.Fatalf("claimed %q, want %q: %+v", keysOf(c), keys, c.Holds)
	}
	return w.start(run, c)
}

// startSome starts the first n items of a claim.
func (w *world) startSome(run int64, c store.Claim, n int) []store.Started {
	w.t.Helper()
	s := w.startOf(c)
	s.Want = n
	out := w.advance(store.Advance{Run: run, Start: []store.Start{s}})
	equal(w, len(out.Started), n, "started")
	return out.Started
}

// result is a settlement with the job's own breaker.
func (w *world) result(job string, s store.Started, v jobs.Verdict) store.Settlement {
	r := settlement(s, v)
	r.Breaker = w.spec(job).Policy.Breaker
	return r
}

// end records the same verdict for all.
func (w *world) end(run int64, job string, v jobs.Verdict, started ...store.Started) store.Advanced {
	w.t.Helper()
	a := store.Advance{Run: run}
	for _, s := range started {
		a.Settle = append(a.Settle, w.result(job, s, v))
		a.Close = append(a.Close, s.Claim)
	}
	out := w.advance(a)
	if len(out.Stale) > 0 {
		w.t.Fatalf("results were refused: %+v", out.Stale)
	}
	return out
}
