package cmd

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
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

--by folds like items into one row, the most frequent first, with the item of a
group that died last as its EXAMPLE:

  --by error  COUNT  JOB  CLASS  LAST  EXAMPLE  REASON
  --by class  COUNT  CLASS  LAST  EXAMPLE  JOBS
  --by job    COUNT  JOB  LAST  EXAMPLE  CLASSES

Errors are alike when they differ only in numbers and ids, which are shown as #,
and in what is quoted, shown as "…". An exit status or error code counts.

The way back is batchq requeue, the way out batchq drop.`,
		Example: `  batchq dlq list
  batchq dlq list --job pos --class timeout --since 24h
  batchq dlq list --by error --since 24h
  batchq dlq list --error "no such order" | cut -f1 | xargs -r batchq drop
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
	by    string
	limit int
}

// tableRows is how many rows a table shows unless told otherwise: more is not
// read by anybody, and the table is made in memory.
const tableRows = 1000

func (o *dlqListOptions) register(f *pflag.FlagSet) {
	o.selectionFlags.register(f, "")
	f.StringVar(&o.by, "by", "", "one row for like items: `WHAT` is error, class or job")
	f.IntVar(&o.limit, "limit", 0, "at most `N` items, the longest dead first, or N groups (a table: 1000)")
}

func runDLQList(ctx context.Context, a *app, o *dlqListOptions, args []string) (err error) {
	if err := checkLimit(o.flags, o.limit); err != nil {
		return err
	}
	if o.flags.Changed("by") && !slices.Contains(report.GroupsBy(), report.GroupBy(o.by)) {
		return usagef("--by: items can't be grouped by %q: want error, class or job", o.by)
	}
	sel, err := o.selection(args, a.now())
	if err != nil {
		return err
	}
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.warnUnknown(ctx, db, sel.Jobs, sel.Scope); err != nil {
		return err
	}
	if o.by != "" {
		return listGroups(ctx, a, o, db, sel)
	}
	table := a.out.stdout.terminal && !a.out.json
	sel.States, sel.Limit = []jobs.State{jobs.Dead}, o.limit
	if table && sel.Limit == 0 {
		sel.Limit = tableRows
	}
	var shown, more int
	switch {
	case a.out.json:
		_, _, err = writeDead(ctx, a, db, sel, &report.DeadLettersJSON{})
		return err
	case table:
		shown, more, err = deadTable(ctx, a, db, sel)
	default:
		shown, more, err = writeDead(ctx, a, db, sel, report.DeadLettersTabs{})
	}
	if err != nil {
		return err
	}
	if shown == 0 {
		a.out.note("no dead item%s", map[bool]string{true: " matches"}[o.given() || len(args) > 0])
	}
	if more > 0 {
		a.out.note("and %d more: --limit %d shows them all", more, shown+more)
	}
	return nil
}

// deadTable shows the list on a terminal, and says how many items it shows and how
// many there are beyond.
func deadTable(ctx context.Context, a *app, db *sqlite.DB, sel store.Selection) (shown, more int, err error) {
	rows, err := db.DeadLetters(ctx, sel)
	if err != nil {
		return 0, 0, err
	}
	if more, err = moreThan(ctx, db, sel, len(rows)); err != nil {
		return 0, 0, err
	}
	list := report.NewDeadLetters(rows, a.now())
	return len(rows), more, a.out.result(func(w io.Writer) error { return list.WriteTable(w, a.out.stdout.width()) })
}

// deadWriter writes the list for a program, a page at a time.
type deadWriter interface {
	Items(w io.Writer, rows []store.ItemRow) error
	End(w io.Writer, more int) error
}

// writeDead is deadTable for programs: it ends early when its reader does.
func writeDead(ctx context.Context, a *app, db *sqlite.DB, sel store.Selection, to deadWriter) (shown, more int, err error) {
	for page, err := range store.DeadPages(ctx, db, sel, false) {
		if err != nil {
			return shown, 0, err
		}
		if err := a.out.result(func(w io.Writer) error { return to.Items(w, page) }); err != nil {
			return shown, 0, err
		}
		if shown += len(page); a.out.unheard() {
			return shown, 0, nil
		}
	}
	if more, err = moreThan(ctx, db, sel, shown); err != nil {
		return shown, 0, err
	}
	return shown, more, a.out.result(func(w io.Writer) error { return to.End(w, more) })
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
