package worker_test

import (
	"context"
	"testing"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
)

// blind finds nothing at its first claim, as when an item becomes due, or is
// enqueued, a moment later.
type blind struct {
	worker.Store
	looks int
}

func (s *blind) Claim(ctx context.Context, c store.ClaimRequest) (store.Claim, error) {
	if s.looks++; s.looks == 1 {
		return store.Claim{Lane: c.Lane, NextDue: -1}, nil
	}
	return s.Store.Claim(ctx, c)
}

// What only the very last look of a run finds starts at once: it was held, and
// nothing was started, until the lease had passed.
func TestWork_FoundByTheLastLook(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	r := b.startWith(plan(serial(b.job("j", jobs.Serial, quick))), options{store: func(s worker.Store) worker.Store { return &blind{Store: s} }})
	if sum := r.wait(); sum.Done != 1 || sum.Claims != 1 {
		t.Errorf("%+v", sum)
	}
	b.once("a")
}
