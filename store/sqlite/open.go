// Package sqlite is the engine behind store's interfaces: one file, every SQL
// statement of batchq, and nothing that decides what a result means. No
// SQLite word, type or error leaves it.
//
// A DB holds one connection for writing; reports use a connection of their
// own. A process that must not let one kind of write wait for another (a
// worker and its heartbeat) opens two.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver's only importer

	"batchq/jobs/fault"
	"batchq/store"
)

// lockWait is how long a command waits for another program's lock before it
// says so: longer than any transaction of ours, short enough for a person.
const lockWait = 60 * time.Second

// Options say how to open a database.
type Options struct {
	// Create makes the file where there is none (or an empty one). Only
	// commands that bring items in set it: a typo in --db must not look like
	// an empty list.
	Create bool
	// Migrate brings the file of an older batchq up to date, which who only
	// reads must not do. Create implies it.
	Migrate bool
	// Lives says whether a run of an older batchq, which forbids that, still
	// lives; nil: every run that has not written its end.
	Lives func(path string, r store.RunInfo) bool
	// Now is the wall clock; nil means time.Now. Nothing else reads it.
	Now func() time.Time
	// Wait bounds the wait for a lock; 0 means a minute.
	Wait time.Duration
}

// DB is an open database. Its methods may be called from several goroutines;
// writes are done one after another.
type DB struct {
	path  string
	now   func() time.Time
	wait  time.Duration
	lives func(path string, r store.RunInfo) bool
	inode inode

	pool *sql.DB
	conn *sql.Conn // writes, and reads that belong to them

	mu      sync.Mutex // held while conn is in use
	stmts   map[string]*sql.Stmt
	full    bool // synchronous=FULL is set on conn
	jobs    names
	scopes  names
	specs   map[specKey]string // what claim has written to policy already
	changed int64              // last data_version

	readMu  sync.Mutex
	closed  bool // no reader is opened any more
	readers *sql.DB
	reader  connection // reports; opened when first needed
}

// names caches ids of a name table; rows in it are never changed or removed.
type names map[string]int64

type specKey struct{ run, job int64 }

// The engine satisfies every interface.
var (
	_ store.Queue     = (*DB)(nil)
	_ store.Ownership = (*DB)(nil)
	_ store.Operator  = (*DB)(nil)
	_ store.Upkeep    = (*DB)(nil)
	_ store.Reader    = (*DB)(nil)
)

// Open opens the database at path. Symlinks are resolved first. The error is
// a *store.FileError for everything that is about the file; the file is then
// as it was.
func Open(ctx context.Context, path string, o Options) (*DB, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	db := &DB{path: path, now: o.Now, wait: o.Wait, lives: o.Lives,
		stmts: map[string]*sql.Stmt{}, jobs: names{}, scopes: names{}, specs: map[specKey]string{}}
	if db.now == nil {
		db.now = time.Now
	}
	if db.wait == 0 {
		db.wait = lockWait
	}
	if err := db.refuseNetwork(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil, &store.FileError{Path: path, Err: store.ErrForeign, Detail: "it is a directory", Hint: "name a file with --db"}
	case errors.Is(err, os.ErrNotExist), err == nil && info.Mode().IsRegular() && info.Size() == 0:
		if !o.Create {
			return nil, &store.FileError{Path: path, Err: store.ErrNoDatabase,
				Hint: "enqueue creates it; or name the right one with --db or BATCHQ_DB"}
		}
		if err := db.create(ctx); err != nil {
			return nil, err
		}
	case err == nil && !info.Mode().IsRegular():
		// Also because to open a named pipe would wait for a writer, for ever.
		return nil, &store.FileError{Path: path, Err: store.ErrForeign, Detail: "it is no regular file", Hint: "name a file with --db"}
	case err != nil:
		return nil, &store.FileError{Path: path, Err: store.ErrReadOnly, Detail: pathReason(err), Hint: "check the owner and mode of the file and its directory"}
	}
	if o.Create || o.Migrate {
		if info, err = os.Stat(path); err == nil {
			err = db.refuseSecondName(info)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := db.connect(ctx, o.Create || o.Migrate); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// resolve makes path absolute and follows symlinks, also where what the last
// one points to does not exist yet: two names of one file must lead to one set
// of locks, and a link must not be replaced by the file.
func resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		dir, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("database %q: %w", path, err)
		}
		// Not Join: what follows a link and ".." is where the system says it is.
		path = dir + "/" + path
	}
	for hops := 0; ; hops++ {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		dir, base := filepath.Split(path)
		real, err := filepath.EvalSymlinks(dir)
		switch path := filepath.Clean(path); {
		case errors.Is(err, os.ErrNotExist):
			return "", &store.FileError{Path: path, Err: store.ErrNoDatabase, Detail: "its directory does not exist",
				Hint: "make it with: mkdir -p " + filepath.Dir(path)}
		case err != nil:
			return "", &store.FileError{Path: path, Err: store.ErrReadOnly, Detail: pathReason(err),
				Hint: "check the owner and mode of the directories above it"}
		}
		path = filepath.Join(real, base)
		target, err := os.Readlink(path)
		if err != nil || hops == maxHops {
			return path, nil // no link; what is wrong with a ring of links is said by who opens it
		}
		if !filepath.IsAbs(target) {
			target = real + "/" + target
		}
		path = target
	}
}

