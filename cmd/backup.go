package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
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

To restore one: let every run come to its end (batchq pause --all --wait), end
those with --follow too (TERM; batchq runs list shows their pids), remove the
-wal and -shm beside the old database first, which belong to it and would be
played into the copy, and move FILE into its place. Fencing tokens go on growing
from there. What was recorded after the copy was made is not in it, and would be
done again.`,
		Example: `  batchq backup /backup/batchq.db
  batchq backup "/backup/batchq-$(date +%F).db" -q

  # in a crontab % begins a new line unless it is escaped
  15 2 * * *  batchq --db /srv/q.db backup /backup/q-$(date +\%F).db -q

  # restore: no run may be at work, those with --follow have to be ended too
  batchq pause --all --wait && batchq runs list
  rm -f batchq.db-wal batchq.db-shm && mv /backup/batchq.db batchq.db`,
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
		exitHUP:    "", exitINT: "", exitQUIT: "", exitTERM: "", exitTSTP: "",
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
	if of := sqlite.SideFileOf(args[0]); of != "" {
		return withHint(usagef("FILE: %s is the name of a file beside a database %s: a copy there would be taken for that, and lost", args[0], of), "name another file")
	}
	if info, err := os.Stat(args[0]); strings.HasSuffix(args[0], "/") && (err != nil || !info.IsDir()) {
		return withHint(usagef("FILE: %s ends in a slash, and there is no such directory", args[0]), "name a file")
	}
	return nil
}

func runBackup(ctx context.Context, a *app, file string) (err error) {
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := a.listen(ctx)
	defer s.close()
	var pages, of atomic.Int64
	stop := a.watch(func() report.Standing { return report.Working("page", pages.Load(), of.Load()) }, nil, true)
	copied, err := db.Backup(s.soft, file, func(n, all int64) { pages.Store(n); of.Store(all) })
	stop()
	if sig := s.signal(); sig != 0 && err != nil {
		return exitWith(signalExit(sig), fmt.Errorf("stopped by %s: no copy was made", signalName(sig)))
	}
	if err != nil {
		return badCopy(ctx, a, err)
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
func badCopy(ctx context.Context, a *app, err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	if f, found := a.look(ctx); found != nil || len(f.Integrity) > 0 {
		return withHint(err, "%s doctor says all that is wrong; restore an older backup: nothing mends a damaged file", a.self())
	}
	return withHint(err, "%s doctor says all that is wrong, and doctor --fix mends what can be mended", a.self())
}
