package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// A job that is passed over for a full pool gets the pool kept free for it
// when its patience is over.
var squeezeCases = []testCase{
	{"StarvesWithoutPatience", func(w *world) {
		s := w.stream(0)
		s.goOn(30 * time.Minute)
		equal(w, s.started["big"], 0, "starts of the big one")
		equal(w, s.started["small"] > 100, true, "%d starts of small ones", s.started["small"])
		equal(w, len(must(w.db.Stats(w.ctx))(w).Squeezed), 0, "squeezed")
	}},
	{"KeptFree", func(w *world) {
		s := w.stream(lease)
		s.goOn(lease - 10*time.Second)
		equal(w, s.started["big"], 0, "starts of the big one while there is patience")
		equal(w, s.kept, 0, "steps in which no small one started")
		s.goOn(20 * time.Second)
		equal(w, s.kept > 0, true, "the pool is kept")
		s.goOn(40 * time.Second) // as long as the small ones take
		equal(w, s.started["big"], 1, "starts of the big one")
		before := s.started["small"]
		s.goOn(2 * time.Minute)
		equal(w, s.started["small"] > before, true, "small ones start again after the big one")
	}},
	{"HeldByItsRun", func(w *world) {
		// Not only who asks for it: also an item that is held and can't start.
		s := w.stream(lease)
		s.names = []string{"small"}
		big := must(w.db.Claim(w.ctx, w.request(s.run, 1, "big")))(w)
		equal(w, len(big.Items), 1, "claimed beside an empty pool")
		started := -1
		for i := range 20 {
			s.goOn(10 * time.Second)
			out := w.advance(store.Advance{Run: s.run, Limits: s.limits, Start: []store.Start{w.startOf(big)}})
			if len(out.Started) == 1 {
				started = i
				break
			}
			equal(w, out.Full[jobs.Serial].Passed, 1, "passed over")
		}
		equal(w, started > 5, true, "it started in step %d, after its patience", started)
	}},
	{"Stats", func(w *world) {
		s := w.stream(lease)
		s.goOn(10 * time.Second)
		want := []store.Squeezed{{Job: "big", Since: dawn.UTC()}}
		squeezed := func() []store.Squeezed { return must(w.other().Stats(w.ctx))(w).Squeezed }
		s.goOn(50 * time.Second)
		if diff := cmp.Diff(want, squeezed()); diff != "" {
			w.t.Errorf("squeezed (-want +got):\n%s", diff)
		}
		for i := 0; s.started["big"] == 0 && i < 20; i++ {
			s.goOn(5 * time.Second)
		}
		for _, q := range squeezed() {
			equal(w, q.Job, "small", "squeezed after the start of the big one")
		}
	}},
	{"NobodyWantsItAnyMore", func(w *world) {
		s := w.stream(lease)
		s.goOn(lease + 10*time.Second)
		before := s.started["small"]
		s.names = []string{"small"}
		s.goOn(lease)
		s.goOn(10 * time.Second)
		equal(w, s.started["small"] > before, true, "small ones start again")
		kept := s.kept
		s.goOn(10 * time.Minute)
		equal(w, s.kept, kept, "steps in which no small one started, from then on")
		equal(w, len(must(w.db.Stats(w.ctx))(w).Squeezed), 0, "squeezed")
		// The next time its patience begins anew.
		s.names = []string{"big", "small"}
		s.goOn(lease - 10*time.Second)
		equal(w, s.kept, kept, "steps in which no small one started")
	}},
	{"TwoThatWouldBlockEachOther", func(w *world) {
		w.lengthy()
		s := w.stream(lease)
		w.spec("big").Uses = map[string]int{"db": 15, "net": 1}
		w.spec("great").Uses = map[string]int{"db": 1, "net": 15}
		w.spec("tiny").Uses = map[string]int{"net": 1}
		w.add("great", "g1", "g2", "g3")
		w.add("tiny", numbered(900)...)
		s.limits.Pools["net"] = 15
		s.names = []string{"big", "great", "small", "tiny"}
		s.goOn(30 * time.Minute)
		equal(w, s.started["big"], 3, "starts of big")
		equal(w, s.started["great"], 3, "starts of great")
		equal(w, s.started["small"] > 100 && s.started["tiny"] > 100, true, "starts %v", s.started)
	}},
	{"OnlyItsPools", func(w *world) {
		s := w.stream(lease)
		w.spec("tiny").Uses = map[string]int{"net": 1}
		w.add("tiny", numbered(900)...)
		w.add("plain", numbered(900)...)
		s.limits.Pools["net"] = 15
		s.names = []string{"big", "small", "tiny", "plain"}
		s.goOn(lease + 10*time.Second)
		equal(w, s.kept > 0, true, "the pool is kept")
		was := map[string]int{"tiny": s.started["tiny"], "plain": s.started["plain"]}
		s.goOn(10 * time.Second)
		equal(w, s.started["tiny"] > was["tiny"] && s.started["plain"] > was["plain"], true, "jobs without that pool go on: %v", s.started)
	}},
	{"NotForWhatIsHeldBackOtherwise", func(w *world) {
		// A pool must not be kept for a job that could not start anyway.
		s := w.stream(lease)
		w.pause(store.Target{Job: "big"})
		s.goOn(5 * time.Minute)
		equal(w, s.kept, 0, "steps in which no small one started")
	}},
	{"NotForWhatNeverFits", func(w *world) {
		s := w.stream(lease)
		w.spec("big").Uses = map[string]int{"db": 16}
		s.goOn(5 * time.Minute)
		equal(w, s.kept, 0, "steps in which no small one started")
	}},
	{"RunsOfUnlikePatience", func(w *world) {
		// Both are passed over, in turn: neither forgets what the other noted.
		s := w.stream(lease)
		for i := range 30 {
			s.limits.Patience = []time.Duration{lease, lease / 6}[i%2]
			s.goOn(10 * time.Second)
		}
		equal(w, s.started["big"] > 0, true, "the big one has started")
	}},
	{"NotWhileALongOneRuns", func(w *world) {
		// One that would keep it out for hours: the small ones lose a lease, not hours.
		s := w.stream(lease)
		w.spec("long").Uses = map[string]int{"db": 1}
		w.add("long", "l1")
		long := w.start(s.run, w.claim(s.run, 1, "long"))
		s.goOn(lease)
		s.goOn(30 * time.Minute)
		equal(w, s.kept > 0 && s.kept <= int(lease/(5*time.Second))+1, true, "%d steps in which no small one started", s.kept)
		equal(w, s.started["big"], 0, "starts of the big one")
		w.settle(s.run, done, long...)
		s.goOn(2 * lease)
		equal(w, s.started["big"] > 0, true, "the big one has its turn when the long one has ended")
	}},
	{"LongOnesInTurn", func(w *world) {
		w.lengthy()
		// There is always one in flight that lasts longer than patience: the pool
		// is kept for longer each time, until the big one fits in.
		s := w.stream(lease)
		s.lasts = 10 * time.Minute
		s.goOn(4 * time.Hour)
		equal(w, s.started["big"] > 0, true, "the big one has its turn")
	}},
	{"NotForWhatWasDropped", func(w *world) {
		s := w.stream(lease)
		s.goOn(lease + 10*time.Second)
		equal(w, s.kept > 0, true, "the pool is kept")
		kept := s.kept
		must(w.db.Drop(w.ctx, w.idsOf(store.Selection{Jobs: []string{"big"}})))(w)
		s.goOn(10 * time.Second)
		equal(w, s.kept, kept, "steps in which no small one started, from then on")
	}},
	{"NotForWhatIsPausedLater", func(w *world) {
		s := w.stream(lease)
		s.goOn(lease + 10*time.Second)
		equal(w, s.kept > 0, true, "the pool is kept")
		kept := s.kept
		w.pause(store.Target{Job: "big"})
		s.goOn(10 * time.Second)
		equal(w, s.kept, kept, "steps in which no small one started, after the pause")
	}},
	// Since less than that it was squeezed, and since longer.
	{"ClockSetBackFar", func(w *world) { w.squeezedAndSetBack(30 * 24 * time.Hour) }},
	{"ClockSetBack", func(w *world) { w.squeezedAndSetBack(45 * time.Second) }},
}

