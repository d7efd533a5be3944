package storetest

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// Model walks a store and the model side by side, and compares them after
// every step. Unless -rapid.checks and -rapid.steps ask for other numbers, it
// takes a few seconds: few walks (fewer with -short), but long enough to come
// far. A failure names its seed; no file is left in the source tree.
func Model(t *testing.T, fresh Fresh) {
	checks := "30"
	if testing.Short() {
		checks = "8"
	}
	for name, value := range map[string]string{"rapid.checks": checks, "rapid.steps": "60", "rapid.nofailfile": "true"} {
		asked := false
		flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == name })
		if f := flag.Lookup(name); f != nil && !asked {
			old := f.Value.String()
			defer func() { _ = f.Value.Set(old) }() // it was valid before
			if err := f.Value.Set(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) { rt.Repeat(newMachine(rt, fresh).actions()) })
}

// actions are the steps of a walk, those that bring items on more often.
func (x *machine) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){"": x.compare}
	for _, a := range []struct {
		name   string
		weight int
		step   func(*rapid.T)
	}{
		{"enqueue", 2, x.enqueue}, {"claim", 3, x.claim}, {"advance", 6, x.advance}, {"release", 1, x.release},
		{"clock forward", 2, x.clockForward}, {"clock back", 1, x.clockBack}, {"renew", 2, x.renew}, {"lapse", 2, x.lapse},
		{"register", 1, x.begin}, {"take over", 2, x.takeOver}, {"settle orphan", 2, x.settleOrphan}, {"end run", 1, x.endRun},
		{"requeue", 2, x.requeue}, {"drop", 1, x.drop}, {"pause", 1, x.pause}, {"resume", 2, x.resume}, {"unthrottle", 1, x.unthrottle}, {"work", 6, x.work},
		{"prune", 2, x.prune}, {"prune runs", 1, x.pruneRuns},
	} {
		if x.steady && !slices.Contains([]string{"enqueue", "work", "clock forward", "clock back", "pause", "resume", "unthrottle", "prune"}, a.name) {
			continue
		}
		for i := range a.weight {
			all[fmt.Sprint(a.name, " ", i)] = a.step
		}
	}
	return all
}

// machine draws the steps. Everything that a run was ever given stays in its
// hands, so that tokens of long ago come back as those of a process that was
// stopped and goes on.
type machine struct {
	w      *world
	m      *model
	stores []store.Store // two handles: two processes
	// steady: nobody dies or is in the way, so that much is in flight and what
	// holds work back is met often
	steady bool
	known  int // runs that there have been
}

func newMachine(t *rapid.T, fresh Fresh) *machine {
	w := setup(t, fresh)
	a, b, c := w.spec("a"), w.spec("b"), w.spec("c")
	a.InFlight = rapid.IntRange(0, 2).Draw(t, "in_flight of a")
	b.Uses = map[string]int{"db": 2}
	c.Uses, c.Lane = map[string]int{"db": 1, "net": 1}, "parallel"
	a.Policy.Breaker = jobs.Breaker{Failures: rapid.SampledFrom([]int{2, 1, 3}).Draw(t, "failures of a"), Cooldown: 30 * time.Second}
	b.Policy.Breaker, c.Policy.Breaker = jobs.Breaker{}, jobs.Breaker{}
	c.Rate = rapid.SampledFrom([]jobs.Rate{{}, {Count: 1, Per: 2 * time.Second}, {Count: 20, Per: time.Second}}).Draw(t, "rate of c")
	m := &model{clock: w.clock, specs: w.specs, claims: map[int64]*modelClaim{}, runs: map[int64]*modelRun{},
		counters: map[string]*store.Counters{}, served: map[string]int64{}, pauses: map[store.Target]store.Pause{},
		breakers: map[string]*modelBreaker{}, paces: map[string]int64{}, squeezes: map[string]*modelSqueeze{}, throttles: map[string]*modelThrottle{}}
	m.limits = store.Limits{
		Lanes:    map[string]int{jobs.Serial: rapid.SampledFrom([]int{2, 3, 1}).Draw(t, "serial"), "parallel": rapid.IntRange(1, 3).Draw(t, "parallel")},
		Pools:    map[string]int{"db": rapid.SampledFrom([]int{2, 3, 5}).Draw(t, "db")},
		Patience: rapid.SampledFrom([]time.Duration{40 * time.Second, 2 * time.Second, 0}).Draw(t, "patience"),
	}
	x := &machine{w: w, m: m, steady: rapid.Bool().Draw(t, "steady"), stores: []store.Store{w.db, w.other()}}
	if x.steady {
		a.InFlight, m.limits.Lanes[jobs.Serial] = 0, 4
	}
	x.register()
	x.register()
	for _, job := range []string{"a", "b", "c"} { // or walks would be over before much has happened
		e := store.Enqueue{Job: job, OnDuplicate: store.Skip}
		for i := range rapid.SampledFrom([]int{6, 10, 1}).Draw(t, "items of "+job) {
			e.Items = append(e.Items, store.NewItem{Key: fmt.Append(nil, i), Priority: i % 3})
		}
		x.add(t, w.db, e)
	}
	return x
}

