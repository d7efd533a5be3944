package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// snapshot is one consistent picture for a report: everything read through it
// is of one moment.
type snapshot struct {
	conn connection
	now  int64
	// schema is the file's: who only reads never migrates, and an older file
	// may not have every table yet.
	schema int
	// file is the one that is open, or the original of a copy that is examined.
	file inode
}

// connection is what a report needs of an *sql.Conn; tests look at its
// statements through it.
type connection interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	Close() error
}

// read runs f over one snapshot, on a connection that no write waits for. It
// is opened when first needed: a worker never needs it.
func (db *DB) read(ctx context.Context, doing string, f func(*snapshot) error) error {
	db.readMu.Lock()
	defer db.readMu.Unlock()
	if db.closed {
		return db.outward(doing, errClosed)
	}
	if db.reader == nil {
		wait := fmt.Sprintf("busy_timeout(%d)", db.wait.Milliseconds())
		pool, err := sql.Open("sqlite", dsn(db.path, "rw", wait, "query_only(1)"))
		if err != nil {
			return db.outward(doing, err)
		}
		conn, err := pool.Conn(ctx)
		if err != nil {
			return db.outward(doing, errors.Join(err, pool.Close()))
		}
		db.reader, db.readers = conn, pool
	}
	// Deferred: the DSN's immediate is for writers.
	if _, err := db.reader.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return db.outward(doing, err)
	}
	s := &snapshot{conn: db.reader, now: db.now().UnixMilli(), file: db.inode}
	err := s.row("PRAGMA user_version", nil, &s.schema)
	if err == nil {
		err = f(s)
	}
	// Nothing was written; ending the snapshot lets the log be folded in.
	_, end := db.reader.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return db.outward(doing, errors.Join(err, end))
}

func (s *snapshot) row(query string, args []any, dest ...any) error {
	return s.conn.QueryRowContext(context.Background(), query, args...).Scan(dest...)
}

func (s *snapshot) rows(query string, args []any, each func(scan func(...any) error) error) error {
	r, err := s.conn.QueryContext(context.Background(), query, args...)
	if err != nil {
		return err
	}
	return drain(r, each)
}

// ownRead reads on the writing connection without taking the write lock: for
// what a run asks itself.
func (db *DB) ownRead(ctx context.Context, doing string, f func(*tx) error) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conn == nil {
		return db.outward(doing, errClosed)
	}
	err := db.patiently(ctx, func() error { return f(&tx{db: db, now: db.now().UnixMilli()}) })
	return db.outward(doing, err)
}
