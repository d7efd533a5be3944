package store

import (
	"time"

	"batchq/jobs"
)

// Limits is what a run allows to be in flight. The shared count in the
// database is what they are compared with; the numbers are the run's own.
type Limits struct {
	Lanes map[string]int // lane → slots
	Pools map[string]int // pool → size
	// Patience is how long a job may be passed over for a full pool before the
	// pool is kept free for it; 0: for ever.
	Patience time.Duration
}

// ClaimRequest asks for items of one lane.
type ClaimRequest struct {
	Run    int64
	Lane   string
	Jobs   []*jobs.Spec // the jobs of that lane which the run works
	Limits Limits
	Scope  *string        // nil: every scope
	Max    int            // most items to take
	Skip   map[int64]bool // ids that this run leaves alone
	Lease  time.Duration
}

// Claim is what one transaction took. Its ID only grows and is the fencing
// token of everything in it.
type Claim struct {
	ID    int64
	Lane  string
	Items []*jobs.Item // in the order in which they are to start; without payload
	// LaneFull: nothing was taken because no slot of the lane is free; Holders
	// says who has them.
	LaneFull bool
	InUse    int
	Holders  []Holder
	// Passed counts jobs that have something ready and no room: their own
	// limit or a pool is full.
	Passed int
	// NoRoom says of each of them what was full.
	NoRoom map[string]string
	// Holds says which jobs have something ready and are paused, throttled or held
	// by their breaker, or that the lane is paused.
	Holds []Hold
	// NextDue is how long until the first delayed item of these jobs is due, or
	// a breaker lets one be tried; negative: there is no such time.
	NextDue time.Duration
}

// Pass notes a job that has something ready and no room.
func (c *Claim) Pass(job, full string) {
	c.Passed++
	if c.NoRoom == nil {
		c.NoRoom = map[string]string{}
	}
	c.NoRoom[job] = full
}

// Held names an item and the claim under which it is held; for one that is
// running, also the slot that it takes.
type Held struct {
	Item  int64
	Claim int64
	Slot  int64 // 0: not started
}

// Advance is one step of a run: what ended, what is known of started
// processes, and what is to start. All of it is one transaction.
type Advance struct {
	Run    int64
	Limits Limits
	Settle []Settlement
	Pids   []Process
	Start  []Start
	// Close names claims of which nothing is held any more.
	Close []int64
}

// Settlement is the result of one attempt and what it means.
type Settlement struct {
	Held
	Attempt int
	Result  jobs.Result
	Verdict jobs.Verdict
	Breaker jobs.Breaker // the job's
}

// Process is what a rescuer needs to find a started command again.
type Process struct {
	Held
	PID   int
	Start uint64 // the kernel's start time of PID, clock ticks since boot
}

// Start asks for at most Want of Items, all of one lane, to be started, the
// first that fit. Their order is kept; one whose job or pool is full, or whose
// job is held back, is passed over.
type Start struct {
	Lane  string
	Want  int
	Items []StartItem
}

// StartItem is one held item and the job that it belongs to.
type StartItem struct {
	Held
	Spec *jobs.Spec
}

// Advanced answers an Advance.
type Advanced struct {
	// Stale lists settlements that were refused: the item is no longer held
	// under that claim.
	Stale []Held
	// Started lists what may run now.
	Started []Started
	// Lost lists items that were to start and are no longer ours.
	Lost []Held
	// Full says why Want was not reached, by lane; lanes where it was are absent.
	Full map[string]Full
	// Paced says of each job whose rate or throttle kept an item back how long it is until
	// one may start.
	Paced map[string]time.Duration
	// Tripped lists the jobs whose breaker opened, Mended those whose breaker
	// was open and that had a success.
	Tripped []Tripped
	Mended  []string
	// Throttled lists the jobs that the answer of a server holds, each once a wave.
	Throttled []Throttled
}

// Started is an item whose start is recorded.
type Started struct {
	Held
	Attempt int
	Payload []byte
}

// Full says what kept held items of a lane from starting.
type Full struct {
	Lane    bool     // the lane itself has no free slot
	Passed  int      // items passed over for a full job or pool, a pause or a breaker
	InUse   int      // slots of the lane in use
	Holders []Holder // who holds them
}