// squeezedAndSetBack has a job squeezed for a lease and a half, and then nobody wants
// it any more and the clock is set back: the pool is kept for it no longer
// than patience all the same.
func (w *world) squeezedAndSetBack(back time.Duration) {
	s := w.stream(lease)
	w.start(s.run, w.claim(s.run, 1, "small"))
	claim := func(job string) store.Claim {
		r := w.request(s.run, 1, job)
		r.Limits = s.limits
		return must(w.db.Claim(w.ctx, r))(w)
	}
	for range 3 {
		equal(w, len(claim("big").Items), 0, "claimed beside a small one")
		w.clock.Move(30 * time.Second)
	}
	equal(w, len(claim("small").Items), 0, "claimed while the pool is kept")
	w.clock.Move(-back)
	claim("small")
	w.clock.Move(lease)
	w.wantKeys(claim("other"), "")
	equal(w, len(claim("small").Items), 1, "claimed when patience is over")
}

// stream is a run that works big items, which take all of a pool, beside a
// stream of small ones, which take one share each and 20 seconds.
type stream struct {
	w       *world
	run     int64
	limits  store.Limits
	names   []string // of the jobs, the big one first
	started map[string]int
	kept    int // steps in which no small one started
	lasts   time.Duration
	running []inFlight
}