func (x *machine) register() {
	x.known++
	id := x.w.register(fmt.Sprint("run ", x.known))
	x.m.runs[id] = &modelRun{id: id}
}

// db is one of the two handles.
func (x *machine) db(t *rapid.T) store.Store {
	return x.stores[rapid.IntRange(0, 1).Draw(t, "handle")]
}

func (x *machine) run(t *rapid.T) *modelRun {
	ids := make([]int64, 0, len(x.m.runs))
	for id := range x.m.runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return x.m.runs[rapid.SampledFrom(ids).Draw(t, "run")]
}

// some draws up to n of a list, in its order; the last ones are drawn most
// often, as the generator prefers small numbers.
func some[T any](t *rapid.T, list []T, n int, label string) (drawn []T) {
	n = min(n, len(list))
	if n == 0 || rapid.IntRange(0, 4).Draw(t, label+": none") == 4 {
		return nil
	}
	at := rapid.SliceOfNDistinct(rapid.IntRange(1, len(list)), 1, n, rapid.ID[int]).Draw(t, label)
	slices.SortFunc(at, func(a, b int) int { return b - a })
	for _, i := range at {
		drawn = append(drawn, list[len(list)-i])
	}
	return drawn
}

var delays = rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 30 * time.Second, 2 * time.Minute})

// enqueue adds a few items; the keys are few, so that they meet.
func (x *machine) enqueue(t *rapid.T) {
	e := store.Enqueue{
		Job:         rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "job"),
		Scope:       rapid.SampledFrom([]string{"", "s"}).Draw(t, "scope"),
		OnDuplicate: rapid.SampledFrom([]store.OnDuplicate{store.Skip, store.Replace, store.Requeue, store.Fail}).Draw(t, "on duplicate"),
		DryRun:      rapid.IntRange(0, 7).Draw(t, "dry run") == 7,
	}
	seen := map[string]bool{}
	for range rapid.IntRange(1, 5).Draw(t, "items") {
		n := store.NewItem{
			Key:      []byte(rapid.SampledFrom([]string{"k", "k\x00", "\xff", "l", "m"}).Draw(t, "key")),
			Payload:  rapid.SampledFrom([][]byte{nil, {}, {0}, []byte("x")}).Draw(t, "payload"),
			Scope:    rapid.SampledFrom([]*string{nil, nil, ptr(""), ptr("t")}).Draw(t, "own scope"),
			Priority: rapid.IntRange(-2, 2).Draw(t, "priority"),
			Delay:    delays.Draw(t, "delay"),
		}
		// Repetitions inside a dry run are the caller's to find.
		bearer := string(n.Key)
		if n.Scope != nil {
			bearer = *n.Scope + "/" + bearer
		} else {
			bearer = e.Scope + "/" + bearer
		}
		if !e.DryRun || !seen[bearer] {
			e.Items = append(e.Items, n)
		}
		seen[bearer] = true
	}
	x.add(t, x.db(t), e)
}

// add enqueues e in the store and in the model.
func (x *machine) add(t *rapid.T, db store.Store, e store.Enqueue) {
	known := len(x.m.items)
	got := must(db.Enqueue(x.w.ctx, e))(x.w).Outcomes
	if diff := cmp.Diff(x.m.enqueue(e), got); diff != "" {
		t.Fatalf("outcomes (-want +got):\n%s", diff)
	}
	// New items get growing ids in the order in which they came.
	rows := x.w.items(store.Selection{})
	if len(rows) != len(x.m.items) {
		t.Fatalf("%d items, want %d", len(rows), len(x.m.items))
	}
	for i := known; i < len(rows); i++ {
		if rows[i].ID <= x.m.lastItem {
			t.Fatalf("item %d after item %d", rows[i].ID, x.m.lastItem)
		}
		x.m.items[i].ID, x.m.lastItem = rows[i].ID, rows[i].ID
	}
}

