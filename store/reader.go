package store

import (
	"context"
	"time"

	"batchq/jobs"
)

// Reader is what reports are made of. It never changes anything.
type Reader interface {
	// Identity is the database's own random name, part of idempotency keys.
	Identity(ctx context.Context) (string, error)
	// Counts sums the books over the jobs (nil: all) and the scope (nil: all).
	Counts(ctx context.Context, jobNames []string, scope *string) (Counts, error)
	// Stats is one consistent picture of everything.
	Stats(ctx context.Context) (Stats, error)
	// Items lists what a selection names, oldest first, without payloads.
	Items(ctx context.Context, s Selection) ([]ItemRow, error)
	// DeadLetters lists dead items, the longest dead first.
	DeadLetters(ctx context.Context, s Selection) ([]ItemRow, error)
	// Peek returns the first n ready items of a job in the order in which they
	// would start, with their payloads.
	Peek(ctx context.Context, job string, scope *string, n int) ([]*jobs.Item, error)
	// JobNames lists every job that has ever had an item or been worked.
	JobNames(ctx context.Context) ([]string, error)
}

// Counts is the books: Enqueued is always the sum of the others.
type Counts struct {
	Enqueued, Ready, Delayed, Claimed, Running, Done, Dead, Dropped, Pruned int64
}

// Left is what is not settled yet.
func (c Counts) Left() int64 { return c.Ready + c.Delayed + c.Claimed + c.Running }

// Add adds o to c.
func (c *Counts) Add(o Counts) {
	c.Enqueued += o.Enqueued
	c.Ready += o.Ready
	c.Delayed += o.Delayed
	c.Claimed += o.Claimed
	c.Running += o.Running
	c.Done += o.Done
	c.Dead += o.Dead
	c.Dropped += o.Dropped
	c.Pruned += o.Pruned
}

// Stats is one consistent picture.
type Stats struct {
	Path   string
	Now    time.Time
	Totals Counts
	Jobs   []JobStats
	Slots  []SlotRow
	Runs   []RunInfo // those that have not ended
}

// JobStats is one job's books and troubles.
type JobStats struct {
	Name   string
	Lane   string // where it last ran or was declared to; "" when never
	Counts Counts
	// Waiting is ready, due but not yet moved, and claimed but not started.
	Waiting int64
	// Oldest is when the longest waiting item was first due; zero: none waits.
	Oldest   time.Time
	Counters Counters
}

// Counters is what happened to a job's items since the database was made.
type Counters struct {
	Done, Retries, Timeouts, Dead, Crashes, Lapses, Stale, Duplicates, Conflicts int64
}

// SlotRow is one slot in use.
type SlotRow struct {
	Run     int64
	Job     string
	Lane    string
	Uses    map[string]int
	Item    int64
	Key     []byte
	Scope   string
	Attempt int
	Since   time.Time
	PID     int
	Orphan  bool // its run is dead; what it left behind is being ended
}

// ItemRow is one item as lists show it.
type ItemRow struct {
	jobs.Item
	Class    jobs.Class // of the last attempt that did not succeed
	Reason   string     // its sentence
	Created  time.Time
	Started  time.Time // of the last attempt; zero: never
	Finished time.Time // when it was settled; zero: not yet
	Last     *AttemptRow
}

// AttemptRow is one attempt that did not succeed.
type AttemptRow struct {
	Number   int
	Run      int64
	Class    jobs.Class
	Exited   bool // ExitCode is meant; else Signal, or neither
	ExitCode int
	Signal   string
	Reason   string
	Started  time.Time
	Duration time.Duration
	Output   jobs.Output
}
