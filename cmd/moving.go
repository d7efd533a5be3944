package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

// movingFlags are those of the commands by which a person moves items.
type movingFlags struct {
	selectionFlags
	all    bool
	limit  int
	dryRun bool
}

func (m *movingFlags) register(f *pflag.FlagSet, states, all string) {
	m.selectionFlags.register(f, states)
	f.BoolVar(&m.all, "all", false, all)
	f.IntVar(&m.limit, "limit", 0, "at most `N` items, the oldest first")
	f.BoolVar(&m.dryRun, "dry-run", false, "change nothing, say what would happen")
}

// moving is what a person wants moved.
type moving struct {
	sel    store.Selection
	from   []jobs.State
	dryRun bool
	move   func(ctx context.Context, db store.Operator, ids []int64) (store.Moved, error)
}

// moving checks the flags that all commands of this kind have; may lists the
// states from which items can be moved, usual those that are meant without
// --state.
func (m *movingFlags) moving(a *app, args []string, may, usual []jobs.State) (mv moving, err error) {
	if err := checkLimit(m.flags, m.limit); err != nil {
		return mv, err
	}
	if mv.sel, err = m.selection(args, a.now()); err != nil {
		return mv, err
	}
	if mv.sel.IDs != nil && m.all {
		return mv, usagef("--all and an ID exclude each other")
	}
	mv.from, mv.dryRun, mv.sel.Limit = usual, m.dryRun, m.limit
	if mv.sel.States != nil {
		mv.from = mv.sel.States
	}
	for _, state := range mv.from {
		if !slices.Contains(may, state) {
			return mv, usagef("--state %s: only items can be moved that are %s", state, oneOf(may))
		}
	}
	mv.sel.States = mv.from
	return mv, nil
}

// run opens the database, takes down which items are meant at this moment,
// and moves them: so it ends also beside a run that sends items back.
func (mv moving) run(ctx context.Context, a *app, doing report.Moving) (err error) {
	db, err := a.openStore(ctx, changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.warnUnknown(ctx, db, mv.sel.Jobs, mv.sel.Scope); err != nil {
		return err
	}
	moved, moveErr := store.Moved{}, error(nil)
	if mv.dryRun {
		moved, moveErr = mv.rehearse(ctx, db)
	} else {
		ids, err := mv.snapshot(ctx, db)
		if err != nil {
			return err
		}
		counts := &counting{Operator: db}
		stop := a.watch(func() report.Standing { return report.Working("item", counts.n.Load(), int64(len(ids))) }, nil, true)
		moved, moveErr = mv.move(ctx, counts, ids)
		stop()
	}
	doing.DryRun = mv.dryRun
	r := report.NewMoved(doing, moved)
	if a.out.json {
		if err := a.out.document(r); err != nil {
			return err
		}
	}
	for _, line := range r.Lines() {
		a.out.must("%s", line)
	}
	for _, line := range r.Summary() {
		a.out.summary("%s", line)
	}
	switch {
	case moveErr != nil:
		return withHint(moveErr, "what was moved stays moved; the same command again goes on")
	case r.Refused > 0 && !mv.dryRun:
		return exitWith(exitPart, nil)
	}
	return nil
}

// counting counts how many items have been gone through.
type counting struct {
	store.Operator
	n atomic.Int64
}

func (c *counting) Requeue(ctx context.Context, ids []int64, from []jobs.State) (store.Moved, error) {
	defer c.n.Add(int64(len(ids)))
	return c.Operator.Requeue(ctx, ids, from)
}

func (c *counting) Drop(ctx context.Context, ids []int64) (store.Moved, error) {
	defer c.n.Add(int64(len(ids)))
	return c.Operator.Drop(ctx, ids)
}

// snapshot lists the items that are meant. IDs are taken as they stand: one
// that can't be moved must be refused, not passed over.
func (mv moving) snapshot(ctx context.Context, db *sqlite.DB) ([]int64, error) {
	if mv.sel.IDs == nil {
		return db.Select(ctx, mv.sel)
	}
	if n := mv.sel.Limit; n > 0 && n < len(mv.sel.IDs) {
		return mv.sel.IDs[:n], nil
	}
	return mv.sel.IDs, nil
}

// rehearse says what move would do. Only IDs that were given can be refused:
// the others were selected because they can be moved, and are only counted.
func (mv moving) rehearse(ctx context.Context, db *sqlite.DB) (moved store.Moved, err error) {
	if mv.sel.IDs != nil {
		ids, err := mv.snapshot(ctx, db)
		if err != nil {
			return moved, err
		}
		return mv.move(ctx, sqlite.Rehearsal{DB: db}, ids)
	}
	moved.From, err = db.CountSelected(ctx, mv.sel)
	for _, from := range moved.From {
		moved.Moved += from.Items
	}
	return moved, err
}

// oneOf says "dead, ready or delayed".
func oneOf[T any](words []T) string {
	s := ""
	for i, word := range words {
		switch {
		case i == 0:
		case i == len(words)-1:
			s += " or "
		default:
			s += ", "
		}
		s += fmt.Sprint(word)
	}
	return s
}
