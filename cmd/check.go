package cmd

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"batchq/jobs/config"
	"batchq/jobs/handler"
	"batchq/report"
)

func newCheck(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Say all that is wrong with batchq.toml at once, and what it comes to",
		Long: `Reads the configuration that the other commands would read, and opens no
database. What is wrong is told with file and line, all of it at once: unknown
keys, an attempt that uses more than its pool holds, limits of 0, a job that is
declared twice.

What is sound is shown as it comes out: every lane with its limit and the
arithmetic behind it (size of the pool ÷ what one attempt uses), and the jobs
that run in it, each with the most that can be in flight at once. Below a job
stand the settings that differ from the built-in defaults, each with the line
that says so; with -v all of them. --json always has all.

A note is no fault, but perhaps not what was meant: a job whose lane is not
declared runs in serial; a program is not there; nothing uses a lane or a pool;
a placeholder is none, or stands in text that a shell reads.`,
		Example: `  batchq check
  batchq check -v
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
	found := report.Found{Programs: programNotes(cfg, a.out.verbose)}
	if found.Database, found.DatabaseSource, err = a.database(); err != nil {
		return err
	}
	switch {
	case a.global.config != "":
		found.ConfigSource = "--config"
	case cfg.Path != "" && a.getenv("BATCHQ_CONFIG") != "":
		found.ConfigSource = "$BATCHQ_CONFIG"
	}
	r := report.NewCheck(cfg, found)
	if a.out.json {
		return a.out.document(r)
	}
	for _, line := range r.Lines(a.out.verbose, a.out.stdout.width()) {
		a.out.print("%s", line)
	}
	if cfg.Path == "" {
		a.out.note("batchq init writes a first batchq.toml")
	}
	return nil
}

// programNotes tells of placeholders that are probably a mistake, and of
// programs that could not be run now. That is no fault of the file: they may be
// there tomorrow, or for another user.
func programNotes(cfg *config.Config, verbose bool) (notes []string) {
	environ := os.Environ()
	for _, name := range cfg.Names {
		s := cfg.Jobs[name]
		for _, doubt := range handler.Doubts(&s.Handler) {
			notes = append(notes, fmt.Sprintf("job %q (%s): %s", name, s.CommandSource(), doubt))
		}
		fault, searched := handler.Program(s, environ)
		if fault == "" {
			continue
		}
		if searched != "" && verbose {
			fault += " (PATH=" + searched + ")"
		}
		notes = append(notes, fmt.Sprintf("job %q (%s): its %s now: %s", name, s.CommandSource(), cantBeRun(&s.Handler), fault))
	}
	return notes
}
