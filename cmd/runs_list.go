package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newRunsList(a *app) *cobra.Command {
	o := &runsListOptions{}
	c := &cobra.Command{
		Use:   "list",
		Short: "List runs: how they ended, and what to look at again",
		Long: `Lists runs, the newest first. On a terminal it is a table; in a pipe the same
columns are separated by tabs, without titles, with seconds and bytes:

  RUN  STATE  PID  SINCE  FOR  BATCHES  PEAK  TO LOOK AT  COMMAND

STATE is how the run ended, or alive, dead (the next run takes over what it
held) or unknown (it is in another pid namespace, and so is its PID). PEAK is
the memory of its largest attempt. TO LOOK AT counts the items that were running
when it died: they are named below, and what they did to the world outside is
for a person to find out. A narrow terminal gets fewer columns.`,
		Example: `  batchq runs list
  batchq runs list --since 24h --limit 0
  batchq runs list --json | jq '.runs[] | select(.crashed != [])'`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return runRunsList(c.Context(), a, o)
		},
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the list was shown, empty or not",
		exitFailed: "", exitUsage: "",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type runsListOptions struct {
	limit int
	since string
}

func (o *runsListOptions) register(f *pflag.FlagSet) {
	f.IntVar(&o.limit, "limit", 20, "at most `N` runs, the newest; 0 is all of them")
	f.StringVar(&o.since, "since", "", "begun, ended or at work since `TIME`: 24h, 7d, today, yesterday or RFC 3339")
}

func runRunsList(ctx context.Context, a *app, o *runsListOptions) (err error) {
	if o.limit < 0 || o.limit > maxNumber {
		return usagef("--limit: %d is not between 0 and %d", o.limit, maxNumber)
	}
	var sel store.RunSelection
	if o.since != "" {
		if sel.Since, err = parseSince(o.since, a.now()); err != nil {
			return err
		}
	}
	if o.limit > 0 {
		sel.Limit = o.limit + 1 // one more tells whether there are older ones
	}
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.Runs(ctx, sel)
	if err != nil {
		return err
	}
	older := o.limit > 0 && len(rows) > o.limit
	if older {
		rows = rows[:o.limit]
	}
	life, slots, err := lifeOf(ctx, db, rows)
	if err != nil {
		return err
	}
	list := report.NewRuns(rows, life, slots, older, a.now())
	infos := make([]store.RunInfo, 0, len(rows))
	for i := range rows {
		infos = append(infos, rows[i].RunInfo)
	}
	list.MarkElsewhere(elsewhere(infos))
	return a.listRuns(list)
}

// lifeOf says which runs live; where one is dead, also the slots in use, among
// which its own stand until another run takes over.
func lifeOf(ctx context.Context, db *sqlite.DB, rows []store.RunRow) (map[int64]report.Life, []store.SlotRow, error) {
	var open []store.RunInfo
	for i := range rows {
		if rows[i].Ended.IsZero() {
			open = append(open, rows[i].RunInfo)
		}
	}
	life := aliveAmong(db.Path(), open)
	for _, l := range life {
		if l == report.Dead {
			s, err := db.Stats(ctx)
			return life, s.Slots, err
		}
	}
	return life, nil, nil
}

func (a *app) listRuns(list report.Runs) (err error) {
	switch {
	case a.out.json:
		return a.out.document(list)
	case a.out.stdout.terminal:
		err = a.out.result(func(w io.Writer) error { return list.WriteTable(w, a.out.stdout.width()) })
	default:
		err = a.out.result(list.WriteTabs)
		for _, line := range append(list.Elsewhere(), list.LookAt()...) {
			a.out.note("%s", line)
		}
	}
	if len(list.Runs) == 0 {
		a.out.note("no run")
	}
	if list.Older {
		a.out.note("older runs are left out: --limit 0 shows them all")
	}
	return err
}
