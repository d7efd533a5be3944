package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
)

func newDrop(a *app) *cobra.Command {
	o := &dropOptions{}
	c := &cobra.Command{
		Use:   "drop [ID...]",
		Short: "Take items out of the list for good",
		Long: `Takes dead, ready or delayed items out of the list: the way out of a wrong list.
Their keys are free again, and they stay in the books as dropped. Items are
named by the ID that a list printed, or selected by flags.

Without --state, dead, ready and delayed items are meant. What a run holds or
has finished is never dropped. An item that only what a dead run left behind
still holds, and that can't be ended from here, is dropped by its ID.`,
		Example: `  batchq drop 1042
  batchq drop --state dead --job pos --error "no such order"
  batchq drop --job thumbnails --scope 2026-11-29 --dry-run
  batchq drop --all --state ready`,
		RunE: func(c *cobra.Command, args []string) error {
			return runDrop(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags(), "`STATE` of the items: dead, ready or delayed (all three are the default)", "all items that --job or --state names")
	setExits(c, movingExits)
	return c
}

// droppable are the states of items that nobody holds or has finished.
var droppable = []jobs.State{jobs.Dead, jobs.Ready, jobs.Delayed}

type dropOptions struct {
	movingFlags
}

func runDrop(ctx context.Context, a *app, o *dropOptions, args []string) error {
	if len(args) == 0 && !o.given() {
		return withHint(usagef("drop needs an ID or a selection"), "name at least a --job or a --state; --dry-run says what would happen")
	}
	if o.flags.Changed("scope") && o.scope == "" && !o.flags.Changed("job") {
		return withHint(usagef("drop with an empty --scope needs a --job beside it"), "an unset variable would drop every item without a scope")
	}
	mv, err := o.moving(a, args, droppable, droppable)
	if err != nil {
		return err
	}
	if o.all && !o.flags.Changed("job") && !o.flags.Changed("state") {
		return withHint(usagef("drop --all needs --job or --state beside it"), "--dry-run says what would happen")
	}
	mv.move = func(ctx context.Context, db store.Operator, ids []int64) (store.Moved, error) {
		return store.DropAll(ctx, db, ids)
	}
	return mv.run(ctx, a, report.Moving{Word: "dropped", From: oneOf(mv.from)})
}
