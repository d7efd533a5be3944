package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A rate holds over all runs: whoever starts moves the next start on.
var rateCases = []testCase{
	{"SharedByTwoRuns", func(w *world) {
		p := w.paced(jobs.Rate{Count: 2, Per: time.Second}, 9)
		p.starts(0, 1)
		p.waits(1, 400*time.Millisecond) // half a second, less what may be caught up with
		w.clock.Move(399 * time.Millisecond)
		p.waits(0, time.Millisecond)
		p.waits(1, time.Millisecond)
		w.clock.Move(time.Millisecond)
		p.starts(1, 1)
		p.waits(0, 500*time.Millisecond)
		// What was not used is not saved up.
		w.clock.Move(time.Hour)
		p.starts(0, 1)
		p.waits(1, 400*time.Millisecond)
	}},
	{"AMinute", func(w *world) {
		w.lengthy()
		w.minute(10 * time.Millisecond)
	}},
	{"AMinuteOfStalls", func(w *world) {
		// Runs that wake up at odd times never start more for it, and catch up
		// with what is no later than the slack.
		w.minute(10*time.Millisecond, 70*time.Millisecond, 130*time.Millisecond, time.Millisecond, 430*time.Millisecond, 10*time.Millisecond, 90*time.Millisecond)
	}},
	{"Full", func(w *world) {
		// What waits for its turn is neither lost nor passed over for room.
		p := w.paced(jobs.Rate{Count: 1, Per: time.Minute}, 5)
		w.add("other", "x")
		x := w.claim(p.runs[0], 1, "other")
		s := w.startOf(p.claims[0])
		s.Items = append(s.Items, w.startOf(x).Items...)
		s.Want = len(s.Items)
		out := w.advance(store.Advance{Run: p.runs[0], Start: []store.Start{s}})
		equal(w, len(out.Started), 2, "one, and that of the other job behind it")
		equal(w, len(out.Lost), 0, "lost")
		if diff := cmp.Diff(map[string]store.Full{jobs.Serial: {InUse: 2}}, out.Full); diff != "" {
			w.t.Errorf("full (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]time.Duration{"pos": time.Minute - jobs.RateSlack}, out.Paced); diff != "" {
			w.t.Errorf("paced (-want +got):\n%s", diff)
		}
	}},
	{"Burst", func(w *world) {
		// As many at once as the slack is worth, and the first.
		p := w.paced(jobs.Rate{Count: 40, Per: time.Second}, 99)
		p.starts(0, 5)
		p.waits(1, 25*time.Millisecond)
	}},
	{"AFasterRate", func(w *world) {
		p := w.paced(jobs.Rate{Count: 1, Per: time.Hour}, 9)
		p.starts(0, 1)
		p.waits(1, time.Hour-jobs.RateSlack)
		w.spec("pos").Rate = jobs.Rate{Count: 2, Per: time.Second}
		p.starts(1, 1)
		p.waits(0, 400*time.Millisecond)
	}},
	{"ASlowerRate", func(w *world) {
		p := w.paced(jobs.Rate{Count: 2, Per: time.Second}, 9)
		p.starts(0, 1)
		w.spec("pos").Rate = jobs.Rate{Count: 1, Per: time.Hour}
		p.waits(1, 400*time.Millisecond)
		w.clock.Move(400 * time.Millisecond)
		p.starts(1, 1)
		p.waits(0, time.Hour)
	}},
	{"NoRateAnyMore", func(w *world) {
		p := w.paced(jobs.Rate{Count: 1, Per: time.Hour}, 9)
		p.starts(0, 1)
		w.spec("pos").Rate = jobs.Rate{}
		p.starts(1, len(p.claims[1].Items))
	}},
	{"ClockSetBack", func(w *world) {
		p := w.paced(jobs.Rate{Count: 2, Per: time.Second}, 9)
		for i, back := range []time.Duration{0, time.Hour, 365 * 24 * time.Hour, time.Second} {
			w.clock.Move(-back)
			p.starts(i%2, 1)
			p.waits(i%2, 400*time.Millisecond)
		}
		// By so little that it might be no step at all: it waits for one interval.
		w.clock.Move(-100 * time.Millisecond)
		p.waits(0, 500*time.Millisecond)
	}},
	{"ClaimsWhatMayStartSoon", func(w *world) {
		w.spec("pos").Rate = jobs.Rate{Count: 4, Per: time.Second}
		w.add("pos", numbered(50)...)
		run := w.register("r")
		equal(w, len(w.claim(run, 100, "pos").Items), 20, "claimed: what may start in five seconds")
		equal(w, len(w.claim(run, 3, "pos").Items), 3, "claimed of three")
		w.spec("pos").Rate = jobs.Rate{Count: 1, Per: time.Hour}
		w.add("other", "a", "b", "c", "d")
		c := w.claim(run, 4, "pos", "other")
		w.wantKeys(c, "a k0024 b c") // the rest of its share goes to others
	}},
	{"LostCostsNothing", func(w *world) {
		p := w.paced(jobs.Rate{Count: 1, Per: time.Hour}, 9)
		must(w.db.Release(w.ctx, p.runs[0], heldOf(p.claims[0])))(w)
		out := w.advance(store.Advance{Run: p.runs[0], Start: []store.Start{w.startOf(p.claims[0])}})
		equal(w, len(out.Lost), len(p.claims[0].Items), "lost")
		equal(w, len(out.Paced), 0, "paced")
		p.starts(1, 1)
	}},
	{"HeldBackCostsNothing", func(w *world) {
		p := w.paced(jobs.Rate{Count: 1, Per: time.Hour}, 9)
		for name, bar := range map[string]func() store.Limits{
			"lane": func() store.Limits { return store.Limits{Lanes: map[string]int{jobs.Serial: 0}} },
			"pool": func() store.Limits { return store.Limits{Pools: map[string]int{"db": 0}} },
		} {
			w.spec("pos").Uses = map[string]int{"db": 1}
			out := w.advance(store.Advance{Run: p.runs[0], Limits: bar(), Start: []store.Start{w.startOf(p.claims[0])}})
			equal(w, len(out.Started)+len(out.Paced), 0, "started or paced beside a full %s", name)
		}
		p.starts(1, 1)
		w.noError(w.db.Pause(w.ctx, []store.Target{{}}, "", ""))
		out := w.advance(store.Advance{Run: p.runs[0], Start: []store.Start{w.startOf(p.claims[0])}})
		equal(w, len(out.Paced), 0, "paced while it is paused")
	}},
	{"JobsApart", func(w *world) {
		p := w.paced(jobs.Rate{Count: 1, Per: time.Hour}, 9)
		w.spec("other").Rate = jobs.Rate{Count: 1, Per: time.Hour}
		w.add("other", "x")
		p.starts(0, 1)
		w.start(p.runs[0], w.claim(p.runs[0], 1, "other"))
	}},
}

// paced is a job with a rate that two runs work by two handles.
type paced struct {
	w      *world
	stores [2]store.Store
	runs   [2]int64
	claims [2]store.Claim
}

// paced makes n items and gives both runs some of them.
func (w *world) paced(r jobs.Rate, n int) *paced {
	w.t.Helper()
	p := &paced{w: w, stores: [2]store.Store{w.db, w.other()}, runs: [2]int64{w.register("r1"), w.register("r2")}}
	w.add("pos", numbered(n)...)
	for i := range p.runs {
		p.claims[i] = must(p.stores[i].Claim(w.ctx, w.request(p.runs[i], (n-1)/2, "pos")))(w)
	}
	w.spec("pos").Rate = r
	return p
}

// start starts what may start of a run, and returns it with the wait for more.
func (p *paced) start(i int) ([]store.Started, time.Duration) {
	p.w.t.Helper()
	if len(p.claims[i].Items) == 0 {
		p.w.t.Fatalf("run %d has nothing left", i)
	}
	out := must(p.stores[i].Advance(p.w.ctx, store.Advance{Run: p.runs[i], Start: []store.Start{p.w.startOf(p.claims[i])}}))(p.w)
	p.claims[i].Items = p.claims[i].Items[len(out.Started):] // in order
	return out.Started, out.Paced["pos"]
}

func (p *paced) starts(i, n int) {
	p.w.t.Helper()
	started, _ := p.start(i)
	equal(p.w, len(started), n, "started by run %d", i)
}

func (p *paced) waits(i int, d time.Duration) {
	p.w.t.Helper()
	started, wait := p.start(i)
	equal(p.w, len(started), 0, "started by run %d", i)
	equal(p.w, wait, d, "wait of run %d", i)
}

// minute lets two runs work a job of ten a second for a minute, in which the
// clock moves on by steps, over and over.
func (w *world) minute(steps ...time.Duration) {
	w.t.Helper()
	const rate = 10
	p := w.paced(jobs.Rate{Count: rate, Per: time.Second}, 0)
	w.add("pos", numbered(900)...)
	var starts []time.Time
	var unsettled [2][]store.Started
	for i := 0; w.clock.Now().Before(dawn.Add(time.Minute)); i++ {
		run := i / 3 % 2
		if len(p.claims[run].Items) == 0 {
			p.claims[run] = must(p.stores[run].Claim(w.ctx, w.request(p.runs[run], 50, "pos")))(w)
		}
		started, wait := p.start(run)
		equal(w, wait <= time.Second/rate, true, "a wait of %s", wait)
		for range started {
			starts = append(starts, w.clock.Now())
		}
		if unsettled[run] = append(unsettled[run], started...); len(unsettled[run]) > 40 {
			w.settle(p.runs[run], done, unsettled[run]...)
			unsettled[run] = nil
		}
		w.clock.Move(steps[i%len(steps)])
	}
	most := rate + int(jobs.RateSlack*rate/time.Second)
	for i, from := range starts {
		n := 0
		for n < len(starts)-i && starts[i+n].Before(from.Add(time.Second)) {
			n++
		}
		if n > most {
			w.t.Fatalf("%d starts in the second from %s on, want at most %d", n, from.Sub(dawn), most)
		}
	}
	largest := time.Duration(0)
	for _, s := range steps {
		largest = max(largest, s)
	}
	// What a stall beyond the slack has cost is not made up for.
	if want := 60 * rate * 95 / 100; largest <= jobs.RateSlack && len(starts) < want {
		w.t.Errorf("%d starts in a minute, want %d or more", len(starts), want)
	}
}
