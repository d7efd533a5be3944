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
	// Story tells all of one item; it is no error when none is called so.
	Story(ctx context.Context, n Naming) (Told, error)
	// Payload is what an item's command reads; nil where it has none, or where
	// there is no such item.
	Payload(ctx context.Context, item int64) ([]byte, error)
	// DeadLetters lists dead items, the longest dead first, as they are at one
	// moment: for lists that fit a screen.
	DeadLetters(ctx context.Context, s Selection) ([]ItemRow, error)
	// DeadPage reads a part of the same list; see DeadPages.
	DeadPage(ctx context.Context, r DeadRange) (DeadPage, error)
	// Peek returns the first n ready items of a job in the order in which they
	// would start, with their payloads.
	Peek(ctx context.Context, job string, scope *string, n int) ([]*jobs.Item, error)
	// JobNames lists every job that has ever had an item or been worked.
	JobNames(ctx context.Context) ([]string, error)
	// LaneNames lists every lane in which a job was worked last or has a slot.
	LaneNames(ctx context.Context) ([]string, error)
	// ScopeNames lists the scopes in which the jobs (nil: any) have ever had an
	// item, the newest first (by first use), at most limit; never the empty one.
	ScopeNames(ctx context.Context, jobNames []string, limit int) ([]string, error)
	// Runs lists runs, the newest first.
	Runs(ctx context.Context, s RunSelection) ([]RunRow, error)
	// InHand counts what of a target is claimed or running, and who has it.
	InHand(ctx context.Context, t Target) (InHand, error)
}

// RunSelection names runs. Empty fields don't restrict.
type RunSelection struct {
	Since time.Duration // begun or ended within the last …, or not ended; 0: any time
	Limit int           // 0: all
}

// RunRow is one run as lists show it.
type RunRow struct {
	RunInfo
	Outcome   string // "" while it has not ended
	Schema    int
	Batches   int   // claims that brought something
	PeakBytes int64 // largest attempt; 0: unknown
	// What its death left: items that it had not started, and those that it
	// had, which a person may want to look at again.
	Freed   int
	Crashed []CrashedItem
}

// CrashedItem is one item that was running when its run died.
type CrashedItem struct {
	Item    int64
	Job     string
	Scope   string
	Key     []byte
	Attempt int
	State   jobs.State // now
}

// InHand is what runs hold of a target.
type InHand struct {
	Claimed int64 // not started
	Running int64
	Holders []Holder // of what is running
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
	Pauses []Pause   // everything first, then lanes, then jobs
	// Squeezed are the jobs that find no room in a pool, the longest first.
	Squeezed []Squeezed
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
	// Breaker is nil while it is closed.
	Breaker *Breaker
	// Throttle is nil while it goes as fast as it can.
	Throttle *Throttle
}

// Counters is what happened to a job's items since the database was made.
type Counters struct {
	Done, Retries, Timeouts, Throttled, Dead, Crashes, Lapses, Stale, Duplicates, Conflicts int64
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
	Claim    int64 // under which its end was recorded: the fencing token; that of the heir where its run died
	Class    jobs.Class
	Exited   bool // ExitCode is meant; else Signal, or neither
	ExitCode int
	Signal   string
	Status   int // of an HTTP answer; 0: there was none
	Reason   string
	Started  time.Time
	Duration time.Duration
	Output   jobs.Output
}