// claim takes items and checks that they are the right ones.
func (x *machine) claim(t *rapid.T) {
	m, run := x.m, x.run(t)
	r := store.ClaimRequest{Run: run.id, Lane: jobs.Serial, Limits: m.limits, Max: rapid.SampledFrom([]int{3, 5, 2, 1, 0}).Draw(t, "max"), Lease: lease, Skip: map[int64]bool{}}
	names := rapid.SampledFrom([][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b"}, {}}).Draw(t, "jobs")
	if rapid.Bool().Draw(t, "parallel") {
		r.Lane, names = "parallel", []string{"c"}
	}
	r.Jobs = x.w.specsOf(names...)
	if rapid.IntRange(0, 3).Draw(t, "scoped") == 3 {
		r.Scope = ptr(rapid.SampledFrom([]string{"", "s", "unknown"}).Draw(t, "scope"))
	}
	if rapid.IntRange(0, 2).Draw(t, "skips") == 2 {
		for _, spec := range r.Jobs {
			for _, it := range some(t, m.eligible(r, spec.Name), 2, "skip") {
				r.Skip[it.ID] = true
			}
		}
	}
	x.take(t, run, r)
}

// take claims and compares.
func (x *machine) take(t *rapid.T, run *modelRun, r store.ClaimRequest) {
	m := x.m
	c := must(x.db(t).Claim(x.w.ctx, r))(x.w)
	m.promote()
	keeper := m.keeper()
	if full := m.inLane(r.Lane) >= m.limits.Lanes[r.Lane]; c.LaneFull != full || c.InUse != m.inLane(r.Lane) {
		t.Fatalf("lane full %v with %d in use, want %v with %d", c.LaneFull, c.InUse, full, m.inLane(r.Lane))
	} else if full && len(c.Items) > 0 {
		t.Fatalf("claimed from a full lane")
	} else if full {
		return
	}
	x.fair(t, r, c, keeper)
	if len(c.Items) == 0 {
		return
	}
	if c.ID <= m.last {
		t.Fatalf("claim %d after %d", c.ID, m.last)
	}
	m.newClaim(c.ID, run.id, r.Lane)
	for _, got := range c.Items {
		it := m.item(got.ID)
		it.State, it.claim = jobs.Claimed, c.ID
		want := it.Item
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Fatalf("claimed item (-want +got):\n%s", diff)
		}
		m.served[it.Job] = c.ID
		run.held = append(run.held, store.Held{Item: it.ID, Claim: c.ID})
	}
}

// fair checks which items a claim has to consist of: of each job those that
// stand first, as many as asked for and there are, in equal shares; and that
// it says which jobs are held back.
func (x *machine) fair(t *rapid.T, r store.ClaimRequest, c store.Claim, keeper string) {
	taken := map[string][]int64{}
	for _, it := range c.Items {
		taken[it.Job] = append(taken[it.Job], it.ID)
	}
	total, more, passed, holds := 0, map[string]bool{}, 0, map[string]store.Hold{}
	for _, spec := range r.Jobs {
		its := x.m.offered(r, spec, keeper, &passed, holds)
		total += len(its)
		more[spec.Name] = len(its) > len(taken[spec.Name])
		for i, id := range taken[spec.Name] {
			if i >= len(its) || its[i].ID != id {
				t.Fatalf("job %s: place %d has item %d, want one of %d in order", spec.Name, i, id, len(its))
			}
		}
	}
	if want := min(r.Max, total); len(c.Items) != want {
		t.Fatalf("claimed %d of %d items with a limit of %d", len(c.Items), total, r.Max)
	}
	if c.Passed != passed {
		t.Fatalf("%d jobs passed over, want %d", c.Passed, passed)
	}
	held := map[string]store.Hold{}
	for _, h := range c.Holds {
		held[h.Job] = h
	}
	if diff := cmp.Diff(holds, held); diff != "" || len(c.Holds) != len(holds) {
		t.Fatalf("%d holds (-want +got):\n%s", len(c.Holds), diff)
	}
	a, b := len(taken["a"]), len(taken["b"])
	switch {
	case len(r.Jobs) < 2:
	case more["a"] && b > a+1, more["b"] && a > b+1, more["a"] && more["b"] && (a > b+1 || b > a+1):
		t.Fatalf("shares of %d and %d, more there %v", a, b, more)
	case more["a"] && b == a+1 && x.m.served["a"] < x.m.served["b"], more["b"] && a == b+1 && x.m.served["b"] < x.m.served["a"]:
		t.Fatalf("shares of %d and %d go to the one served last: %v", a, b, x.m.served)
	}
}

// offered lists what a claim may take of a job, and notes why it may not.
func (m *model) offered(r store.ClaimRequest, spec *jobs.Spec, keeper string, passed *int, holds map[string]store.Hold) []*modelItem {
	if !m.asked(r, spec.Name) {
		return nil
	}
	its, b := m.eligible(r, spec.Name), m.open(spec.Name)
	switch m.bar(r.Lane, spec, keeper) {
	case "pause":
		p := m.pauseOf(r.Lane, spec.Name)
		holds[p.Job] = store.Hold{Job: p.Job, Pause: p}
		return nil
	case "breaker":
		holds[spec.Name] = store.Hold{Job: spec.Name, Breaker: b}
		return nil
	case "throttle":
		holds[spec.Name] = store.Hold{Job: spec.Name, Throttle: m.throttled(spec.Name)}
		return nil
	case "pool":
		m.squeeze(spec.Name)
		fallthrough
	case "job":
		*passed++
		return nil
	}
	h := m.throttles[spec.Name]
	if b != nil || h != nil && !h.proven {
		slices.SortStableFunc(its, func(a, b *modelItem) int { return a.Failures - b.Failures })
		return its[:min(1, len(its))]
	}
	if h != nil {
		its = its[:min(max(1, int(5*time.Second/h.pace.Gap)), len(its))]
	}
	if spec.Rate.Count > 0 {
		its = its[:min(max(1, int(5*time.Second/spec.Rate.Interval())), len(its))]
	}
	return its
}

var verdicts = rapid.SampledFrom([]jobs.Verdict{done, done, dead, free, retry(0), retry(time.Second), retry(time.Minute), deferral(time.Minute),
	{To: jobs.Delayed, Class: jobs.ClassRetry, Delay: time.Minute, Reason: "429"},
	{To: jobs.Dead, Class: jobs.ClassFree, Reason: "the outcome is unknown"}, throttledFor(time.Second), throttledFor(time.Minute)})

// throttledFor is the verdict on an answer that it was too much.
func throttledFor(d time.Duration) jobs.Verdict {
	return jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassThrottled, Charge: jobs.ChargeFailure, Delay: d, Hold: d, Reason: "HTTP 429"}
}

