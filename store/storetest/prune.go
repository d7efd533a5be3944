package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Retention takes what a person asked it to take, and nothing that is still
// to be done or to be looked at.
var pruneCases = []testCase{
	{"OnlyWhatIsSettledForGood", func(w *world) {
		// pg-boss#521 deleted what waited, other queues trim what is dead: here
		// neither goes, however old it is and whatever is asked for.
		for _, s := range jobs.States() {
			w.putIn(s, s.String(), store.NewItem{Key: []byte(s.String()), Payload: []byte("p")})
		}
		w.clock.Move(10 * 365 * 24 * time.Hour)
		all := map[string]time.Duration{}
		for _, s := range jobs.States() {
			all[s.String()] = 0
		}
		for _, states := range [][]jobs.State{{}, {jobs.Dead}, {jobs.Ready, jobs.Delayed, jobs.Claimed, jobs.Running, jobs.Dead}} {
			equal(w, w.prune(store.Prune{Keep: all, States: states}), pruned{}, "pruned of %v", states)
		}
		w.wantStates("ready=ready delayed=delayed claimed=claimed running=running done=done dead=dead dropped=dropped")
		equal(w, w.prune(store.Prune{Keep: all, States: jobs.States()}), pruned{done: 1, dropped: 1}, "pruned of all states")
		w.wantStates("ready=ready delayed=delayed claimed=claimed running=running dead=dead")
		equal(w, w.prune(store.Prune{Keep: all}), pruned{}, "pruned once more")
		equal(w, w.counts(), store.Counts{Enqueued: 7, Ready: 1, Delayed: 1, Claimed: 1, Running: 1, Dead: 1, Pruned: 2}, "counts")
	}},
	{"BySettleTime", func(w *world) {
		// bull#2309: created a month ago and finished just now is new.
		w.add("pos", "done", "dropped", "again")
		w.clock.Move(30 * 24 * time.Hour)
		run := w.register("r")
		s := w.start(run, w.claim(run, 3, "pos"))
		w.settle(run, done, s[0])
		w.settle(run, retry(time.Hour), s[1])
		w.settle(run, done, s[2])
		must(w.db.Drop(w.ctx, []int64{w.item("dropped").ID}))(w)
		week := store.Prune{Keep: map[string]time.Duration{"pos": 7 * 24 * time.Hour}}
		equal(w, w.prune(week), pruned{}, "pruned when they have just been settled")
		w.clock.Move(6 * 24 * time.Hour)
		must(w.db.Requeue(w.ctx, []int64{w.item("again").ID}, []jobs.State{jobs.Done}))(w)
		w.settle(run, done, w.start(run, w.claim(run, 1, "pos"))...)
		w.clock.Move(24 * time.Hour)
		equal(w, w.prune(week), pruned{done: 1, dropped: 1}, "pruned a week later")
		w.wantStates("again=done")
		w.clock.Move(6 * 24 * time.Hour)
		equal(w, w.prune(week), pruned{done: 1}, "pruned a week after it was done again")
	}},
	{"Boundary", func(w *world) {
		w.done("pos", "", "a")
		w.done("slow", "", "b")
		keep := store.Prune{Keep: map[string]time.Duration{"pos": time.Hour, "slow": 2 * time.Hour}}
		w.clock.Move(time.Hour - time.Millisecond)
		equal(w, w.prune(keep), pruned{}, "pruned a moment before")
		w.clock.Move(time.Millisecond)
		equal(w, w.prune(keep), pruned{done: 1}, "pruned at the very moment")
		w.wantStates("b=done")
		w.clock.Move(time.Hour)
		equal(w, w.prune(keep), pruned{done: 1}, "pruned of the job that keeps longer")
	}},
	{"ClockSetBack", func(w *world) {
		w.done("pos", "", "a")
		w.clock.Move(-time.Hour)
		w.done("pos", "", "b")
		now := store.Prune{Keep: map[string]time.Duration{"pos": 0}}
		equal(w, w.prune(now), pruned{done: 1}, "pruned while a was settled in the future")
		w.wantStates("a=done")
		w.clock.Move(time.Hour)
		equal(w, w.prune(now), pruned{done: 1}, "pruned when the clock has come there again")
	}},
	{"JobsAndScopes", func(w *world) {
		for _, scope := range []string{"", "mon", "tue"} {
			w.done("pos", scope, "pos "+scope)
			w.done("other", scope, "other "+scope)
		}
		for _, c := range []struct {
			name string
			p    store.Prune
			want pruned
		}{
			{"no job", store.Prune{}, pruned{}},
			{"a job that nobody knows", store.Prune{Keep: map[string]time.Duration{"unknown": 0}}, pruned{}},
			{"a scope that nobody knows", store.Prune{Keep: map[string]time.Duration{"pos": 0}, Scope: ptr("wed")}, pruned{}},
			{"a scope", store.Prune{Keep: map[string]time.Duration{"pos": 0}, Scope: ptr("mon")}, pruned{done: 1}},
			{"no scope", store.Prune{Keep: map[string]time.Duration{"pos": 0, "other": 0}, Scope: ptr("")}, pruned{done: 2}},
			{"a job", store.Prune{Keep: map[string]time.Duration{"other": 0}}, pruned{done: 2}},
		} {
			equal(w, w.prune(c.p), c.want, "%s", c.name)
		}
		w.wantStates("pos tue=done")
		mon := must(w.db.Counts(w.ctx, []string{"pos"}, ptr("mon")))(w)
		equal(w, mon, store.Counts{Enqueued: 1, Pruned: 1}, "the books of pos, mon")
		equal(w, w.job("other").Counts, store.Counts{Enqueued: 3, Pruned: 3}, "the books of other")
	}},
	{"States", func(w *world) {
		w.done("pos", "", "a", "b")
		w.dropped("pos", "c")
		w.putIn(jobs.Dead, "pos", store.NewItem{Key: []byte("d")})
		keep := map[string]time.Duration{"pos": 0}
		equal(w, w.prune(store.Prune{Keep: keep, States: []jobs.State{jobs.Dropped}}), pruned{dropped: 1}, "dropped ones")
		w.wantStates("a=done b=done d=dead")
		equal(w, w.prune(store.Prune{Keep: keep, States: []jobs.State{jobs.Done, jobs.Dead}}), pruned{done: 2}, "done ones")
		w.wantStates("d=dead")
	}},
	{"KeyFreeAgain", func(w *world) {
		w.done("pos", "", "a", "b")
		last := w.item("b").ID
		w.prune(store.Prune{Keep: map[string]time.Duration{"pos": 0}})
		out := must(w.other().Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Fail, Items: []store.NewItem{{Key: []byte("b")}}}))(w)
		equal(w, out.Outcomes[0], store.Added, "its key, enqueued again")
		it := w.item("b")
		equal(w, it.ID > last, true, "id %d after %d", it.ID, last)
		equal(w, [2]int{it.Attempt, it.Generation}, [2]int{0, 1}, "attempts and generation of the new one")
		m := must(w.db.Drop(w.ctx, []int64{last}))(w)
		w.refuses(m, 0, "no item has this id")
		equal(w, w.counts(), store.Counts{Enqueued: 3, Ready: 1, Pruned: 2}, "counts")
	}},
	{"WhatHangsOnThem", func(w *world) {
		// Attempts and payloads go with their item and are counted as it is: a
		// step with 4 rows an item takes a quarter of the items.
		n := store.MaxRows/4 + 50
		w.withHistory("pos", n, 2)
		w.add("pos", "stays")
		keep := store.Prune{Keep: map[string]time.Duration{"pos": 0}, DryRun: true}
		dry := w.pages(keep, 4)
		keep.DryRun = false
		steps := w.pages(keep, 4)
		equal(w, len(steps), 2, "steps")
		equal(w, fmt.Sprint(steps), fmt.Sprint(dry), "what the steps and those of a dry run say")
		equal(w, w.counts(), store.Counts{Enqueued: int64(n) + 1, Ready: 1, Pruned: int64(n)}, "counts")
	}},
	{"Pages", func(w *world) {
		w.lengthy()
		// What goes stands before, among and after many that stay.
		const many = 20_500
		w.dropped("pos", "first")
		stay := make([]store.NewItem, many)
		for i := range stay {
			stay[i] = store.NewItem{Key: fmt.Append(nil, "stays ", i)}
		}
		w.addItems("pos", stay[:100]...)
		w.dropped("pos", numbered(2*store.MaxRows+1)...)
		w.addItems("pos", stay[100:]...)
		w.dropped("pos", "last")
		keep := store.Prune{Keep: map[string]time.Duration{"pos": 0}, DryRun: true}
		dry := w.pages(keep, 1)
		keep.DryRun = false
		steps := w.pages(keep, 1)
		equal(w, fmt.Sprint(steps), fmt.Sprint(dry), "what the steps and those of a dry run say")
		equal(w, sum(steps), pruned{dropped: 2*store.MaxRows + 3}, "pruned")
		equal(w, w.counts(), store.Counts{Enqueued: many + 2*store.MaxRows + 3, Ready: many, Pruned: 2*store.MaxRows + 3}, "counts")
		equal(w, w.prune(keep), pruned{}, "pruned once more")
	}},
	{"BesideRequeue", func(w *world) {
		// What comes back to the list between the look and the deletion stays.
		const n = 300
		w.done("pos", "", numbered(n)...)
		ids, other := w.idsOf(store.Selection{}), w.other()
		var moved []int64
		var wg sync.WaitGroup
		wg.Go(func() {
			for _, id := range slices.Backward(ids) {
				m, err := other.Requeue(w.ctx, []int64{id}, []jobs.State{jobs.Done})
				if err != nil {
					w.t.Errorf("%v", err)
					return
				}
				if m.Moved == 1 {
					moved = append(moved, id)
				}
			}
		})
		// One at a time, or all of it would be over at once.
		for more, after := true, int64(0); more; {
			p := must(w.db.Prune(w.ctx, store.Prune{Keep: map[string]time.Duration{"pos": 0}, After: after}))(w)
			more, after = p.More, p.Next
		}
		wg.Wait()
		slices.Reverse(moved)
		equal(w, fmt.Sprint(w.idsOf(store.Selection{States: []jobs.State{jobs.Ready}})), fmt.Sprint(moved), "those that were requeued")
		equal(w, w.counts(), store.Counts{Enqueued: n, Ready: int64(len(moved)), Pruned: n - int64(len(moved))}, "counts")
	}},
}

