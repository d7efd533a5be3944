package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// What is in flight is counted in the whole database; the limits are each
// run's own.
var limitCases = []testCase{
	{"Lane", func(w *world) {
		w.add("pos", numbered(10)...)
		r1, r2 := w.register("r1"), w.register("r2")
		other := w.other()
		limits := store.Limits{Lanes: map[string]int{jobs.Serial: 3}}
		c1 := w.claim(r1, 5, "pos")
		w.clock.Move(time.Second)
		out := w.advance(store.Advance{Run: r1, Limits: limits, Start: []store.Start{{Lane: jobs.Serial, Want: 2, Items: w.startOf(c1).Items}}})
		equal(w, len(out.Started), 2, "started by the first run")
		equal(w, len(out.Full), 0, "lanes in which less than wanted started")

		req := w.request(r2, 5, "pos")
		req.Limits = limits
		c2 := must(other.Claim(w.ctx, req))(w)
		equal(w, c2.InUse, 2, "in use, as the second run sees it")
		since := w.clock.Now().UTC()
		w.clock.Move(time.Second)
		st := w.startOf(c2)
		out2 := must(other.Advance(w.ctx, store.Advance{Run: r2, Limits: limits, Start: []store.Start{st}}))(w)
		equal(w, len(out2.Started), 1, "started by the second run")
		want := store.Full{Lane: true, InUse: 3, Holders: []store.Holder{{Run: r1, Since: since, Slots: 2}, {Run: r2, Since: since.Add(time.Second), Slots: 1}}}
		if diff := cmp.Diff(map[string]store.Full{jobs.Serial: want}, out2.Full); diff != "" {
			w.t.Errorf("full (-want +got):\n%s", diff)
		}

		// A full lane: nothing is claimed, and it is said who has it.
		full := must(other.Claim(w.ctx, req))(w)
		equal(w, full.LaneFull, true, "lane full")
		equal(w, len(full.Items), 0, "claimed from a full lane")
		equal(w, full.InUse, 3, "in use")
		if diff := cmp.Diff(want.Holders, full.Holders); diff != "" {
			w.t.Errorf("holders (-want +got):\n%s", diff)
		}
		// Another lane, and a run with a higher limit, are free to go on.
		req.Limits.Lanes = map[string]int{jobs.Serial: 4}
		equal(w, must(other.Claim(w.ctx, req))(w).LaneFull, false, "full for a run that allows more")
		// What ends makes room in the same step.
		a := store.Advance{Run: r1, Limits: limits, Settle: []store.Settlement{settlement(out.Started[0], done)},
			Start: []store.Start{{Lane: jobs.Serial, Want: 3, Items: w.startOf(c1).Items[2:]}}}
		equal(w, len(w.advance(a).Started), 1, "started in the room that was made")
	}},
	{"LaneOfNone", func(w *world) {
		w.add("pos", "a")
		r := w.request(w.register("r"), 1, "pos")
		r.Limits.Lanes = map[string]int{jobs.Serial: 0}
		equal(w, must(w.db.Claim(w.ctx, r))(w).LaneFull, true, "a lane without slots is full")
	}},
	{"LanesApart", func(w *world) {
		w.add("pos", "a")
		w.add("heavy", "b")
		w.spec("pos").Lane = "parallel"
		run := w.register("r")
		limits := store.Limits{Lanes: map[string]int{jobs.Serial: 1, "parallel": 1}}
		serial, parallel := w.request(run, 10, "heavy"), w.request(run, 10, "pos")
		parallel.Lane = "parallel"
		serial.Limits, parallel.Limits = limits, limits
		cs := must(w.db.Claim(w.ctx, serial))(w)
		cp := must(w.db.Claim(w.ctx, parallel))(w)
		out := w.advance(store.Advance{Run: run, Limits: limits, Start: []store.Start{w.startOf(cs), w.startOf(cp)}})
		equal(w, len(out.Started), 2, "one of each lane")
		equal(w, len(out.Full), 0, "full lanes")
	}},
	{"Want", func(w *world) {
		w.add("pos", numbered(5)...)
		run := w.register("r")
		s := w.startOf(w.claim(run, 5, "pos"))
		s.Want = 2
		out := w.advance(store.Advance{Run: run, Start: []store.Start{s}})
		equal(w, len(out.Started), 2, "started")
		equal(w, out.Started[0].Item, s.Items[0].Item, "the first of the list is first")
		s.Want = 0
		equal(w, len(w.advance(store.Advance{Run: run, Start: []store.Start{s}}).Started), 0, "started of none wanted")
		w.wantStates("k0001=running k0002=running k0003=claimed k0004=claimed k0005=claimed")
	}},
	{"JobInFlight", func(w *world) {
		w.add("a", "a1", "a2", "a3")
		w.add("b", "b1", "b2")
		w.spec("a").InFlight = 1
		r1, r2 := w.register("r1"), w.register("r2")
		out := w.advance(store.Advance{Run: r1, Start: []store.Start{w.startOf(w.claim(r1, 100, "a", "b"))}})
		equal(w, len(out.Started), 3, "one of a, two of b")
		full := out.Full[jobs.Serial]
		equal(w, full.Passed, 2, "passed over")
		equal(w, full.Lane, false, "it is not the lane that is full")
		equal(w, full.InUse, 3, "in use")
		// The limit holds across runs, and a job without room is not claimed from.
		w.add("a", "a4")
		w.add("b", "b3")
		c := w.claim(r2, 100, "a", "b")
		w.wantKeys(c, "b3")
		equal(w, c.Passed, 1, "jobs passed over")
	}},
	{"Pool", func(w *world) {
		w.spec("wide").Uses = map[string]int{"db": 7}
		w.spec("narrow").Uses = map[string]int{"db": 1, "net": 1}
		w.add("wide", "w1", "w2", "w3")
		w.add("narrow", "n1", "n2", "n3")
		run := w.register("r")
		limits := store.Limits{Pools: map[string]int{"db": 15}} // net is not limited
		c := w.claim(run, 100, "wide", "narrow")
		a := store.Advance{Run: run, Limits: limits, Start: []store.Start{w.startOf(c)}}
		out := w.advance(a)
		// w1 n1 w2 fill 15; w3, n2 and n3 do not fit.
		equal(w, startedKeys(c, out.Started), "w1 n1 w2 ", "started")
		equal(w, out.Full[jobs.Serial].Passed, 3, "passed over")
		// What does not fit is passed over, and what fits behind it starts.
		a.Settle = []store.Settlement{settlement(out.Started[1], done)}
		out2 := w.advance(a)
		equal(w, startedKeys(c, out2.Started), "n2 ", "started in the room of one")
		// The uses are those at the start, whatever the job says now.
		w.spec("wide").Uses = map[string]int{"db": 1}
		out3 := w.advance(store.Advance{Run: run, Limits: limits, Start: []store.Start{w.startOf(c)}})
		equal(w, startedKeys(c, out3.Started), "", "started, though the job says less now")
		// A job that has no room is not claimed from.
		w.add("wide", "w4")
		w.add("plain", "p1")
		r := w.request(run, 100, "wide", "plain")
		r.Limits = limits
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "p1")
	}},
	{"PoolsOfSeveralRuns", func(w *world) {
		w.spec("pos").Uses = map[string]int{"db": 8}
		w.add("pos", "a", "b")
		r1, r2 := w.register("r1"), w.register("r2")
		limits := store.Limits{Pools: map[string]int{"db": 15}}
		c1, c2 := w.claim(r1, 1, "pos"), w.claim(r2, 1, "pos")
		equal(w, len(w.advance(store.Advance{Run: r1, Limits: limits, Start: []store.Start{w.startOf(c1)}}).Started), 1, "started by the first")
		out := must(w.other().Advance(w.ctx, store.Advance{Run: r2, Limits: limits, Start: []store.Start{w.startOf(c2)}}))(w)
		equal(w, len(out.Started), 0, "started by the second: 16 of 15")
	}},
	{"HeldIsNotInFlight", func(w *world) {
		// Limits count what runs, never how much is held or queued.
		w.add("pos", numbered(50)...)
		r1, r2 := w.register("r1"), w.register("r2")
		w.claim(r1, 40, "pos")
		r := w.request(r2, 100, "pos")
		r.Limits.Lanes = map[string]int{jobs.Serial: 1}
		c := must(w.db.Claim(w.ctx, r))(w)
		equal(w, len(c.Items), 10, "claimed beside 40 that are held")
		equal(w, c.InUse, 0, "in use")
	}},
	{"Slots", func(w *world) {
		w.spec("pos").Uses = map[string]int{"db": 2, "net": 1}
		w.enqueue(store.Enqueue{Job: "pos", Scope: "today", Items: []store.NewItem{{Key: []byte("a")}}})
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		w.advance(store.Advance{Run: run, Pids: []store.Process{{Held: s.Held, PID: 1234, Start: 1 << 62}}})
		want := []store.SlotRow{{Run: run, Job: "pos", Lane: jobs.Serial, Uses: map[string]int{"db": 2, "net": 1}, Item: s.Item,
			Key: []byte("a"), Scope: "today", Attempt: 1, Since: dawn.UTC(), PID: 1234}}
		if diff := cmp.Diff(want, must(w.db.Stats(w.ctx))(w).Slots); diff != "" {
			w.t.Errorf("slots (-want +got):\n%s", diff)
		}
		w.settle(run, done, s)
		equal(w, len(must(w.db.Stats(w.ctx))(w).Slots), 0, "slots in use after the end")
	}},
	{"PidOfAnEndedAttempt", func(w *world) {
		// What is learned of a process too late must not be written to the
		// attempt that has the slot now: a rescuer would end a stranger.
		w.add("pos", "a", "b")
		run := w.register("r")
		c := w.claim(run, 2, "pos")
		start := func(i int) store.Started {
			return w.advance(store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c).Items[i : i+1]}}}).Started[0]
		}
		a := start(0)
		w.settle(run, done, a)
		start(1)
		w.advance(store.Advance{Run: run, Pids: []store.Process{{Held: a.Held, PID: 666, Start: 1}}})
		equal(w, must(w.db.Stats(w.ctx))(w).Slots[0].PID, 0, "pid of the attempt that runs now")
	}},
}

// startedKeys is the keys of what started, in that order, each with a space.
func startedKeys(c store.Claim, started []store.Started) (keys string) {
	for _, s := range started {
		for _, it := range c.Items {
			if it.ID == s.Item {
				keys += string(it.Key) + " "
			}
		}
	}
	return keys
}
