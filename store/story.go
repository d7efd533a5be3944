package store

import (
	"time"

	"batchq/jobs"
)

// Naming says which item is meant: by its ID, or by its job and key, in one
// scope or in any.
type Naming struct {
	ID    int64 // 0: by Job and Key
	Job   string
	Key   []byte  // beside an ID: its digits as they were typed
	Scope *string // nil: any
}

// Told answers Reader.Story.
type Told struct {
	// Story is nil unless the name means exactly one item.
	Story *Story
	// Bearers are all that bear the name, the newest first, where they are
	// several. A dropped item bears its ID alone.
	Bearers []ItemRow
	// Job is the books of the job that was named, where no item bears the name.
	Job Counts
	// KeyOf are jobs that have an item with Naming.Key, where no item has the
	// ID: who typed it may have meant a key. At most KeyOfMost of them.
	KeyOf []string
}

// KeyOfMost bounds Told.KeyOf: with more than a few nobody is told where to look.
const KeyOfMost = 4

// Story is all that is on record of one item and of what stands around it, at
// one moment: what a person needs to know why it does not run.
type Story struct {
	Path           string // of the database
	Now            time.Time
	Item           ItemRow // without Last
	IdempotencyKey string  // which every attempt of this life of the key gets
	PayloadBytes   int64   // -1: it has none
	// Attempts are those that did not succeed, the oldest first. One that
	// succeeded has left its times on Item.
	Attempts []AttemptRow
	// Spec is how the run that holds it works its job, or for one that is dead how
	// the run of its last attempt did; where none does or that is not kept, how
	// the job was worked last; nil: never, or it can't be read.
	Spec    *jobs.Spec
	SpecRun int64  // the run whose Spec it is; 0: how the job was worked last
	Lane    string // in which its job was worked last; "" when never

	Grip *Grip // of one that is claimed or running; nil for all others
	Line *Line // of one that waits for a run: ready or delayed; nil for all others
	// Successor is the item that bears the key of a dropped one now; 0: none does.
	Successor int64

	// What may hold its job back, or be in its way.
	Pauses   []Pause   // all that hold something back, whether it is this one or not
	Breaker  *Breaker  // nil while it is closed
	Throttle *Throttle // nil while its job goes as fast as it can
	// NextStart is when the rate of its job lets the next one start at an even
	// pace; zero: no rate was in use. A start may come jobs.RateSlack before it.
	NextStart time.Time
	Kept      *Kept     // the pools that are kept free for another job; nil: none
	Slots     []SlotRow // all that are in use
	Runs      []RunInfo // that have not written their end
	Served    []int64   // those of Runs that have had something of its job
	// Crashed are slots of items whose run has died under them before, where
	// this is such an item: a run has only one of them in flight.
	Crashed []SlotRow
}

// Grip is how an item is held.
type Grip struct {
	Claim int64 // the fencing token
	// Run is who holds it; its ID is 0 when the book knows nobody.
	Run   RunInfo
	Since time.Time // when it was claimed; zero: the claim is not in the book
	Until time.Time // when the lease ends unless it is renewed
	// Slot is the one that it takes while it runs; nil: it has not started, or
	// its slot is not in the book.
	Slot *SlotRow
	// Orphan is set when its own run has died and another took over: it stays
	// held until what the dead run left behind has been ended.
	Orphan *Orphan
}

// Line is where an item stands among the ready ones of its job.
type Line struct {
	Before int64 // how many start before it
	More   bool  // there are more than Before: that is where the counting ended
}

// Kept says that pools are kept free for a job that was passed over for a
// whole lease.
type Kept struct {
	Job  string
	Uses map[string]int
	// Until is when that ends, unless it has found its room before.
	Until time.Time
}
