package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	engine "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"batchq/jobs/fault"
	"batchq/store"
)

// backupPages is how much is copied before ctx is asked again: 8 MB.
const backupPages = 2048

// Backup copies the pages of one moment, through the engine, while others
// write. The copy is made under another name beside its place, examined, and
// moved there when it is sound and on the disk.
func (db *DB) Backup(ctx context.Context, to string, tell func(pages, of int64)) (c store.Copied, err error) {
	slash := strings.HasSuffix(to, "/")
	if to, err = filepath.Abs(to); err != nil {
		return c, err
	}
	place := &DB{path: to} // for the words of errors
	if of := SideFileOf(to); of != "" {
		return c, &store.FileError{Path: to, Err: store.ErrReadOnly, Detail: "that is the name of a file beside a database " + filepath.Base(of) + ", which would be removed with it", Hint: "name another file"}
	}
	if err := place.vacant(db.path); err != nil {
		return c, err
	}
	if slash {
		return c, &store.FileError{Path: to, Err: store.ErrReadOnly, Detail: "it ends in a slash, and there is no such directory", Hint: "name a file"}
	}
	draft := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".new")
	lock, err := place.ownDraft(draft)
	if err != nil {
		return c, err
	}
	defer func() {
		_ = os.Remove(draft) // not there is what is wanted
		err = errors.Join(err, lock.Close())
	}()
	// Who had the draft before may have put it in place meanwhile.
	if err := place.vacant(db.path); err != nil {
		return c, err
	}
	fault.Here("backup", "begun")
	if err := db.copyPages(ctx, draft, tell); err != nil {
		if code(err) == lib.SQLITE_FULL || code(err) == lib.SQLITE_IOERR {
			return c, place.outward("backup", err) // it is there that there is no room
		}
		return c, db.outward("backup", err)
	}
	fault.Here("backup", "copied")
	if c, err = db.examine(ctx, draft); err != nil {
		if fe, ok := errors.AsType[*store.FileError](err); ok && fe.Path == draft {
			// Nobody knows the draft; what is wrong with it is wrong with the original.
			of := *fe
			of.Path = db.path
			err = &of
		}
		return c, err
	}
	fault.Here("backup", "examined")
	c.Path = to
	return c, place.putInPlace(draft)
}

// vacant is an error when the place is none for a new file.
func (db *DB) vacant(original string) error {
	info, err := os.Lstat(db.path)
	switch {
	case err == nil:
		if here, err := os.Stat(original); err == nil && os.SameFile(info, here) {
			return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it is the database itself", Hint: "name a file that is not there yet"}
		}
		if info.IsDir() {
			return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it is a directory", Hint: "name a file in it that is not there yet"}
		}
		return db.taken()
	case errors.Is(err, os.ErrNotExist):
		dir := filepath.Dir(db.path)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "its directory does not exist", Hint: "make it with: mkdir -p " + dir}
		}
	}
	return nil // what else is wrong is said by who makes the draft
}

func (db *DB) taken() error {
	return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it is there already", Hint: "name a file that is not there yet"}
}

// ownDraft makes an empty draft and locks it, so that two backups to one place
// don't write into one file, and one that was killed is told from one at work.
// The engine opens the draft without locks of its own; these would be lost
// with the first descriptor of it that is closed.
func (db *DB) ownDraft(draft string) (*os.File, error) {
	const tries = 100 // each time another backup has ended in between
	for range tries {
		f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if errors.Is(err, os.ErrExist) {
			if err := db.clearDraft(draft); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, db.cantCreate(err)
		}
		mine, err := lockedAs(f, draft)
		if err == nil && mine {
			if err = f.Chmod(0o600); err == nil { // whatever the umask
				return f, nil
			}
			err = errors.Join(err, os.Remove(draft))
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, db.cantCreate(err)
		}
	}
	return nil, db.underWay()
}

// clearDraft removes a draft that nobody is at work on.
func (db *DB) clearDraft(draft string) error {
	f, err := os.OpenFile(draft, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: draft + " is in the way: " + pathReason(err), Hint: "remove it, or name another file"}
	}
	defer f.Close()
	mine, err := lockedAs(f, draft)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return db.underWay()
	case err == nil && mine:
		err = os.Remove(draft)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return db.cantCreate(err)
	}
	return nil
}

