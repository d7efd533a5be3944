package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"batchq/jobs/config"
	"batchq/report"
)

func newInit(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "init [DIR | FILE.toml | -]",
		Short: "Write a first batchq.toml, with comments, and its database",
		Long: `Writes ./batchq.toml, or that of DIR, or FILE, with comments that explain what
it says; the first job runs when one line of it, the command, has been changed.
For - it goes to standard output, and nothing is written.

It also makes the database that the file names: batchq.db beside it, unless --db
or $BATCHQ_DB names another. A file that is there is never overwritten.

The file's mode is 0600 whatever the umask: it may come to hold secrets (env),
the database is its owner's alone too, and a file that others can write is
refused, because it says which programs run.`,
		Example: `  batchq init
  batchq init /srv/settle
  batchq init - | less`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return withHint(usagef("%s takes one argument at most, and there is %q too", c.CommandPath(), args[1]), "%s --help shows how it is used", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runInit(c.Context(), a, args)
		},
	}
	setExits(c, exits{
		exitOK:     "the file is written, and the database is there",
		exitFailed: "the file is there already, or it or the database can't be written",
		exitUsage:  "",
		exitConfig: "there is no directory in which the database could be",
	})
	return c
}

func runInit(ctx context.Context, a *app, args []string) (err error) {
	if len(args) > 0 && a.global.config != "" {
		return usagef("--config and %s both name the file to write", args[0])
	}
	if !utf8.ValidString(a.global.db) {
		return usagef("--db: a path that is no UTF-8 can't stand in batchq.toml")
	}
	if len(args) > 0 && args[0] == stdinName {
		return a.printStarter()
	}
	path, err := starterPath(cmp.Or(strings.Join(args, ""), a.global.config, config.FileName))
	if err != nil {
		return err
	}
	text, err := a.starter()
	if err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return thereAlready(path) // before a database is made
	}
	// What is about to be written goes through the parser first: the database is
	// the one that the other commands will find by it.
	if a.loaded, err = config.Parse(path, text); err != nil {
		return err
	}
	database, source, err := a.database()
	if err != nil {
		return err
	}
	_, missing := os.Stat(database)
	db, err := a.openStore(ctx, creates)
	if err != nil {
		return err
	}
	if err := db.Close(); err != nil {
		return err
	}
	if err := writeNew(path, text); err != nil {
		return err
	}
	return a.tellInit(report.NewInitialized(path, database, source, errors.Is(missing, fs.ErrNotExist)))
}

// starter is the text to write: with --db it names that database.
func (a *app) starter() ([]byte, error) {
	if a.global.db == "" {
		return config.Starter(""), nil
	}
	path, err := filepath.Abs(a.global.db)
	return config.Starter(path), err
}

func (a *app) printStarter() error {
	if a.out.json {
		return usagef("- prints the file itself: leave out --json")
	}
	text, err := a.starter()
	if err != nil {
		return err
	}
	return a.out.result(func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// starterPath is the file that an argument means: what ends in .toml, or
// batchq.toml in a directory. Anything else may be a directory that was to be
// made, or a slip of the pen.
func starterPath(arg string) (string, error) {
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return filepath.Join(arg, config.FileName), nil
	case filepath.Ext(arg) == ".toml", err == nil:
		return filepath.Clean(arg), nil
	}
	return "", withHint(usagef("%s is no directory, and its name does not end in .toml", arg), "to make the directory: mkdir -p %s", shellWord(arg))
}

func thereAlready(path string) error {
	check := "batchq check"
	if path != config.FileName {
		check += " --config " + shellWord(path)
	}
	return withHint(fmt.Errorf("%s is there already, and is left as it is", path),
		"to see what it says: %s; to see a new one: batchq init -; to begin anew, move it away first", check)
}

// writeNew writes a file that is not there yet, whole or not at all.
func writeNew(path string, text []byte) (err error) {
	draft, err := os.CreateTemp(filepath.Dir(path), ".batchq-*.toml")
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = withHint(fmt.Errorf("can't write %s: there is no such directory", path), "mkdir -p %s", shellWord(filepath.Dir(path)))
		}
		return err
	}
	_, failed := draft.Write(text)
	if err := errors.Join(failed, draft.Chmod(0o600), draft.Sync(), draft.Close()); err != nil { // the umask may have taken more
		return errors.Join(fmt.Errorf("can't write %s: %w", path, err), os.Remove(draft.Name()))
	}
	err = unix.Renameat2(unix.AT_FDCWD, draft.Name(), unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system that can't promise it may still have links, which
		// replace nothing either.
		if err = os.Link(draft.Name(), path); err == nil {
			err = os.Remove(draft.Name())
		}
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return errors.Join(thereAlready(path), os.Remove(draft.Name()))
	case err != nil:
		return errors.Join(fmt.Errorf("can't write %s: %w", path, err), os.Remove(draft.Name()))
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// tellInit says what was made, and what to type next.
func (a *app) tellInit(r report.Initialized) error {
	if a.out.json {
		return a.out.document(r)
	}
	for _, line := range r.Lines() {
		a.out.summary("%s", line)
	}
	if strings.HasPrefix(r.DatabaseSource, "$") {
		a.out.note("%s names the database, and goes before what the file says", r.DatabaseSource)
	}
	// Plain commands find the file only where it is the one they look for.
	if found, err := config.Find(a.global.config, a.getenv); err != nil || found != r.Config {
		a.global.config = r.Config
	}
	a.out.summary("now change line %d of it, the command of the job %s, and type:", config.StarterLine(), config.StarterJob)
	a.out.summary("  %s check", a.self())
	a.out.summary("  seq 3 | %s enqueue %s", a.self(), config.StarterJob)
	a.out.summary("  %s work", a.self())
	return nil
}
