package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"batchq/lease"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newDoctor(a *app) *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Recount everything and check the database",
		Long: `Counts every item and compares with the books, looks for rows that point
nowhere, for counters that can't be, for tables and indexes that are missing or
changed, for modes and owners of its files, and lets the engine examine the file
itself. Without --fix it changes nothing, and may run beside anything. What a
dead run has left is a note, not a fault: the next run takes it over.

--fix writes books and counters anew from the items, removes rows that belong to
nothing, makes lost indexes anew, gives the files their mode (0600) and owner,
says each thing that it mended, and examines everything once more. It may run
beside runs at work. It never deletes an item and never changes an item's state.
What can't be mended (a lost table or name) stays a fault, and a damaged file is
left as it is.`,
		Example: `  batchq doctor
  batchq doctor -q || mail -s "batchq: database at fault" ops@example.org
  batchq backup before.db; batchq doctor --fix`,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return runDoctor(c.Context(), a, o)
		},
	}
	c.Flags().BoolVar(&o.fix, "fix", false, "mend what can be mended without losing anything")
	setExits(c, exits{
		exitOK:     "the database is sound and the books balance, with --fix: by now",
		exitFailed: "something is wrong with it, or it could not be examined",
		exitUsage:  "",
		exitLeft:   "with --fix: a run of an older batchq is at work on it: run me again",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type doctorOptions struct {
	fix bool
}

// findings are what doctor knows of a database.
type findings struct {
	store.Health
	life   map[int64]report.Life
	mended []string
}

func runDoctor(ctx context.Context, a *app, o *doctorOptions) error {
	f, err := a.look(ctx)
	// A damaged file is left alone: what is counted in it is not to be trusted,
	// and books must not be written anew from that.
	if err == nil && o.fix && len(f.Integrity) == 0 {
		err = a.mend(ctx, &f)
	}
	if err != nil {
		for _, what := range f.mended { // it is so, whatever came after it
			a.out.must("mended: %s", what)
		}
		return err
	}
	r := report.NewHealth(f.Health, f.life, a.now(), f.mended...)
	switch {
	case a.out.json:
		err = a.out.document(r)
	case !a.out.quiet || !f.Sound() || len(f.mended) > 0:
		err = a.out.result(r.WriteText)
	}
	if err != nil || f.Sound() {
		return err
	}
	err = errors.New("the database is not sound")
	switch {
	case len(f.Integrity) > 0:
		return withHint(err, "%s", wayOut)
	case o.fix:
		return withHint(err, "what is left can't be mended without a guess: restore a backup, or ask for help with the lines above")
	}
	return withHint(err, "%s doctor --fix mends what can be mended without losing anything", a.self())
}

// wayOut is what there is to do about a damaged file.
const wayOut = "copy the file and its -wal away first; then restore a backup (without the old -wal and -shm), or save what can be read with sqlite3's .recover (https://sqlite.org/recovery.html); doctor --fix can't mend it"

// look examines the database as it is, and changes nothing. That it is too
// damaged to be read is a finding too.
func (a *app) look(ctx context.Context) (f findings, err error) {
	db, err := a.openStore(ctx, reads)
	switch {
	case errors.Is(err, store.ErrDamaged) && !a.out.json:
		return f, withHint(err, "%s", wayOut) // there is no more to say than that
	case err == nil:
		defer func() { err = errors.Join(err, db.Close()) }()
		f.Health, f.life, err = diagnose(ctx, db)
	}
	fe, ok := errors.AsType[*store.FileError](err)
	switch {
	case ok && errors.Is(err, store.ErrDamaged):
		f.Health = store.Health{Path: fe.Path, NewestSchema: sqlite.Schema(), Integrity: []string{"it can't be read: " + strings.TrimPrefix(fe.Error(), fe.Path+": ")}}
		if info, err := os.Stat(fe.Path); err == nil {
			f.Bytes = info.Size()
		}
		return f, nil
	case ok && errors.Is(err, store.ErrNoDatabase):
		if info, statErr := os.Stat(fe.Path); statErr == nil && info.Size() == 0 {
			return f, withHint(fmt.Errorf("%w: the file is there, and empty (0 bytes)", err),
				"if it was not empty before, restore a backup: enqueue would begin a new database in its place")
		}
	}
	return f, err
}

// mend mends what can be mended, the schema first: without it an older file
// can't be brought up to date.
func (a *app) mend(ctx context.Context, f *findings) error {
	err := a.with(ctx, reads, func(db *sqlite.DB) (err error) {
		f.mended, err = db.RepairSchema(ctx)
		return err
	})
	if err == nil {
		err = a.with(ctx, changes, func(db *sqlite.DB) error {
			mended, err := mend(ctx, db)
			f.mended = append(f.mended, mended...)
			return err
		})
	}
	if err != nil && !errors.Is(err, store.ErrDamaged) {
		return err
	}
	// What kept it from its end is among what is found now.
	after, again := a.look(ctx)
	if again != nil {
		return again
	}
	if err != nil && after.Sound() {
		return err
	}
	after.mended = f.mended
	*f = after
	return nil
}

// with opens the database for one thing.
func (a *app) with(ctx context.Context, to access, do func(*sqlite.DB) error) (err error) {
	db, err := a.openStore(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return do(db)
}

// mend repairs the database and the files of its runs.
func mend(ctx context.Context, db *sqlite.DB) ([]string, error) {
	mended, err := db.Repair(ctx)
	if err != nil {
		return mended, err
	}
	locks, err := lease.LockFiles(db.Path())
	for _, l := range locks {
		if db.MendFile(l.Path) {
			mended = append(mended, l.Path+" is its owner's alone")
		}
	}
	return mended, err
}

// diagnose looks at everything: rows, files, and which runs live.
func diagnose(ctx context.Context, db *sqlite.DB) (h store.Health, life map[int64]report.Life, err error) {
	if h, err = db.Check(ctx); err != nil {
		return h, nil, err
	}
	files, err := db.Files()
	if err != nil {
		return h, nil, err
	}
	h.Faults, h.Notes = append(h.Faults, files.Faults...), append(h.Notes, files.Notes...)
	if len(files.Others) > 0 {
		h.Notes = append(h.Notes, "it is open in "+openIn(files.Others, h.Runs))
	}
	if err := lockFiles(db, &h); err != nil {
		return h, nil, err
	}
	var open []store.RunInfo
	for i := range h.Runs {
		open = append(open, h.Runs[i].RunInfo)
	}
	return h, aliveAmong(db.Path(), open), nil
}

// openIn names processes, by their run where they are one.
func openIn(pids []int, runs []store.OpenRun) string {
	var names []string
	for _, pid := range pids {
		name := fmt.Sprintf("process %d", pid)
		if i := slices.IndexFunc(runs, func(r store.OpenRun) bool { return r.PID == pid && !r.Foreign }); i >= 0 {
			name = fmt.Sprintf("run %d (pid %d)", runs[i].ID, pid)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// lockFiles looks at the lock files beside the database. One that nobody holds
// and that is no run's is cleared away by the next run.
func lockFiles(db *sqlite.DB, h *store.Health) error {
	locks, err := lease.LockFiles(db.Path())
	if err != nil {
		return err
	}
	for _, l := range locks {
		faults, err := db.FileFaults(l.Path)
		if err != nil {
			return err
		}
		h.Faults = append(h.Faults, faults...)
		known := slices.ContainsFunc(h.Runs, func(r store.OpenRun) bool { return r.Token == l.Token })
		if !known && !l.Held {
			h.Notes = append(h.Notes, l.Path+" is the lock of no run; the next run removes it")
		}
	}
	return nil
}
