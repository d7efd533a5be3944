package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"batchq/jobs"
)

// Breathe waits for a Breath, or for the end of ctx, whose cause it returns then.
func Breathe(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(Breath):
		return nil
	}
}

// RequeueAll is Requeue for any number of ids, in transactions of at most
// MaxRows with a breath between. After an error Moved says what was done.
func RequeueAll(ctx context.Context, op Operator, ids []int64, from []jobs.State) (Moved, error) {
	return portions(ids, func(ids []int64) (Moved, error) { return op.Requeue(ctx, ids, from) })
}

// DropAll is Drop in the same way.
func DropAll(ctx context.Context, op Operator, ids []int64) (Moved, error) {
	return portions(ids, func(ids []int64) (Moved, error) { return op.Drop(ctx, ids) })
}

func portions(ids []int64, move func([]int64) (Moved, error)) (Moved, error) {
	var all Moved
	for portion := range slices.Chunk(ids, MaxRows) {
		if all.Moved+len(all.Refused) > 0 {
			time.Sleep(Breath)
		}
		m, err := move(portion)
		if err != nil {
			return all, err
		}
		all.Moved += m.Moved
		all.From = AddJobStates(all.From, m.From)
		all.Refused = append(all.Refused, m.Refused...)
	}
	return all, nil
}

// AddJobStates adds more to sums; both come, and the result is, in the order of
// jobs' names and then of states, each pair once.
func AddJobStates(sums, more []JobState) []JobState {
	for _, m := range more {
		at, found := slices.BinarySearchFunc(sums, m, func(a, b JobState) int {
			return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.State, b.State))
		})
		if !found {
			sums = slices.Insert(sums, at, JobState{Job: m.Job, State: m.State})
		}
		sums[at].Items += m.Items
	}
	return sums
}
