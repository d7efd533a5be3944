package cmd

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
)

func newRequeue(a *app) *cobra.Command {
	o := &requeueOptions{}
	c := &cobra.Command{
		Use:   "requeue [ID...]",
		Short: "Make dead items ready again",
		Long: `Items are named by the ID that a list printed, or selected by flags. Their
failures and crashes start anew; what happened before stays on record, and
attempts go on being counted. Which items are meant is taken down first, so that
the command ends also beside a run that sends items back.

Without --state, dead items are meant. --state delayed makes items that wait
for a retry or for their time due now. --state done runs finished items again,
and needs --yes: it ends the protection against doing them twice.`,
		Example: `  batchq requeue --all
  batchq requeue 1042 1043
  batchq requeue --job pos --error "connection refused" --since 24h
  batchq requeue --job pos --state delayed
  batchq requeue --job report --scope 2026-11-29 --state done --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			return runRequeue(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags(), "`STATE` of the items: dead (the default), delayed or done", "all dead items, or all that --state names")
	c.Flags().BoolVar(&o.yes, "yes", false, "confirms --state done")
	setExits(c, movingExits)
	return c
}

// movingExits are the statuses of requeue and drop.
var movingExits = exits{
	exitOK:     "every item that was meant has been moved, or none was meant",
	exitFailed: "",
	exitUsage:  "",
	exitPart:   "done in part: items were refused, and are as they were",
	exitConfig: "the configuration is broken, or there is no database there",
}

// requeued are the states from which items can be made ready.
var requeued = []jobs.State{jobs.Dead, jobs.Delayed, jobs.Done}

type requeueOptions struct {
	movingFlags
	yes bool
}

func runRequeue(ctx context.Context, a *app, o *requeueOptions, args []string) error {
	if len(args) == 0 && !o.given() && !o.all {
		return withHint(usagef("requeue needs an ID or a selection"), "--all means all dead items")
	}
	mv, err := o.moving(a, args, requeued, []jobs.State{jobs.Dead})
	if err != nil {
		return err
	}
	if slices.Contains(mv.from, jobs.Done) && !o.yes && !o.dryRun {
		return withHint(usagef("--state done does finished work again"), "if that is meant, add --yes")
	}
	mv.move = func(ctx context.Context, db store.Operator, ids []int64) (store.Moved, error) {
		return store.RequeueAll(ctx, db, ids, mv.from)
	}
	return mv.run(ctx, a, report.Moving{Word: "requeued", From: oneOf(mv.from)})
}