var ofWhatIsDown = rapid.SampledFrom([]jobs.Verdict{retry(0), retry(time.Second), done, free,
	{To: jobs.Delayed, Class: jobs.ClassTimeout, Charge: jobs.ChargeFailure, Reason: "timed out after 1h"}})

// advance settles and starts in one step, with tokens old and new.
func (x *machine) advance(t *rapid.T) {
	run := x.run(t)
	x.step(t, run, some(t, run.started, 3, "settle"), some(t, run.held, 4, "start"))
}

// work is a run as it should be: it claims, settles some of what it has in
// flight, and starts what it holds.
func (x *machine) work(t *rapid.T) {
	m, run := x.m, x.run(t)
	r := store.ClaimRequest{Run: run.id, Lane: jobs.Serial, Limits: m.limits, Max: 4, Lease: lease, Jobs: x.w.specsOf("a", "b")}
	if rapid.Bool().Draw(t, "parallel") {
		r.Lane, r.Jobs = "parallel", x.w.specsOf("c")
	}
	x.take(t, run, r)
	var running []store.Started
	for _, s := range run.started {
		if it := m.item(s.Item); it.State == jobs.Running && it.claim == s.Claim && it.Attempt == s.Attempt {
			running = append(running, s)
		}
	}
	var held []store.Held
	for _, it := range m.heldBy(run.id, jobs.Claimed) {
		held = append(held, store.Held{Item: it.ID, Claim: it.claim})
	}
	x.step(t, run, some(t, running, 2, "settle"), held)
}

