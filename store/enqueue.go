package store

import (
	"context"
	"time"
)

// Queue is what moves items: producers add, a worker claims, starts and settles.
type Queue interface {
	// Enqueue adds at most MaxRows items in one transaction.
	Enqueue(ctx context.Context, e Enqueue) (Enqueued, error)
	// Claim takes items of one lane for one run. A Claim without items is no error.
	Claim(ctx context.Context, c ClaimRequest) (Claim, error)
	// Advance records results and starts together, in one transaction.
	Advance(ctx context.Context, a Advance) (Advanced, error)
	// Release gives unstarted items back, free. Items that are no longer held
	// under the claim named are passed over.
	Release(ctx context.Context, run int64, items []Held) (released int, err error)
	// Changed says whether another connection has committed since the last call.
	Changed(ctx context.Context) (bool, error)
}

// Enqueue is one portion of a list for one job.
type Enqueue struct {
	Job         string
	Scope       string // of items that name none
	Items       []NewItem
	OnDuplicate OnDuplicate
	// DryRun changes nothing and says what would have happened. Repetitions
	// inside Items are then the caller's to find.
	DryRun bool
}

// NewItem is one target that is to be added.
type NewItem struct {
	Key      []byte
	Payload  []byte  // nil: none
	Scope    *string // nil: the Enqueue's
	Priority int
	// Delay from now until it is due; 0: at once. At, where set, is used instead.
	Delay time.Duration
	At    time.Time
}

// OnDuplicate says what happens when the key is already there.
type OnDuplicate string

const (
	Skip    OnDuplicate = "skip"
	Replace OnDuplicate = "replace"
	Requeue OnDuplicate = "requeue"
	Fail    OnDuplicate = "fail"
)

// Outcome is what became of one NewItem.
type Outcome uint8

const (
	Added         Outcome = iota
	Duplicate             // the key is there, with the same payload
	DuplicateDone         // likewise, and it is done already
	Conflict              // the key is there with another payload: untouched
	InDLQ                 // the key is in the dead-letter queue: untouched
	Replaced              // payload, priority and due time are the new ones
	Requeued              // done or dead before, ready again now
	Stopped               // OnDuplicate Fail: this one was there; nothing after it was tried
)

// Enqueued answers an Enqueue: one Outcome for each item in order; fewer than
// items when the last one is Stopped.
type Enqueued struct {
	Outcomes []Outcome
}
