package cmd

import (
	"github.com/spf13/cobra"

	"batchq/report"
)

func newCheck(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Say all that is wrong with batchq.toml at once, and what it comes to",
		Long: `Reads the configuration that the other commands would read, and opens no
database. What is wrong is told with file and line, all of it at once: unknown
keys, an attempt that uses more than its pool holds, limits of 0, a job that is
declared twice. What is sound is shown as it comes out, with every lane's
limit and the arithmetic behind it: size of the pool ÷ what one attempt uses.

A note: line is no fault, but perhaps not what was meant: a job whose lane is
not declared runs in serial.`,
		Example: `  batchq check
  batchq check --config new.toml && mv new.toml batchq.toml
  batchq check --json`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return runCheck(a)
		},
	}
	setExits(c, exits{
		exitOK:     "the configuration is sound, or there is none and the defaults hold",
		exitUsage:  "",
		exitFailed: "the result could not be written",
		exitConfig: "the configuration is broken, or can't be read",
	})
	return c
}

func runCheck(a *app) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	path, source, err := a.database()
	if err != nil {
		return err
	}
	r := report.NewCheck(cfg, path, source)
	if a.out.json {
		return a.out.document(r)
	}
	for _, line := range r.Lines() {
		a.out.print("%s", line)
	}
	return nil
}