// maxHops is how many links the kernel follows. Source: path_resolution(7).
const maxHops = 40

// pathReason is the system's reason without the path, which the message has already.
func pathReason(err error) string {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

// modeLook opens a file without a lock, a log or an index of it: for a first
// look at what may be another program's.
const modeLook = "look"

// dsn is how a connection is opened. Each pragma has its reason:
//
//   - busy_timeout is short because begin does the waiting in steps of its
//     own, which a heartbeat among busy writers needs; readers set it long.
//   - foreign_keys: a row that points nowhere is refused when it is written.
//   - cache_size: 16 MB hold the hot pages of a million items' indexes.
//   - journal_size_limit: a log that grew behind a long reader is cut back to
//     16 MB when it has been folded in, not kept at its largest for ever.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}}
	if mode == modeLook {
		q.Set("mode", "ro")
		q.Set("immutable", "1")
	}
	q["_pragma"] = append([]string{"foreign_keys(1)", "cache_size(-16384)", "journal_size_limit(16777216)"}, pragmas...)
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	return u.String()
}

// connect checks what the file is, through a connection that can't change
// it, then opens the one for writing and, where that is allowed, brings the
// schema up to date.
func (db *DB) connect(ctx context.Context, migrate bool) error {
	alignSideFiles(db.path)
	version, err := db.identify(ctx)
	if err != nil {
		return err
	}
	db.inode, err = inodeOf(db.path)
	if err != nil {
		return fmt.Errorf("%s: %w", db.path, err)
	}
	db.pool, err = sql.Open("sqlite", dsn(db.path, "rw", "busy_timeout(50)", "synchronous(FULL)", foldAfter(db.path)))
	if err != nil {
		return db.outward("opening", err)
	}
	db.full = true
	// Also opening meets locks: a program that is the last to close folds the
	// log back, and that takes as long as the disk does.
	err = db.patiently(ctx, func() (err error) {
		db.conn, err = db.pool.Conn(ctx)
		return err
	})
	if err != nil {
		return db.outward("opening", err)
	}
	if migrate && version < schemaVersion {
		return db.migrate(ctx)
	}
	return nil
}

// Path is the file's absolute path, symlinks resolved.
func (db *DB) Path() string { return db.path }

// Close closes the connections. The last one on a host folds the log back
// into the file.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.readMu.Lock()
	defer db.readMu.Unlock()
	var errs []error
	fault.Here("close", "begun")
	for _, s := range db.stmts {
		errs = append(errs, s.Close())
	}
	clear(db.stmts)
	if db.reader != nil {
		errs = append(errs, db.reader.Close())
	}
	if db.conn != nil {
		errs = append(errs, db.conn.Close())
	}
	for _, p := range []*sql.DB{db.readers, db.pool} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	db.reader, db.conn, db.readers, db.pool = nil, nil, nil, nil
	db.closed = true
	fault.Here("close", "closed")
	if err := errors.Join(errs...); err != nil {
		return db.outward("closing", err)
	}
	return nil
}

// Replaced says whether the path no longer leads to the file that is open:
// somebody has moved, removed or restored it under us.
func (db *DB) Replaced() bool {
	now, err := inodeOf(db.path)
	return err != nil || now != db.inode
}
