package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"batchq/jobs/config"
	"batchq/lease"
	"batchq/store"
	"batchq/store/sqlite"
)

// process is what the system gives us; tests give something else.
type process struct {
	args           []string // without the program's name
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	now            func() time.Time
}

// app is what a command is given: the process, a place to print, and, when
// asked for, the configuration and the database.
type app struct {
	process
	out    *output
	global globalFlags
	// started says that the command line made sense and a command has begun:
	// errors before that are usage errors.
	started bool

	loaded *config.Config
}

func newApp(p process) *app {
	abandoned := make(chan struct{})
	return &app{process: p, out: &output{
		abandoned: abandoned,
		stdout:    newStream(p.stdout, abandoned),
		stderr:    newStream(p.stderr, abandoned),
		color:     p.getenv("NO_COLOR") == "" && p.getenv("TERM") != "dumb",
	}}
}

// begin takes over the global flags; every command passes here first.
func (a *app) begin() {
	a.started = true
	o, g := a.out, a.global
	o.json, o.quiet, o.verbose = g.json, g.quiet, g.verbose
	o.color = o.color && !g.noColor
}

// finish says what is left to be said and returns the exit status.
func (a *app) finish(err error) int {
	code := codeOf(err)
	if err != nil && !a.started && code == exitFailed {
		code = exitUsage
	}
	if err != nil && err.Error() != "" {
		a.out.fail(err)
	}
	if failure := a.out.failure(); failure != nil {
		a.out.fail(failure)
		if code == exitOK || code == exitLeft {
			code = exitFailed
		}
	}
	return int(code)
}

// config returns the configuration, which is read once. Without a file it
// holds the defaults. Any error is a broken configuration.
func (a *app) config() (*config.Config, error) {
	if a.loaded != nil {
		return a.loaded, nil
	}
	path, err := config.Find(a.global.config, a.getenv)
	if err != nil {
		return nil, exitWith(exitConfig, err)
	}
	cfg, err := config.Load(path)
	if err != nil {
		return nil, exitWith(exitConfig, err)
	}
	a.loaded = cfg
	return cfg, nil
}

// configOrNone is config for what a person must be able to do also while the
// file is broken: hold work back. Without the file the database has to be named.
func (a *app) configOrNone() error {
	_, err := a.config()
	if err == nil || a.global.db == "" && a.getenv("BATCHQ_DB") == "" {
		return err
	}
	none, failed := config.Load("")
	if failed != nil {
		return failed
	}
	a.out.warn("going by the database alone: %s", a.inShort(err))
	a.loaded = none
	return nil
}

// inShort is what is wrong with the configuration, on one line: several faults
// are counted, as a person who is after something else need not read them all.
func (a *app) inShort(err error) string {
	var faults config.Faults
	if !errors.As(err, &faults) || len(faults) < 2 {
		return err.Error()
	}
	return fmt.Sprintf("%d faults in %s (%s check lists them)", len(faults), faults[0].File, a.self())
}

// database returns the path of the database, absolute, and who named it:
// "--db", "$BATCHQ_DB", …, "the default".
func (a *app) database() (path, source string, err error) {
	cfg, err := a.config()
	if err != nil {
		return "", "", err
	}
	path, source, err = config.DatabasePath(a.global.db, cfg, a.getenv)
	if err != nil {
		return "", "", exitWith(exitConfig, err)
	}
	return path, source, nil
}

// sameDatabase says whether the configuration still leads to the database that
// a run has open: it can't change under it.
func (a *app) sameDatabase(path string) error {
	named, source, err := a.database()
	if err != nil {
		return err
	}
	open, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(named); err != nil || !os.SameFile(info, open) {
		return fmt.Errorf("the database is %s now (from %s), and this run has %s open: stop it and start another", named, source, path)
	}
	return nil
}

// access is what a command wants of the database.
type access int8

const (
	reads   access = iota // it changes nothing, and does not migrate an older file either
	changes               // it may
	creates               // it brings items in, and makes the file where there is none
)

// openStore opens the database. Only commands that bring items in create it:
// for the others a wrong path must not look like "nothing to do". The caller
// closes it.
func (a *app) openStore(ctx context.Context, to access) (*sqlite.DB, error) {
	path, source, err := a.database()
	if err != nil {
		return nil, err
	}
	if to == creates && source == defaultSource {
		// Nobody has made this directory yet, and nobody else will.
		// 0700 is what the XDG Base Directory Specification asks for.
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("can't make the database's directory: %w", err)
		}
	}
	_, missing := os.Stat(path)
	db, err := sqlite.Open(ctx, path, sqlite.Options{Create: to == creates, Migrate: to == changes, Lives: lives, Now: a.now})
	if err == nil && source == "the default" && errors.Is(missing, os.ErrNotExist) {
		// This is what happens in the wrong directory, without its batchq.toml.
		a.out.must("a new database: %s", path)
	}
	if err == nil {
		return db, nil
	}
	if source != "--db" { // then the path is before the user's eyes
		err = fmt.Errorf("%w; the path comes from %s", err, source)
	}
	if source == defaultSource && errors.Is(err, store.ErrNoDatabase) {
		err = withHint(err, "enqueue creates it; or name another with --db or BATCHQ_DB")
	}
	return nil, err
}

// lives says whether a run of an older batchq, which stands in the way of a
// newer one, is more than a row in the book.
func lives(database string, r store.RunInfo) bool { return lease.Look(database, r) != lease.Dead }

// defaultSource is how config.DatabasePath calls a path that nobody named.
const defaultSource = "the default"

// self is how a person calls this program for the same database and
// configuration: the beginning of a command that a message suggests.
func (a *app) self() string {
	s := "batchq"
	if a.global.db != "" {
		s += " --db " + shellWord(a.global.db)
	}
	if a.global.config != "" {
		s += " --config " + shellWord(a.global.config)
	}
	return s
}