// pruned is what Prune took, all steps together.
type pruned struct{ done, dropped int64 }

func sum(steps []store.Pruned) (all pruned) {
	for _, s := range steps {
		all.done += s.Done
		all.dropped += s.Dropped
	}
	return all
}

// prune prunes to the end. A dry run says before what it will take.
func (w *world) prune(p store.Prune) pruned {
	w.t.Helper()
	dry := p
	dry.DryRun = true
	counted, got := sum(w.pages(dry, 1)), sum(w.pages(p, 1))
	equal(w, counted, got, "what a dry run counts")
	return got
}

// pages prunes to the end. After each step the books must balance, and none
// may touch too much where each item has so many rows.
func (w *world) pages(p store.Prune, rows int64) (steps []store.Pruned) {
	w.t.Helper()
	for {
		before := w.counts()
		s := must(w.db.Prune(w.ctx, p))(w)
		if n := (s.Done + s.Dropped) * rows; n > store.MaxRows {
			w.t.Fatalf("one step deletes %d rows", n)
		}
		after := before
		if !p.DryRun {
			after.Done, after.Dropped, after.Pruned = before.Done-s.Done, before.Dropped-s.Dropped, before.Pruned+s.Done+s.Dropped
		}
		equal(w, w.counts(), after, "the books after a step")
		if h := must(w.db.Check(w.ctx))(w); !h.Sound() {
			w.t.Fatalf("after a step: %q %q", h.Integrity, h.Faults)
		}
		steps = append(steps, s)
		if !s.More {
			return steps
		}
		if s.Next <= p.After {
			w.t.Fatalf("a step after item %d ends at item %d", p.After, s.Next)
		}
		p.After = s.Next
	}
}

