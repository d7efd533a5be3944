package storetest

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// Retention, as steps of a walk.

// prune deletes what was settled long enough ago, or counts it: by a step of
// Prune or by one of Sweep, which walks never need a second of.
func (x *machine) prune(t *rapid.T) {
	m := x.m
	p := store.Prune{Keep: map[string]time.Duration{}}
	for _, job := range []string{"a", "b", "c"} {
		if rapid.IntRange(0, 3).Draw(t, "keeps "+job) > 0 {
			p.Keep[job] = x.age(t, job)
		}
	}
	var got store.Pruned
	if rapid.IntRange(0, 3).Draw(t, "sweep") == 3 {
		got = must(x.db(t).Sweep(x.w.ctx, p.Keep))(x.w)
	} else {
		p.Scope = rapid.SampledFrom([]*string{nil, nil, ptr(""), ptr("s"), ptr("unknown")}).Draw(t, "scope")
		p.States = rapid.SampledFrom([][]jobs.State{nil, nil, {jobs.Done}, {jobs.Dropped}, jobs.States(), {jobs.Dead, jobs.Ready}}).Draw(t, "states")
		p.DryRun = rapid.IntRange(0, 3).Draw(t, "dry run") == 3
		for _, it := range some(t, m.items, 1, "after") {
			p.After = it.ID
		}
		got = must(x.db(t).Prune(x.w.ctx, p))(x.w)
	}
	want := store.Pruned{Next: p.After}
	var stay, gone []*modelItem
	for _, it := range m.items {
		if it.ID > p.After {
			want.Next = it.ID
		}
		switch goes := m.outlived(p, it); {
		case goes && it.State == jobs.Done:
			want.Done++
		case goes:
			want.Dropped++
		default:
			stay = append(stay, it)
			continue
		}
		gone = append(gone, it)
	}
	equal(x.w, got, want, "pruned")
	if !p.DryRun {
		m.items, m.pruned = stay, append(m.pruned, gone...)
	}
}

// age is how long a job's items are kept: often to the millisecond as long as
// one of them is settled.
func (x *machine) age(t *rapid.T, job string) time.Duration {
	ages := []time.Duration{0, time.Second, 30 * time.Second, lease, time.Hour, 24 * time.Hour}
	for _, it := range x.m.items {
		if it.Job == job && !it.Finished.IsZero() {
			if age := time.Duration(x.m.now()-it.Finished.UnixMilli()) * time.Millisecond; age >= 0 {
				ages = append(ages, age, age+time.Millisecond)
			}
		}
	}
	return rapid.SampledFrom(ages).Draw(t, "age of "+job)
}

// outlived says whether an item may go.
func (m *model) outlived(p store.Prune, it *modelItem) bool {
	age, named := p.Keep[it.Job]
	return named && it.ID > p.After && (it.State == jobs.Done || it.State == jobs.Dropped) &&
		(p.States == nil || slices.Contains(p.States, it.State)) &&
		(p.Scope == nil || *p.Scope == it.Scope) &&
		it.Finished.UnixMilli() <= m.now()-age.Milliseconds()
}

// pruneRuns deletes runs that ended long ago and of which nothing is left.
func (x *machine) pruneRuns(t *rapid.T) {
	m, age := x.m, rapid.SampledFrom([]time.Duration{0, time.Second, lease, time.Hour}).Draw(t, "age")
	dry := rapid.IntRange(0, 3).Draw(t, "dry run") == 3
	got := must(x.db(t).PruneRuns(x.w.ctx, age, dry))(x.w)
	want := 0
	for id, r := range m.runs {
		held := len(m.claimsOf(id)) > 0 || slices.ContainsFunc(m.items, func(it *modelItem) bool {
			return it.slot != nil && (it.slot.run == id || it.slot.owner == id)
		})
		if !r.ended || held || r.endedAt > m.now()-age.Milliseconds() {
			continue
		}
		want++
		if !dry {
			delete(m.runs, id)
		}
	}
	equal(x.w, got, want, "runs pruned")
	for len(m.runs) < 2 { // or walks would be over
		x.register()
	}
}
