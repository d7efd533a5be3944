// Package worker is the loop of a run: it claims, starts, settles and goes on
// until nothing that was asked for is left. It decides when; what a result
// means is for jobs.Policy, and how it is recorded for the store.
//
// One goroutine runs the loop and makes every write of the run, one
// transaction a turn: results that arrived together are recorded together,
// and the starts that take their slots ride along (group commit). Attempts
// run in goroutines of their own and only send what happened.
package worker

import (
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// Lane is a lane that the run works, and the jobs in it.
type Lane struct {
	Name  string
	Slots int // most attempts at once, counted in the whole database
	Jobs  []*jobs.Spec
}

// Plan is what a run was asked to do.
type Plan struct {
	Lanes []Lane
	Pools map[string]int
	Scope *string // nil: every scope
	Batch int     // most unsettled items held in a lane
	Lease time.Duration
	Grace time.Duration // what running commands get after a stop before TERM

	Once       bool          // one claim a lane
	Limit      int           // most items in this run; 0: no limit
	MaxRuntime time.Duration // start nothing after it; 0: no limit
	Wait       bool          // stay until everything asked for is settled
	Follow     bool          // stay until told to stop
	StopAfter  int           // different items of a job failing in a row that end it for this run; 0: never

	// Reload asks a run to look at its configuration again, and Reread answers
	// with what it is to do from then on: lanes, jobs, pools, batch.
	Reload <-chan struct{}
	Reread func() (Plan, error)

	Print  func(it *jobs.Item, p *handler.Printed) // nil: output is not kept
	LogDir string
}

// Summary is what a run did.
type Summary struct {
	Done        int
	Retried     int // failures that will be tried again
	Dead        int
	Deferred    int
	Interrupted int // ended by a stop: ready again, free
	Stale       int // results refused because the item was no longer ours
	Claims      int // batches taken
	// Broken says which jobs can't be run at all, and why.
	Broken map[string]string
	// Halted says which jobs were left alone after StopAfter failures in a row.
	Halted map[string]string
	// FullLanes are lanes that were left because others hold all their slots.
	FullLanes []FullLane
	// Holds says what of the jobs was paused or held by a breaker when the run
	// left.
	Holds []store.Hold
	// NoRoom says of jobs that had something ready what was full for them.
	NoRoom map[string]string
	// NextDue is when the first delayed item is due; zero: none is known.
	NextDue time.Time
	Stopped bool // by a stop, before it was through
	// DeadBefore is how many of what was asked for were dead when the run began.
	DeadBefore int64
	PeakBytes  int64 // largest attempt
	// Left is what was asked for and is not settled; Books the whole of it.
	Books store.Counts
}

// FullLane is a lane without a free slot, and who has them.
type FullLane struct {
	Name    string
	Slots   int
	InUse   int
	Holders []store.Holder
}

// limits is what the store compares the shared count with.
func (p *Plan) limits() store.Limits {
	l := store.Limits{Lanes: map[string]int{}, Pools: p.Pools, Patience: p.Lease}
	for _, lane := range p.Lanes {
		l.Lanes[lane.Name] = lane.Slots
	}
	return l
}

// slots is how much can be in flight at once.
func (p *Plan) slots() (n int) {
	for _, l := range p.Lanes {
		n += l.Slots
	}
	return n
}

// JobNames lists the jobs that the run works.
func (p *Plan) JobNames() []string {
	names := []string{}
	for _, l := range p.Lanes {
		for _, s := range l.Jobs {
			names = append(names, s.Name)
		}
	}
	return names
}
