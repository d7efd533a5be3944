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
	// Backup writes a consistent copy to a file that is not there yet, checks it,
	// and returns when it is on the disk.
	Backup(ctx context.Context, to string) (Copied, error)
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
	Path      string
	Schema    int
	Bytes     int64
	WALBytes  int64
	Integrity []string // what the engine's own check complained of
	// Faults are books that don't balance and rows that point nowhere.
	Faults []string
	// Notes are no faults: a dead run that the next run will rescue.
	Notes []string
	Items int64
}

// Sound says whether nothing is wrong.
func (h Health) Sound() bool { return len(h.Integrity) == 0 && len(h.Faults) == 0 }
