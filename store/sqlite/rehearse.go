package sqlite

import (
	"context"
	"errors"

	"batchq/jobs"
	"batchq/store"
)

// Rehearsal does what a person wants done as far as to say what would come of
// it: the same statements in a transaction that is taken back. So a dry run
// and the command itself can't differ.
type Rehearsal struct{ *DB }

// errRehearsed takes a transaction back that has gone well.
var errRehearsed = errors.New("this was a rehearsal")

// Requeue says what DB.Requeue would do.
func (r Rehearsal) Requeue(ctx context.Context, ids []int64, from []jobs.State) (store.Moved, error) {
	return r.operate(ctx, rehearsed, "requeue", ids, requeue(from))
}

// Drop says what DB.Drop would do.
func (r Rehearsal) Drop(ctx context.Context, ids []int64) (store.Moved, error) {
	return r.operate(ctx, rehearsed, "drop", ids, drop)
}
