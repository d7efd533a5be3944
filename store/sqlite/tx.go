package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"batchq/jobs/fault"
)

var errClosed = errors.New("the database is closed")

// tx is one writing transaction: the one now in it, and the books that are
// written at its end.
type tx struct {
	db    *DB
	now   int64 // milliseconds UTC
	books books
	newly struct{ jobs, scopes names } // ids made here, known to others only after the commit
	// onCommit is what may be remembered once it is certain.
	onCommit []func()
}

// syncing says whether a commit waits until it is on the disk.
type syncing bool

const (
	synced   syncing = true
	unsynced syncing = false // for what may be lost in a power cut without harm: see store's rules
)

// write runs f in one transaction that has the write lock from its start. On
// any error nothing of it remains. Once the lock is had, ctx no longer counts:
// a cancelled context would roll back what f has done. Where there is no room
// f may run a second time, and has to begin anew then.
func (db *DB) write(ctx context.Context, doing string, s syncing, f func(*tx) error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	err := db.transact(ctx, doing, s, f)
	if noRoom(err) && db.foldLog() {
		err = db.transact(ctx, doing, s, f)
	}
	return db.outward(doing, err)
}

// foldLog writes into the file what the log holds, and says whether all of it
// is there now: then the next write begins at the log's start, in room that
// it has already. By itself the engine folds only what has grown to a few MB,
// and only when a commit succeeds: on a small device that would be never.
func (db *DB) foldLog() bool {
	var busy, logged, folded int
	// Passive: it waits for nobody, and what it can't do is left as it was.
	err := db.conn.QueryRowContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &logged, &folded)
	return err == nil && logged > 0 && logged == folded
}

// transact is one try of write.
func (db *DB) transact(ctx context.Context, doing string, s syncing, f func(*tx) error) error {
	if err := db.begin(ctx, s); err != nil {
		return err
	}
	fault.Here(doing, "begun")
	t := &tx{db: db, now: db.now().UnixMilli()}
	err := f(t)
	if err == nil {
		err = t.writeBooks()
	}
	if err == nil {
		fault.Here(doing, "written")
		err = t.exec("COMMIT")
	}
	if err != nil {
		// After some errors (a full disk) the engine has rolled back already;
		// that there is nothing to roll back is then no fault.
		_, _ = db.conn.ExecContext(context.Background(), "ROLLBACK")
		return err
	}
	fault.Here(doing, "committed")
	for name, id := range t.newly.jobs {
		db.jobs[name] = id
	}
	for name, id := range t.newly.scopes {
		db.scopes[name] = id
	}
	for _, f := range t.onCommit {
		f()
	}
	return nil
}

// begin takes the write lock. It waits in short steps of its own because the
// engine's longer ones let a heartbeat starve among busy writers.
func (db *DB) begin(ctx context.Context, s syncing) error {
	if db.conn == nil {
		return errClosed
	}
	if db.full != bool(s) {
		mode := "PRAGMA synchronous = NORMAL"
		if s == synced {
			mode = "PRAGMA synchronous = FULL"
		}
		if _, err := db.conn.ExecContext(context.Background(), mode); err != nil {
			return err
		}
		db.full = bool(s)
	}
	begin, err := db.stmt("BEGIN IMMEDIATE")
	if err != nil {
		return err
	}
	return db.patiently(ctx, func() error {
		_, err := begin.ExecContext(context.Background())
		return err
	})
}

// stmt returns the prepared form of query on the writing connection; each is
// prepared once. db.mu is held.
func (db *DB) stmt(query string) (*sql.Stmt, error) {
	if s := db.stmts[query]; s != nil {
		return s, nil
	}
	s, err := db.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%w in %q", err, query)
	}
	db.stmts[query] = s
	return s, nil
}

func (t *tx) exec(query string, args ...any) error {
	_, err := t.change(query, args...)
	return err
}

// change runs a statement and returns how many rows it changed.
func (t *tx) change(query string, args ...any) (int64, error) {
	s, err := t.db.stmt(query)
	if err != nil {
		return 0, err
	}
	r, err := s.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// row reads one row into dest; sql.ErrNoRows when there is none.
func (t *tx) row(query string, args []any, dest ...any) error {
	s, err := t.db.stmt(query)
	if err != nil {
		return err
	}
	return s.QueryRowContext(context.Background(), args...).Scan(dest...)
}

// rows calls each for every row; scan is the row's Scan.
func (t *tx) rows(query string, args []any, each func(scan func(...any) error) error) error {
	s, err := t.db.stmt(query)
	if err != nil {
		return err
	}
	r, err := s.QueryContext(context.Background(), args...)
	if err != nil {
		return err
	}
	return drain(r, each)
}

func drain(r *sql.Rows, each func(scan func(...any) error) error) (err error) {
	defer func() { err = errors.Join(err, r.Close()) }()
	for r.Next() {
		if err := each(r.Scan); err != nil {
			return err
		}
	}
	return r.Err()
}

// missing turns "no such row" into false; any other error stays.
func missing(err error) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return true, nil
	}
	return false, err
}

// instant is a stored time as time.Time in UTC; NULL is the zero time.
func instant(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return time.UnixMilli(ms.Int64).UTC()
}
