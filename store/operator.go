package store

import (
	"context"
	"time"

	"batchq/jobs"
)

// Operator is what a person may do to items that are not in flight.
type Operator interface {
	// Select lists the ids that a selection names now, oldest first.
	Select(ctx context.Context, s Selection) ([]int64, error)
	// CountSelected counts what a selection names now, by job and state, in the
	// order of jobs' names.
	CountSelected(ctx context.Context, s Selection) ([]JobState, error)
	// Requeue makes at most MaxRows dead, done or delayed items ready.
	Requeue(ctx context.Context, ids []int64, from []jobs.State) (Moved, error)
	// Drop takes at most MaxRows dead, ready or delayed items out of the list,
	// and items that only what a dead run left behind still holds.
	Drop(ctx context.Context, ids []int64) (Moved, error)
	// Pause holds targets back from now on, in every run; By and Reason count,
	// Since is when it is done. One that is paused already gets the new reason
	// and keeps its time.
	Pause(ctx context.Context, targets []Target, by, reason string) error
	// Resume ends the pauses of targets, or all of them when targets is nil,
	// and returns those that were there.
	Resume(ctx context.Context, targets []Target) ([]Pause, error)
	// TryNow ends the wait of open breakers, of the jobs named or of all when
	// that is nil: one item may be tried at once. It returns the jobs that waited.
	TryNow(ctx context.Context, jobNames []string) ([]string, error)
	// Unthrottle ends throttles, of the jobs named or of all when that is nil: they
	// go as fast as they can. It returns the jobs that were held.
	Unthrottle(ctx context.Context, jobNames []string) ([]string, error)
}

// Selection names items. Empty fields don't restrict.
type Selection struct {
	IDs    []int64
	Jobs   []string
	Scope  *string
	Key    []byte
	States []jobs.State
	Class  jobs.Class
	Error  string        // part of the reason, any case
	Since  time.Duration // settled or added within the last …; 0: any time
	Limit  int           // 0: all
}

// Moved answers Requeue and Drop.
type Moved struct {
	Moved int
	// From is what the moved ones were, by job and state, in the order of jobs'
	// names: its sum is Moved.
	From []JobState
	// Refused lists ids that were left as they are, and why.
	Refused []Refusal
}

// JobState is how many items of one job are in one state.
type JobState struct {
	Job   string
	State jobs.State
	Items int
}

// Refusal is one item that could not be moved.
type Refusal struct {
	ID     int64
	Reason string
}
