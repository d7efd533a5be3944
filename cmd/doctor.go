package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"batchq/report"
)

func newDoctor(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Recount everything and check the database",
		Long: `Counts every item and compares with the books, looks for rows that point
nowhere, and lets the engine examine its file. It changes nothing, and may run
beside anything. What a dead run has left is a note, not a fault: the next run
takes it over.`,
		Example: `  batchq doctor
  batchq doctor -q || mail -s "batchq: database at fault" ops@example.org`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return runDoctor(c.Context(), a)
		},
	}
	setExits(c, exits{
		exitOK:     "the database is sound and the books balance",
		exitFailed: "something is wrong with it, or it could not be examined",
		exitUsage:  "",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

func runDoctor(ctx context.Context, a *app) (err error) {
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	health, err := db.Check(ctx)
	if err != nil {
		return err
	}
	s, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	r := report.NewHealth(health, s, aliveAmong(db.Path(), s.Runs), a.now())
	switch {
	case a.out.json:
		err = a.out.document(r)
	case !a.out.quiet || !health.Sound():
		err = a.out.result(r.WriteText)
	}
	if err == nil && !health.Sound() {
		return withHint(errors.New("the database is not sound"), "copy the file away before anything else, then restore a backup or ask for help with the lines above")
	}
	return err
}
