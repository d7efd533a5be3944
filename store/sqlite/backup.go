package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	engine "modernc.org/sqlite"

	"batchq/jobs/fault"
	"batchq/store"
)

// backupPages is how much is copied before ctx is asked again: 8 MB.
const backupPages = 2048

// Backup copies the pages of one moment, through the engine, while others
// write. The copy is made under another name beside its place, examined, and
// moved there when it is sound and on the disk.
func (db *DB) Backup(ctx context.Context, to string) (c store.Copied, err error) {
	if to, err = filepath.Abs(to); err != nil {
		return c, err
	}
	place := &DB{path: to} // for the words of errors
	if _, err := os.Lstat(to); err == nil {
		return c, place.taken()
	}
	draft := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+".new")
	_ = os.Remove(draft) // a killed one's, or not there
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return c, place.cantCreate(err)
	}
	defer func() { _ = os.Remove(draft) }() // not there is what is wanted
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return c, place.cantCreate(err)
	}
	fault.Here("backup", "begun")
	if err := db.copyPages(ctx, draft); err != nil {
		return c, place.outward("backup", err)
	}
	fault.Here("backup", "copied")
	if c, err = db.examine(ctx, draft); err != nil {
		return c, err
	}
	fault.Here("backup", "examined")
	c.Path = to
	return c, place.putInPlace(draft)
}

func (db *DB) taken() error {
	return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it is there already", Hint: "name a file that is not there yet"}
}

// copyPages copies within one read transaction, so that what others write
// meanwhile neither gets into the copy nor makes it begin anew.
func (db *DB) copyPages(ctx context.Context, draft string) (err error) {
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
	var identity string
	if err := conn.QueryRowContext(ctx, "SELECT identity FROM book").Scan(&identity); err != nil {
		return err // this read is what fixes the moment
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
	copied := &DB{path: draft, now: db.now, wait: db.wait, readers: pool}
	defer func() { err = errors.Join(err, copied.Close()) }()
	if copied.reader, err = pool.Conn(ctx); err != nil {
		return c, err
	}
	h, err := copied.Check(ctx)
	if err != nil {
		return c, err
	}
	if !h.Sound() {
		return c, &store.FileError{Path: db.path, Err: store.ErrDamaged, Detail: "the copy is not sound: " + append(h.Integrity, h.Faults...)[0], Hint: "run: batchq doctor"}
	}
	st, err := copied.Stats(ctx)
	return store.Copied{Bytes: sizeOf(draft), Items: h.Items, Runs: st.Runs}, err
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
