package store

import (
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
		all.Refused = append(all.Refused, m.Refused...)
	}
	return all, nil
}