// step settles and starts, and compares.
func (x *machine) step(t *rapid.T, run *modelRun, settle []store.Started, start []store.Held) {
	m := x.m
	a := store.Advance{Run: run.id, Limits: m.limits}
	for _, s := range settle {
		breaker, drawn := m.specs[m.item(s.Item).Job].Policy.Breaker, verdicts
		if breaker.Failures > 0 && rapid.Bool().Draw(t, "down") {
			drawn = ofWhatIsDown // or a breaker would rarely open
		}
		r := settlement(s, drawn.Draw(t, "verdict"))
		r.Breaker = breaker
		a.Settle = append(a.Settle, r)
		a.Close = append(a.Close, s.Claim)
	}
	lanes := map[string]*store.Start{jobs.Serial: {Lane: jobs.Serial}, "parallel": {Lane: "parallel"}}
	for _, h := range start {
		spec := m.specs[m.item(h.Item).Job]
		lanes[spec.Lane].Items = append(lanes[spec.Lane].Items, store.StartItem{Held: h, Spec: spec})
	}
	for _, lane := range []string{jobs.Serial, "parallel"} {
		lanes[lane].Want = rapid.SampledFrom([]int{2, 4, 1, 0}).Draw(t, "want")
		a.Start = append(a.Start, *lanes[lane])
	}
	got := must(x.db(t).Advance(x.w.ctx, a))(x.w)

	want := store.Advanced{Full: map[string]store.Full{}, Paced: map[string]time.Duration{}}
	for _, s := range a.Settle {
		if !m.settle(s, &want) {
			want.Stale = append(want.Stale, s.Held)
		}
	}
	for _, c := range a.Close {
		m.forget(c)
	}
	keeper := m.keeper()
	for _, s := range a.Start {
		x.startLane(run, s, &keeper, &want)
	}
	for i := range got.Started { // the slots are the store's to name
		if i < len(want.Started) {
			want.Started[i].Slot = got.Started[i].Slot
		}
	}
	for lane, f := range got.Full {
		w := want.Full[lane]
		w.Holders = f.Holders
		want.Full[lane] = w
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("advanced (-want +got):\n%s", diff)
	}
	run.started = append(run.started, got.Started...)
}

// startLane is what the model says to one lane's wish.
func (x *machine) startLane(run *modelRun, s store.Start, keeper *string, want *store.Advanced) {
	m, full, started, paced := x.m, store.Full{}, 0, false
	for _, it := range s.Items {
		if started == s.Want {
			break
		}
		if full.Lane = m.inLane(s.Lane) >= m.limits.Lanes[s.Lane]; full.Lane {
			break
		}
		switch bar, wait := m.bar(s.Lane, it.Spec, *keeper), m.wait(it.Spec); {
		case bar == "pool":
			m.squeeze(it.Spec.Name)
			full.Passed++
		case bar != "":
			full.Passed++
		case wait > 0:
			want.Paced[it.Spec.Name], paced = wait, true
		case m.start(run.id, s.Lane, it.Held, it.Spec):
			i := m.item(it.Item)
			m.took(i, it.Spec)
			if *keeper == i.Job {
				*keeper = "" // it is another's turn with the next step
			}
			want.Started = append(want.Started, store.Started{Held: it.Held, Attempt: i.Attempt, Payload: i.payload})
			started++
		default:
			want.Lost = append(want.Lost, it.Held)
		}
	}
	if started < s.Want && (full.Lane || full.Passed > 0 || paced) {
		full.InUse = m.inLane(s.Lane)
		want.Full[s.Lane] = full
	}
}

// release gives tokens back, old and new ones.
func (x *machine) release(t *rapid.T) {
	run := x.run(t)
	held := some(t, run.held, 4, "release")
	got := must(x.db(t).Release(x.w.ctx, run.id, held))(x.w)
	want := 0
	for _, h := range held {
		if it := x.m.item(h.Item); it.State == jobs.Claimed && it.claim == h.Claim {
			it.State, it.claim = jobs.Ready, 0
			want++
		}
	}
	for _, h := range held {
		x.m.forget(h.Claim)
	}
	equal(x.w, got, want, "released")
}