type inFlight struct {
	store.Started
	since time.Time
}

func (w *world) stream(patience time.Duration) *stream {
	w.t.Helper()
	s := &stream{w: w, run: w.register("r"), names: []string{"big", "small"}, started: map[string]int{}, lasts: 20 * time.Second,
		limits: store.Limits{Pools: map[string]int{"db": 15}, Patience: patience}}
	w.spec("big").Uses = map[string]int{"db": 15}
	w.spec("small").Uses = map[string]int{"db": 1}
	w.add("big", "b1", "b2", "b3")
	w.add("small", numbered(900)...)
	return s
}

// goOn works for d, in steps of five seconds.
func (s *stream) goOn(d time.Duration) {
	s.w.t.Helper()
	for range int(d / (5 * time.Second)) {
		s.step()
		s.w.clock.Move(5 * time.Second)
	}
}

func (s *stream) step() {
	s.w.t.Helper()
	w, now := s.w, s.w.clock.Now()
	a := store.Advance{Run: s.run, Limits: s.limits}
	s.running = slices.DeleteFunc(s.running, func(f inFlight) bool {
		over := now.Sub(f.since) >= s.lasts
		if over {
			a.Settle = append(a.Settle, settlement(f.Started, done))
			a.Close = append(a.Close, f.Claim)
		}
		return over
	})
	// One of each job, small ones first: they find room always.
	for _, name := range slices.Backward(s.names) {
		r := w.request(s.run, 1, name)
		r.Limits = s.limits
		c := must(w.db.Claim(w.ctx, r))(w)
		if len(c.Items) > 0 {
			a.Start = append(a.Start, w.startOf(c))
		}
	}
	out := w.advance(a)
	small := 0
	for _, st := range out.Started {
		s.running = append(s.running, inFlight{st, now})
		job := w.items(store.Selection{IDs: []int64{st.Item}})[0].Job
		s.started[job]++
		if job == "small" {
			small++
		}
	}
	if small == 0 {
		s.kept++
	}
	held := []store.Held{}
	for _, st := range a.Start {
		for _, it := range st.Items {
			if !slices.ContainsFunc(out.Started, func(o store.Started) bool { return o.Item == it.Item }) {
				held = append(held, it.Held)
			}
		}
	}
	must(w.db.Release(w.ctx, s.run, held))(w)
}