// done adds items and has them done.
func (w *world) done(job, scope string, keys ...string) {
	w.t.Helper()
	run := w.register(fmt.Sprint("does ", job, " ", scope, " ", keys[0], " ", w.clock.Now()))
	e := store.Enqueue{Job: job, Scope: scope}
	for _, k := range keys {
		e.Items = append(e.Items, store.NewItem{Key: []byte(k), Payload: []byte("payload of " + k)})
	}
	w.enqueue(e)
	r := w.request(run, len(keys), job)
	r.Scope = &scope
	c := must(w.db.Claim(w.ctx, r))(w)
	equal(w, len(c.Items), len(keys), "claimed of %s", job)
	w.settle(run, done, w.start(run, c)...)
	w.noError(w.db.EndRun(w.ctx, run, store.RunEnd{Outcome: "finished"}))
}

// dropped adds items and drops them.
func (w *world) dropped(job string, keys ...string) {
	w.t.Helper()
	w.add(job, keys...)
	all := w.idsOf(store.Selection{Jobs: []string{job}, States: []jobs.State{jobs.Ready}})
	for part := range slices.Chunk(all[len(all)-len(keys):], store.MaxRows) {
		equal(w, must(w.db.Drop(w.ctx, part))(w).Moved, len(part), "dropped")
	}
}

// withHistory has n items with a payload done after so many attempts that failed.
func (w *world) withHistory(job string, n, failed int) {
	w.t.Helper()
	items := make([]store.NewItem, n)
	for i := range items {
		items[i] = store.NewItem{Key: fmt.Append(nil, "old ", i), Payload: []byte("payload")}
	}
	w.addItems(job, items...)
	run := w.register("history of " + job)
	for i := range failed + 1 {
		v := retry(0)
		if i == failed {
			v = done
		}
		started := w.start(run, w.claim(run, n, job))
		equal(w, len(started), n, "started")
		w.settle(run, v, started...)
	}
}
