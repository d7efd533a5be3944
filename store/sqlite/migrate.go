package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"batchq/jobs/fault"
	"batchq/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// schemaVersion is the number of the newest migration, kept in user_version.
const schemaVersion = 4

type migration struct {
	version int
	sql     string
}

// migrations lists them in order. A file that can't be read can't happen: they
// are part of the binary.
func migrations() []migration {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		panic(err)
	}
	var all []migration
	for i, e := range entries {
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			panic(err)
		}
		all = append(all, migration{i + 1, string(text)})
	}
	return all
}

// apply runs one migration in one transaction. A process that was beaten to
// it finds the version grown and does nothing.
func (db *DB) apply(ctx context.Context, conn *sql.Conn, m migration) (err error) {
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, undo := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			err = errors.Join(err, undo)
		}
	}()
	var version int
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	if version < m.version {
		if version > 0 {
			if err := db.refuseOlderRuns(ctx, conn, m.version); err != nil {
				return err
			}
		}
		fault.Here("migrate", "begun")
		if _, err := conn.ExecContext(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %d: %w", m.version, err)
		}
		fault.Here("migrate", "changed")
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", m.version)); err != nil {
			return err
		}
	}
	fault.Here("migrate", "written")
	_, err = conn.ExecContext(ctx, "COMMIT")
	fault.Here("migrate", "committed")
	return err
}

// migrate brings an older file up to date, unless a run of an older schema is
// at work on it: that one does not know the rules that come with new tables.
func (db *DB) migrate(ctx context.Context) error {
	for _, m := range migrations() {
		err := db.patiently(ctx, func() error { return db.apply(ctx, db.conn, m) })
		if err != nil {
			return db.outward("migrating", err)
		}
	}
	return nil
}

// refuseOlderRuns is asked with the write lock in hand: no run can register
// until the migration is through.
func (db *DB) refuseOlderRuns(ctx context.Context, conn *sql.Conn, version int) error {
	rows, err := conn.QueryContext(ctx, `SELECT id, token, pid, pid_start, boot, pid_ns, host FROM run
		WHERE ended IS NULL AND schema < ? ORDER BY id`, version)
	if err != nil {
		return err
	}
	return drain(rows, func(scan func(...any) error) error {
		var r store.RunInfo
		if err := scan(&r.ID, &r.Token, &r.PID, &r.PIDStart, &r.BootID, &r.PIDNS, &r.Host); err != nil {
			return err
		}
		if db.lives != nil && !db.lives(db.path, r) {
			return nil
		}
		return &store.FileError{Path: db.path, Err: store.ErrOlderRun,
			Detail: fmt.Sprintf("run %d, pid %d on %s", r.ID, r.PID, r.Host), Hint: "it was left as it is; wait until that run has ended, and try again"}
	})
}
