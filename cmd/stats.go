package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"batchq/jobs/config"
	"batchq/report"
	"batchq/store"
)

func newStats(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show what waits, runs, is done and dead, and who holds what",
		Long: `One screen: the database's path, the books, what is paused or held back and why,
the lanes and the jobs with the age of the oldest waiting item, the slots in use
with who holds them and since when, and the runs at work.

Waiting is what is ready, due but not yet moved, or claimed and not started.
The books always balance:
enqueued = ready + delayed + claimed + running + done + dead + dropped + pruned`,
		Example: `  batchq stats
  batchq stats --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return runStats(c.Context(), a)
		},
	}
	setExits(c, exits{
		exitOK:     "the numbers were shown",
		exitFailed: "", exitUsage: "",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

func runStats(ctx context.Context, a *app) (err error) {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	r := report.NewStats(s, lanesOf(cfg, s), aliveAmong(db.Path(), s.Runs), a.now())
	if a.out.json {
		return a.out.document(r)
	}
	err = a.out.result(func(w io.Writer) error { return r.WriteText(w, a.out.stdout.width()) })
	for _, note := range cfg.Notes {
		a.out.note("%s", note)
	}
	return err
}

// lanesOf says in which lane each job is: where the configuration puts it,
// else where it was last worked.
func lanesOf(cfg *config.Config, s store.Stats) report.Lanes {
	l := report.Lanes{Limit: cfg.Lanes, Of: map[string]string{}}
	for _, j := range s.Jobs {
		l.Of[j.Name] = j.Lane
	}
	for name, spec := range cfg.Jobs {
		l.Of[name] = spec.Lane
	}
	return l
}
