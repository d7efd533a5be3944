package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"batchq/report"
	"batchq/store"
)

func newBackup(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the database to a file, while it is in use",
		Long: `Writes a copy of one moment to FILE, which must not be there yet. It may run
beside anything, keeps nobody waiting, and never changes the database. The copy
is examined as doctor does it, and FILE is there only when it is whole and on
the disk. What live runs hold at that moment is held in the copy too: a run on
the copy takes it back, and touches nothing of the original.

To restore one: stop every run (batchq pause --all --wait, then end those that
follow), move FILE into the place of the database, and remove the -wal and -shm
beside the old one: they belong to it. Fencing tokens go on growing from there.
What was recorded after the copy was made is not in it, and would be done again.`,
		Example: `  batchq backup /backup/batchq.db
  batchq backup "/backup/batchq-$(date +%F).db" -q

  # in a crontab % begins a new line unless it is escaped
  15 2 * * *  batchq --db /srv/settle/batchq.db backup /backup/batchq-$(date +\%F).db -q

  # restore
  batchq pause --all --wait && mv /backup/batchq.db batchq.db && rm -f batchq.db-wal batchq.db-shm`,
		Args: oneFile,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runBackup(c.Context(), a, args[0])
		},
	}
	setExits(c, exits{
		exitOK:     "the copy is there, and sound",
		exitFailed: "there is no copy: FILE is there already, there is no room, or the database is at fault",
		exitUsage:  "",
		exitConfig: "the configuration is broken, or there is no database there",
		exitHUP:    "", exitINT: "", exitTERM: "", exitTSTP: "",
	})
	return c
}

// oneFile wants the name of one file.
func oneFile(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return withHint(usagef("%s needs a FILE", c.CommandPath()), "%s --help shows how it is used", c.CommandPath())
	case len(args) > 1:
		return withHint(usagef("%s takes one FILE, and there is also %q", c.CommandPath(), args[1]), "%s --help shows how it is used", c.CommandPath())
	case args[0] == "":
		return usagef("FILE is empty")
	case args[0] == "-":
		return withHint(usagef("a copy can't be written to stdout"), "name a file; ./- is one that is called so")
	}
	return nil
}

func runBackup(ctx context.Context, a *app, file string) (err error) {
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := listen(ctx)
	defer s.close()
	copied, err := db.Backup(s.soft, file)
	if sig := s.signal(); sig != 0 && err != nil {
		return exitWith(signalExit(sig), fmt.Errorf("stopped by %s: no copy was made", signalName(sig)))
	}
	if err != nil {
		return badCopy(a, err)
	}
	r := report.NewBackup(copied, aliveAmong(db.Path(), copied.Runs), a.now())
	if a.out.json {
		return a.out.document(r)
	}
	a.out.summary("%s", r.Summary())
	for _, line := range r.Lines() {
		a.out.note("%s", line)
	}
	return nil
}

// badCopy adds to an error about the database itself what doctor can do.
func badCopy(a *app, err error) error {
	if errors.Is(err, store.ErrDamaged) {
		return withHint(err, "%s doctor says all that is wrong, and doctor --fix mends what can be mended", a.self())
	}
	return err
}
