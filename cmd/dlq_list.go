package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
)

func newDLQList(a *app) *cobra.Command {
	o := &dlqListOptions{}
	c := &cobra.Command{
		Use:   "list [ID...]",
		Short: "List dead items and why they are dead",
		Long: `Lists the items that were set aside: bad input, spent retries, repeated crashes.
The longest dead come first. On a terminal it is a table; in a pipe the same
columns are separated by tabs, without titles:

  ID  JOB  SCOPE  KEY  SINCE  ATTEMPTS  CLASS  REASON

The way back is batchq requeue, the way out batchq drop.`,
		Example: `  batchq dlq list
  batchq dlq list --job pos --class timeout --since 24h
  batchq dlq list --error "no such order" | cut -f1 | xargs batchq drop
  batchq dlq list --json`,
		RunE: func(c *cobra.Command, args []string) error {
			return runDLQList(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the list was shown, empty or not",
		exitFailed: "", exitUsage: "",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type dlqListOptions struct {
	selectionFlags
	limit int
}

// tableRows is how many rows a table shows unless told otherwise: more is not
// read by anybody, and the table is made in memory.
const tableRows = 1000

func (o *dlqListOptions) register(f *pflag.FlagSet) {
	o.selectionFlags.register(f, "")
	f.IntVar(&o.limit, "limit", 0, "at most `N` items, the longest dead first (a table: 1000)")
}

func runDLQList(ctx context.Context, a *app, o *dlqListOptions, args []string) (err error) {
	if err := checkLimit(o.flags, o.limit); err != nil {
		return err
	}
	sel, err := o.selection(args, a.now())
	if err != nil {
		return err
	}
	sel.States, sel.Limit = []jobs.State{jobs.Dead}, o.limit
	table := a.out.stdout.terminal && !a.out.json
	if table && sel.Limit == 0 {
		sel.Limit = tableRows
	}
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.DeadLetters(ctx, sel)
	if err != nil {
		return err
	}
	more, err := moreThan(ctx, db, sel, len(rows))
	if err != nil {
		return err
	}
	list := report.NewDeadLetters(rows, more, a.now())
	switch {
	case a.out.json:
		return a.out.document(list.Document())
	case table:
		err = a.out.result(func(w io.Writer) error { return list.WriteTable(w, a.out.stdout.width()) })
	default:
		err = a.out.result(list.WriteTabs)
	}
	if len(rows) == 0 {
		a.out.note("no dead item%s", map[bool]string{true: " matches"}[o.given() || len(args) > 0])
	}
	if more > 0 {
		a.out.note("and %d more: --limit %d shows them all", more, len(rows)+more)
	}
	return err
}

// moreThan is how many items a selection names beyond those that were shown.
func moreThan(ctx context.Context, r store.Operator, sel store.Selection, shown int) (int, error) {
	if sel.Limit == 0 || shown < sel.Limit {
		return 0, nil
	}
	sel.Limit = 0
	ids, err := r.Select(ctx, sel)
	return max(0, len(ids)-shown), err
}
