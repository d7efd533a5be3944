package store

import (
	"context"
	"time"

	"batchq/jobs"
)

// Upkeep is what keeps a database fit over the years.
type Upkeep interface {
	// Check recounts everything and compares it with the books.
	Check(ctx context.Context) (Health, error)
	// Repair mends what Check finds where nothing can be lost by it: the books
	// are written anew from the items, rows that belong to nothing go, the file
	// and its companions get their mode. It returns a sentence for each.
	Repair(ctx context.Context) ([]string, error)
	// Prune looks at the items after p.After, by id, and deletes those that
	// were settled long enough ago. It looks at a bounded number and deletes at
	// most MaxRows rows, those that hang on an item among them; call again with
	// Next while More.
	Prune(ctx context.Context, p Prune) (Pruned, error)
	// Sweep is one step of Prune for every job in keep, from where the last
	// Sweep of any process ended; after the last item it begins anew.
	Sweep(ctx context.Context, keep map[string]time.Duration) (Pruned, error)
	// PruneRuns deletes at most MaxRows runs that ended longer ago than age and
	// of which nothing is held, or only counts them.
	PruneRuns(ctx context.Context, age time.Duration, dryRun bool) (runs int, err error)
	// SweepRuns deletes at most MaxRows runs that ended longer ago than keep says
	// of each job that they worked, and that left nothing to be looked at again.
	// A run of which it isn't known what it worked goes only where keep names
	// every job there is.
	SweepRuns(ctx context.Context, keep map[string]time.Duration) (runs int, err error)
	// Backup writes a consistent copy to a file that is not there yet, checks it,
	// and returns when it is on the disk. tell, which may be nil, is told now and
	// then how many pages have been copied, and of how many.
	Backup(ctx context.Context, to string, tell func(pages, of int64)) (Copied, error)
}

// Prune names items that may go: done and dropped ones, never any other.
type Prune struct {
	// Keep says, by job, how long ago an item must have been settled; jobs that
	// are not in it are left alone.
	Keep   map[string]time.Duration
	Scope  *string      // nil: any
	States []jobs.State // of Done and Dropped; nil: both
	After  int64        // item id; 0 at first
	DryRun bool         // only count
}

// Pruned answers one step of Prune.
type Pruned struct {
	Done, Dropped int64 // how many went, by what they were
	Next          int64 // what to give as After
	More          bool  // there are items after Next
}

// Copied is what Backup has written.
type Copied struct {
	Path  string
	Bytes int64
	Items int64
	// Runs had not ended at the moment that the copy shows: what they hold is
	// held in it too.
	Runs []RunInfo
}

// Health is what Check found.
type Health struct {
	Path         string
	Schema       int
	NewestSchema int // what the next change brings the file to
	Bytes        int64
	WALBytes     int64
	Integrity    []string // what the engine's own check complained of
	// Faults are books that don't balance and rows that point nowhere.
	Faults []string
	// Notes are no faults: what the next run heals by itself.
	Notes []string
	Items int64
	// Runs have not written their end; whether they live is for who can ask.
	Runs []OpenRun
	// Left are items that are held because what dead runs left behind could
	// not be ended yet: the first few, and how many there are.
	Left      []LeftItem
	LeftCount int64
	// Ahead is how far the latest time on record lies after now; negative or
	// small when no clock was ever wrong.
	Ahead time.Duration
}

// Sound says whether nothing is wrong.
func (h Health) Sound() bool { return len(h.Integrity) == 0 && len(h.Faults) == 0 }

// OpenRun is a run that has not written its end, and what it holds.
type OpenRun struct {
	RunInfo
	Schema  int
	Claimed int64 // not started
	Running int64
}

// LeftItem is an item that waits for the end of what a dead run left behind.
type LeftItem struct {
	It   *jobs.Item // without payload
	Dead int64      // the run that had started it
	By   int64      // the run that took it over
}

// Files is how the database lies on its device.
type Files struct {
	Faults []string // modes and owners that let others in, or keep us out
	Notes  []string // a device that is nearly full, a log that grows
	// Others are processes that have the file open, for a log that can't be
	// folded in: as many as can be seen.
	Others []int
}
