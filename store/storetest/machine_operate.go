package storetest

import (
	"slices"

	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// What a person does to items, as steps of a walk.

// ids are those of some items, of some that are gone, and of one that never was.
func (x *machine) ids(t *rapid.T) (ids []int64) {
	for _, it := range some(t, x.m.items, 6, "items") {
		ids = append(ids, it.ID)
	}
	for _, it := range some(t, x.m.pruned, 2, "pruned") {
		ids = append(ids, it.ID)
	}
	return append(ids, 1<<40)
}

// requeue makes items ready from some states.
func (x *machine) requeue(t *rapid.T) {
	ids := x.ids(t)
	from := rapid.SampledFrom([][]jobs.State{{jobs.Dead, jobs.Done, jobs.Delayed}, {jobs.Dead}, {jobs.Done}, jobs.States(), nil}).Draw(t, "from")
	got := must(x.db(t).Requeue(x.w.ctx, ids, from))(x.w)
	x.moved(t, ids, got, func(it *modelItem) bool {
		switch it.State {
		case jobs.Dead, jobs.Done, jobs.Delayed:
			if slices.Contains(from, it.State) {
				x.m.again(it)
				return true
			}
		}
		return false
	})
}

// drop takes items out of the list.
func (x *machine) drop(t *rapid.T) {
	ids := x.ids(t)
	got := must(x.db(t).Drop(x.w.ctx, ids))(x.w)
	x.moved(t, ids, got, func(it *modelItem) bool {
		switch it.State {
		case jobs.Dead, jobs.Ready, jobs.Delayed:
			it.State, it.Finished = jobs.Dropped, at(x.m.now())
			return true
		case jobs.Running:
			// Only what a dead run left behind holds it: a person may give it up.
			if !x.adopted(it) {
				return false
			}
			claim := it.claim
			it.State, it.Finished, it.claim, it.slot = jobs.Dropped, at(x.m.now()), 0, nil
			x.m.forget(claim)
			return true
		}
		return false
	})
}

// moved compares what was moved with what the model moves.
func (x *machine) moved(t *rapid.T, ids []int64, got store.Moved, move func(*modelItem) bool) {
	want, refused, from := 0, []int64{}, []store.JobState(nil)
	for _, id := range ids {
		it, was := x.m.listed(id), jobs.Ready
		if it != nil {
			was = it.State
		}
		if it != nil && move(it) {
			want++
			from = store.AddJobStates(from, []store.JobState{{Job: it.Job, State: was, Items: 1}})
			continue
		}
		refused = append(refused, id)
	}
	gotRefused := []int64{}
	for _, r := range got.Refused {
		gotRefused = append(gotRefused, r.ID)
	}
	if got.Moved != want || !slices.Equal(gotRefused, refused) || !slices.Equal(got.From, from) {
		t.Fatalf("moved %d from %v, refused %v; want %d from %v, %v", got.Moved, got.From, got.Refused, want, from, refused)
	}
}
