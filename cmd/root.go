package cmd

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
)

func newRoot(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "batchq",
		Short: "Turn \"process all of it\" into small, owned, recoverable steps",
		Long: `Targets are written into one common list, a file. A worker run takes at most a
batch of them, holds them under a lease, runs the job's command once for each,
and records each result the moment it is known. Rerunning the same command
after any crash resumes: nothing is lost, and nothing that is recorded as
finished is done again.`,
		Example: `  batchq init                                     # a first batchq.toml
  seq 1 1000 | batchq enqueue thumbnails
  batchq work thumbnails -- ./thumbnail.sh {}
  batchq stats
  batchq dlq list`,
		Version:       buildVersion(),
		SilenceErrors: true, // app.finish prints, once
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			a.begin()
		},
	}
	group(c, exits{exitOK: "help or the version was shown", exitUsage: ""})
	a.global.register(c.PersistentFlags())
	c.SetHelpFunc(help)
	c.SetUsageFunc(func(*cobra.Command) error { return nil }) // errors carry their own hint
	c.SetFlagErrorFunc(flagError)
	c.SetHelpCommand(newHelp(a))
	c.CompletionOptions.DisableDefaultCmd = true // ours has examples and exit statuses
	c.AddCommand(
		newInit(a),
		newEnqueue(a),
		newWork(a),
		newRun(a),
		newRequeue(a),
		newDrop(a),
		newDLQ(a),
		newPause(a),
		newResume(a),
		newRuns(a),
		newShow(a),
		newStats(a),
		newCheck(a),
		newDoctor(a),
		newBackup(a),
		newPrune(a),
		newDemo(a),
		newVersion(a),
		newCompletion(a),
		newMan(a),
	)
	offerNames(a, c)
	return c
}

// group makes c a command that only holds others: called by itself, or with a
// word that is none of them, it is a usage error.
func group(c *cobra.Command, e exits) {
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := usagef("unknown command %q for %q", args[0], c.CommandPath())
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return withHint(err, "did you mean %s?", c.CommandPath()+" "+strings.Join(near, " or "+c.CommandPath()+" "))
		}
		return withHint(err, "%s --help lists the commands", c.CommandPath())
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		return withHint(usagef("%s needs a command", c.CommandPath()), "%s --help lists them", c.CommandPath())
	}
	setExits(c, e)
}

// flagError turns a flag that can't be understood into a usage error, with
// the flag that was probably meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return withHint(usagef("%s", plainly(err)), "%s --help lists the flags", c.CommandPath())
	}
	name := unknown.GetSpecifiedName()
	if s := unknown.GetSpecifiedShortnames(); len(s) > 1 {
		name = s // -parallel: two hyphens were meant
	}
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	if near := jobs.Nearest(name, known); near != "" {
		return withHint(usagef("%w", err), "did you mean --%s?", near)
	}
	return withHint(usagef("%w", err), "%s --help lists the flags", c.CommandPath())
}

// meant adds to the error about a word the one of the known words that was
// probably meant, if there is such a one.
func meant(err error, word string, known []string) error {
	if near := jobs.Nearest(word, known); near != "" {
		return withHint(err, "did you mean %s?", near)
	}
	return err
}

// plainly words a flag's error without the name of the function that found it.
func plainly(err error) string {
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err.Error()
	}
	reason := "is no whole number"
	if errors.Is(number, strconv.ErrRange) {
		reason = "is too large"
	}
	before, _, _ := strings.Cut(err.Error(), ": strconv.")
	return fmt.Sprintf("%s: %q %s", before, number.Num, reason)
}

// noArgs is for commands that take none.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return withHint(usagef("%s takes no argument, and there is %q", c.CommandPath(), args[0]), "%s --help shows how it is used", c.CommandPath())
}

// atLeastOne is for commands whose first argument can't be left out; what
// names it, for the message.
func atLeastOne(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return nil
		}
		return withHint(usagef("%s needs %s", c.CommandPath(), what), "%s --help shows how it is used", c.CommandPath())
	}
}

// exclusive is a usage error when more than one of the named flags is given.
func exclusive(f *pflag.FlagSet, names ...string) error {
	var given []string
	for _, name := range names {
		if f.Changed(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return usagef("%s exclude each other", strings.Join(given, " and "))
	}
	return nil
}

// count says "1 item" or "3 items".
func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
