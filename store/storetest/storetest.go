// Package storetest says what every engine of store has to do: one suite over
// the interfaces, and a property test that walks them beside a model in
// memory. It knows no engine, opens no file and looks at nothing that the
// interfaces do not show.
package storetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// TB is what both a test and one round of a property offer.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skip(args ...any)
}

// Open opens one database once more: every call is another connection to the
// same items. With a path it opens what Backup has written there. now is the
// wall clock of that handle. The handle is closed by the engine's factory when
// tb ends, and the directory of the database goes with it.
type Open func(tb TB, path string, now func() time.Time) store.Store

// Fresh makes a new, empty database and says how to open it.
type Fresh func(tb TB) Open

// Run is the suite. Every subtest has a database of its own, at the end of
// which its books must balance.
func Run(t *testing.T, fresh Fresh) {
	for _, group := range []struct {
		name  string
		cases []testCase
	}{
		{"Enqueue", enqueueCases},
		{"Bytes", byteCases},
		{"Claim", claimCases},
		{"Order", orderCases},
		{"Share", shareCases},
		{"Limits", limitCases},
		{"Pause", pauseCases},
		{"Breaker", breakerCases},
		{"Throttle", throttleCases},
		{"Rate", rateCases},
		{"Squeeze", squeezeCases},
		{"Settle", settleCases},
		{"Fencing", fencingCases},
		{"Release", releaseCases},
		{"Lease", leaseCases},
		{"TakeOver", takeoverCases},
		{"Operate", operateCases},
		{"Select", selectCases},
		{"Dead", deadCases},
		{"Report", reportCases},
		{"Runs", runCases},
		{"Story", storyCases},
		{"Prune", pruneCases},
		{"Sweep", sweepCases},
		{"PruneRuns", pruneRunsCases},
		{"SweepRuns", sweepRunsCases},
		{"Backup", backupCases},
		{"Foreign", foreignCases},
		{"Concurrent", concurrentCases},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(setup(t, fresh))
				})
			}
		})
	}
	t.Run("OnDuplicate", func(t *testing.T) { onDuplicate(t, fresh) })
	t.Run("Model", func(t *testing.T) { Model(t, fresh) })
}

type testCase struct {
	name string
	run  func(*world)
}

// Clock is a wall clock that stands until it is moved, either way.
type Clock struct {
	mu sync.Mutex
	t  time.Time
}

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// Move sets the clock forward, or back by a negative d.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// world is one database, its clock, and a handle to it.
type world struct {
	t     TB
	ctx   context.Context
	clock *Clock
	open  Open
	db    store.Store
	// specs are the jobs as this test declares them; see spec.
	specs map[string]*jobs.Spec
}

// lengthy skips a case under -short: thousands of steps one after another, of
// which none is different from those of shorter cases.
func (w *world) lengthy() {
	if testing.Short() {
		w.t.Skip("thousands of steps")
	}
}

// dawn is when every test begins. It is no round number of anything, and it
// lies in a zone other than UTC: nothing that is stored may depend on either.
var dawn = time.Date(2026, 11, 29, 3, 4, 5, 678e6, time.FixedZone("UTC+9", 9*60*60))

func setup(t TB, fresh Fresh) *world {
	t.Helper()
	w := &world{t: t, ctx: context.Background(), clock: &Clock{t: dawn}, open: fresh(t), specs: map[string]*jobs.Spec{}}
	w.db = w.open(t, "", w.clock.Now)
	t.Cleanup(w.balance)
	return w
}

// other opens the same database by another handle.
func (w *world) other() store.Store {
	w.t.Helper()
	return w.open(w.t, "", w.clock.Now)
}

// balance checks the books against a recount, and against a count of ours.
func (w *world) balance() {
	w.t.Helper()
	h := must(w.db.Check(w.ctx))(w)
	if !h.Sound() {
		w.t.Errorf("the books: %q %q", h.Integrity, h.Faults)
	}
	items := w.items(store.Selection{})
	if h.Items != int64(len(items)) {
		w.t.Errorf("Check counts %d items, the list has %d", h.Items, len(items))
	}
	var sum store.Counts
	for _, it := range items {
		sum.Enqueued++
		*stateOf(&sum, it.State)++
	}
	kept := must(w.db.Counts(w.ctx, nil, nil))(w)
	// What was pruned is in the books alone.
	sum.Pruned = kept.Pruned
	sum.Enqueued += kept.Pruned
	if kept != sum {
		w.t.Errorf("the books say %+v, the items are %+v", kept, sum)
	}
	st := must(w.db.Stats(w.ctx))(w)
	if st.Totals != sum {
		w.t.Errorf("stats says %+v, the items are %+v", st.Totals, sum)
	}
	if len(st.Slots) != int(sum.Running) {
		w.t.Errorf("%d slots are taken by %d running items", len(st.Slots), sum.Running)
	}
}

// stateOf is the field of c that counts s.
func stateOf(c *store.Counts, s jobs.State) *int64 {
	return [...]*int64{&c.Ready, &c.Delayed, &c.Claimed, &c.Running, &c.Done, &c.Dead, &c.Dropped}[s]
}

// must passes a value on, or ends the test:
//
//	n := must(db.Release(ctx, run, held))(w)
func must[T any](v T, err error) func(*world) T {
	return func(w *world) T {
		w.t.Helper()
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		return v
	}
}

func (w *world) noError(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

// equal compares what a test got with what it wants; format says of what.
func equal[T comparable](w *world, got, want T, format string, args ...any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf(format+": got %v, want %v", append(args, got, want)...)
	}
}