// lockedAs locks a file and says whether it is still the one of that name.
func lockedAs(f *os.File, name string) (bool, error) {
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return false, err
	}
	open, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(name)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, named), err
}

func (db *DB) underWay() error {
	return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "another backup to it is under way", Hint: "wait for that one, or name another file"}
}

// copyPages copies within one read transaction, so that what others write
// meanwhile neither gets into the copy nor makes it begin anew.
func (db *DB) copyPages(ctx context.Context, draft string, tell func(pages, of int64)) (err error) {
	pool, err := sql.Open("sqlite", dsn(db.path, "rw", fmt.Sprintf("busy_timeout(%d)", db.wait.Milliseconds()), "query_only(1)"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	defer func() {
		_, end := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		err = errors.Join(err, end)
	}()
	var objects int
	if err := conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&objects); err != nil {
		return err // this read is what fixes the moment
	}
	var pages, copied int64
	if err := conn.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	// Nobody else knows the draft: it needs no lock, which another kind of file
	// system may not have, no journal, and one sync at the end.
	to := url.URL{Scheme: "file", Path: draft, RawQuery: url.Values{"mode": {"rw"}, "nolock": {"1"},
		"_pragma": {"journal_mode(OFF)", "synchronous(OFF)"}}.Encode()}
	return conn.Raw(func(c any) error {
		b, err := c.(interface {
			NewBackup(string) (*engine.Backup, error)
		}).NewBackup(to.String())
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if more, err = b.Step(backupPages); err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if copied = min(pages, copied+backupPages); tell != nil {
				tell(copied, pages)
			}
		}
		return errors.Join(err, b.Finish())
	})
}

// examine recounts the copy, as doctor does, and says what it shows.
func (db *DB) examine(ctx context.Context, draft string) (c store.Copied, err error) {
	pool, err := sql.Open("sqlite", dsn(draft, modeLook, "query_only(1)"))
	if err != nil {
		return c, err
	}
	copied := &DB{path: draft, now: db.now, wait: db.wait, readers: pool, inode: db.inode}
	defer func() { err = errors.Join(err, copied.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return c, err
	}
	copied.reader = stoppable{conn, ctx}
	h, err := copied.Check(ctx)
	if err != nil {
		return c, err
	}
	if !h.Sound() {
		hint := "batchq doctor says all that is wrong, and doctor --fix mends what can be mended"
		if len(h.Integrity) > 0 {
			hint = "batchq doctor says all that is wrong; restore an older backup: nothing mends a damaged file"
		}
		return c, &store.FileError{Path: db.path, Err: store.ErrDamaged, Detail: "the copy is not sound: " + append(h.Integrity, h.Faults...)[0], Hint: hint}
	}
	st, err := copied.Stats(ctx)
	return store.Copied{Bytes: sizeOf(draft), Items: h.Items, Runs: st.Runs}, err
}

// stoppable is a connection whose questions end with ctx: to examine a large
// copy takes long, and a person who stops it does not want to wait.
type stoppable struct {
	connection
	ctx context.Context
}

func (s stoppable) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.connection.QueryContext(s.ctx, query, args...)
}

func (s stoppable) QueryRowContext(_ context.Context, query string, args ...any) *sql.Row {
	return s.connection.QueryRowContext(s.ctx, query, args...)
}

// putInPlace moves a draft to the path, where nothing may be yet, for good.
func (db *DB) putInPlace(draft string) (err error) {
	f, err := os.Open(draft)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return db.cantCreate(err)
	}
	fault.Here("backup", "synced")
	err = unix.Renameat2(unix.AT_FDCWD, draft, unix.AT_FDCWD, db.path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		// A file system that can't promise it: a look and a move must do.
		if _, there := os.Lstat(db.path); there == nil {
			return db.taken()
		}
		err = os.Rename(draft, db.path)
	}
	if errors.Is(err, unix.EEXIST) {
		return db.taken()
	}
	if err != nil {
		return db.cantCreate(err)
	}
	fault.Here("backup", "renamed")
	dir, err := os.Open(filepath.Dir(db.path))
	if err != nil {
		return db.cantCreate(err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}