// clockForward lets time pass.
func (x *machine) clockForward(t *rapid.T) {
	x.w.clock.Move(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 29 * time.Second, 31 * time.Second, lease, time.Hour}).Draw(t, "by"))
}

// clockBack is somebody who sets the clock.
func (x *machine) clockBack(t *rapid.T) {
	x.w.clock.Move(-rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second, 2 * lease, 24 * time.Hour}).Draw(t, "by"))
}

// renew renews a run's lease.
func (x *machine) renew(t *rapid.T) {
	run := x.run(t)
	got := must(x.db(t).Renew(x.w.ctx, run.id, lease))(x.w)
	slices.Sort(got)
	want := x.m.claimsOf(run.id)
	if !slices.Equal(got, want) {
		t.Fatalf("renewed %v, want %v", got, want)
	}
	for _, id := range want {
		c := x.m.claims[id]
		c.until, c.lapsed = x.m.now()+lease.Milliseconds(), 0
	}
}

// lapse looks at a run's lease.
func (x *machine) lapse(t *rapid.T) {
	run, now := x.run(t), x.m.now()
	since, length, err := x.db(t).NoteLapse(x.w.ctx, run.id)
	x.w.noError(err)
	first, want := now, time.Duration(0)
	for _, id := range x.m.claimsOf(run.id) {
		if c := x.m.claims[id]; x.m.lapsed(c) {
			if c.lapsed == 0 || c.lapsed > now {
				c.lapsed = now
			}
			first, want = min(first, c.lapsed), lease
		}
	}
	equal(x.w, length, want, "lease")
	equal(x.w, since, time.Duration(now-first)*time.Millisecond, "since the first look")
}

// begin begins another run.
func (x *machine) begin(t *rapid.T) {
	if len(x.m.runs) > 4 {
		t.Skip("enough runs")
	}
	x.register()
}

// takeOver takes a run for dead, rightly or not.
func (x *machine) takeOver(t *rapid.T) {
	dead, by := x.run(t), x.run(t)
	if dead == by {
		t.Skip("nobody takes over from itself")
	}
	why := rapid.SampledFrom([]store.Death{store.DeathLock, store.DeathLease}).Draw(t, "why")
	db := x.db(t)
	taken := must(db.TakeOver(x.w.ctx, dead.id, by.id, why, lease))(x.w)
	freed, orphans := x.m.takeOver(dead.id, by.id, why)
	equal(x.w, taken, store.Taken{Freed: freed, Orphans: len(orphans)}, "taken over")
	for _, o := range must(db.Orphans(x.w.ctx, by.id))(x.w) {
		if it := x.m.item(o.Item); slices.Contains(orphans, it) {
			if it.claim != o.Claim && x.m.claims[o.Claim] == nil {
				x.m.newClaim(o.Claim, by.id, "")
			}
			it.claim = o.Claim
			by.orphans = append(by.orphans, o)
		}
	}
	for _, id := range x.m.claimsOf(dead.id) {
		x.m.forget(id)
	}
}

// settleOrphan settles an orphan that a run has taken over at some time.
func (x *machine) settleOrphan(t *rapid.T) {
	run := x.run(t)
	if len(run.orphans) == 0 {
		t.Skip("it has none")
	}
	o := rapid.SampledFrom(run.orphans).Draw(t, "orphan")
	v := rapid.SampledFrom([]jobs.Verdict{crashed, crashDead}).Draw(t, "verdict")
	err := x.db(t).SettleOrphan(x.w.ctx, run.id, o, v)
	it := x.m.item(o.Item)
	if it.State != jobs.Running || it.claim != o.Claim {
		if !errors.Is(err, store.ErrStale) {
			t.Fatalf("settled an orphan that is not ours: %v", err)
		}
		return
	}
	x.w.noError(err)
	x.m.judged(it, v)
	x.m.forget(o.Claim)
}

// endRun ends a run.
func (x *machine) endRun(t *rapid.T) {
	run := x.run(t)
	x.w.noError(x.db(t).EndRun(x.w.ctx, run.id, store.RunEnd{Outcome: "finished"}))
	for _, it := range x.m.heldBy(run.id, jobs.Claimed) {
		it.State, it.claim = jobs.Ready, 0
	}
	for _, id := range x.m.claimsOf(run.id) {
		x.m.forget(id)
	}
	// Who says so again ends later.
	run.ended, run.endedAt = true, x.m.now()
}
