package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/report"
	"batchq/store"
)

func newDLQExport(a *app) *cobra.Command {
	o := &dlqExportOptions{}
	c := &cobra.Command{
		Use:   "export [ID...]",
		Short: "Write dead items to stdout, to be repaired or taken elsewhere",
		Long: `Writes dead items as JSON Lines: one object an item, the longest dead first. The
items stay where they are.

  job, scope, key, payload, priority
      the item itself; payload is absent where it has none. What is no UTF-8
      stands in scope_base64, key_base64 or payload_base64 instead
  id, class, reason, attempts, failures, crashes, created, dead_since
      for people; taking it back passes over them

batchq enqueue JOB FILE --format export takes the records of JOB back, each into
its own scope. Here their keys are in the dead-letter list still: --on-duplicate
replace makes them ready with the payload of the file, requeue those whose
payload is as it was. In another database they are new.

The output is JSON Lines always, which is no single document: --json is refused.`,
		Example: `  batchq dlq export --job pos > pos.jsonl
  batchq dlq export --job pos --error "no such store" --since 24h > pos.jsonl
  batchq enqueue pos pos.jsonl --format export --on-duplicate replace
  batchq dlq export --job pos | batchq --db other.db enqueue pos --format export`,
		RunE: func(c *cobra.Command, args []string) error {
			return runDLQExport(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the items were written, or there was none",
		exitFailed: "", exitUsage: "",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type dlqExportOptions struct {
	selectionFlags
	limit int
}

func (o *dlqExportOptions) register(f *pflag.FlagSet) {
	o.selectionFlags.register(f, "")
	f.IntVar(&o.limit, "limit", 0, "at most `N` items, the longest dead first")
}

func runDLQExport(ctx context.Context, a *app, o *dlqExportOptions, args []string) (err error) {
	if a.out.json {
		return withHint(usagef("dlq export writes JSON Lines, an object an item, and --json promises one document"),
			"leave --json out; batchq dlq list --json is one document")
	}
	if err := checkLimit(o.flags, o.limit); err != nil {
		return err
	}
	sel, err := o.selection(args, a.now())
	if err != nil {
		return err
	}
	sel.Limit = o.limit
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.warnUnknown(ctx, db, sel.Jobs, sel.Scope); err != nil {
		return err
	}
	written := 0
	for page, err := range store.DeadPages(ctx, db, sel, true) {
		if err != nil {
			return err
		}
		if err := a.out.result(func(w io.Writer) error { return report.WriteExport(w, page) }); err != nil {
			return err
		}
		if a.out.unheard() {
			return nil
		}
		written += len(page)
	}
	a.out.note("exported %s", count(written, "dead item"))
	return nil
}
