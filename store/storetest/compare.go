package storetest

import (
	"cmp"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// compare compares everything that can be seen with the model.
func (x *machine) compare(t *rapid.T) {
	m := x.m
	var rows []store.ItemRow
	var all store.Counts
	byJob := map[string]*store.Counts{}
	for _, it := range m.items {
		rows = append(rows, it.ItemRow)
		if byJob[it.Job] == nil {
			byJob[it.Job] = &store.Counts{}
		}
		for _, c := range []*store.Counts{&all, byJob[it.Job]} {
			c.Enqueued++
			*stateOf(c, it.State)++
		}
	}
	for _, it := range m.pruned {
		if byJob[it.Job] == nil {
			byJob[it.Job] = &store.Counts{}
		}
		for _, c := range []*store.Counts{&all, byJob[it.Job]} {
			c.Enqueued++
			c.Pruned++
		}
	}
	if diff := gocmp.Diff(rows, x.w.items(store.Selection{})); diff != "" {
		t.Fatalf("items (-want +got):\n%s", diff)
	}
	equal(x.w, x.w.counts(), all, "counts")
	st := must(x.stores[1].Stats(x.w.ctx))(x.w)
	equal(x.w, st.Totals, all, "totals of stats")
	for _, j := range st.Jobs {
		if c := byJob[j.Name]; c != nil {
			equal(x.w, j.Counts, *c, "counts of job %s", j.Name)
		}
		equal(x.w, j.Counters, *m.count(j.Name), "counters of job %s", j.Name)
		waiting, oldest := m.waiting(j.Name)
		equal(x.w, j.Waiting, waiting, "waiting of job %s", j.Name)
		equal(x.w, j.Oldest, oldest, "oldest of job %s", j.Name)
	}
	x.slots(t, st)
	x.flow(t, st)
	x.others(t)
	if h := must(x.w.db.Check(x.w.ctx))(x.w); !h.Sound() || len(h.Notes) > 0 {
		t.Fatalf("the books: %q %q %q", h.Integrity, h.Faults, h.Notes)
	}
}

// waiting is how many items of a job wait, and since when the oldest is due.
func (m *model) waiting(job string) (n int64, oldest time.Time) {
	for _, it := range m.items {
		due := it.State == jobs.Delayed && it.Due.UnixMilli() <= m.now()
		if it.Job != job || it.State != jobs.Ready && it.State != jobs.Claimed && !due {
			continue
		}
		n++
		if oldest.IsZero() || it.Due.Before(oldest) {
			oldest = it.Due
		}
	}
	if now := at(m.now()); oldest.After(now) {
		oldest = now
	}
	return n, oldest
}

// slots compares who has what in flight, and the runs that have not ended.
func (x *machine) slots(t *rapid.T, st store.Stats) {
	want := []store.SlotRow{}
	for _, it := range x.m.items {
		if s := it.slot; s != nil {
			want = append(want, store.SlotRow{Run: s.run, Job: it.Job, Lane: s.lane, Uses: s.uses, Item: it.ID, Key: it.Key, Scope: it.Scope,
				Attempt: it.Attempt, Since: at(s.since), Orphan: x.adopted(it)})
		}
	}
	got := slices.SortedFunc(slices.Values(st.Slots), func(a, b store.SlotRow) int { return cmp.Compare(a.Item, b.Item) })
	if diff := gocmp.Diff(want, append([]store.SlotRow{}, got...)); diff != "" {
		t.Fatalf("slots (-want +got):\n%s", diff)
	}
	live := 0
	for _, r := range x.m.runs {
		if !r.ended {
			live++
		}
	}
	equal(x.w, len(st.Runs), live, "runs that have not ended")
}

// adopted says whether an item has been taken over, also when it has come
// back to the run that once started it.
func (x *machine) adopted(it *modelItem) bool {
	return it.slot.run != it.slot.owner || slices.ContainsFunc(x.m.runs[it.slot.run].orphans, func(o store.Orphan) bool { return o.Item == it.ID && o.Claim == it.claim })
}

// others compares what one run sees of the others.
func (x *machine) others(t *rapid.T) {
	got := map[int64]store.OtherRun{}
	for _, o := range must(x.w.db.OtherRuns(x.w.ctx, 0))(x.w) {
		got[o.ID] = store.OtherRun{Held: o.Held, Lapsed: o.Lapsed, Ended: o.Ended}
	}
	want := map[int64]store.OtherRun{}
	for id, r := range x.m.runs {
		claims := x.m.claimsOf(id)
		if r.ended && len(claims) == 0 {
			continue
		}
		o := store.OtherRun{Ended: r.ended, Held: len(x.m.heldBy(id, jobs.Claimed)) + len(x.m.heldBy(id, jobs.Running))}
		for _, c := range claims {
			o.Lapsed = o.Lapsed || x.m.lapsed(x.m.claims[c])
		}
		want[id] = o
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("other runs (-want +got):\n%s", diff)
	}
}
