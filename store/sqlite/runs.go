package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// Register writes a run into the book.
func (db *DB) Register(ctx context.Context, r store.RunInfo) (id int64, err error) {
	command, err := json.Marshal(r.Command)
	if err != nil {
		return 0, err
	}
	err = db.write(ctx, "registering the run", unsynced, func(t *tx) error {
		return t.row(`INSERT INTO run (token, pid, pid_start, boot, pid_ns, session, host, file, schema, command, started)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			[]any{r.Token, r.PID, int64(r.PIDStart), r.BootID, r.PIDNS, r.Session, r.Host, db.inode.String(), schemaVersion, string(command), t.now}, &id)
	})
	return id, err
}

// Renew extends the run's claims: one small update however many items they hold.
func (db *DB) Renew(ctx context.Context, run int64, lease time.Duration) (claims []int64, err error) {
	err = db.write(ctx, "renewing the lease", unsynced, func(t *tx) error {
		claims = nil
		return t.rows("UPDATE claim SET until = ?, lease = ?, lapsed = NULL WHERE run = ? RETURNING id",
			[]any{t.now + lease.Milliseconds(), lease.Milliseconds(), run}, func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				claims = append(claims, id)
				return err
			})
	})
	return claims, err
}

// EndRun writes the run's end. Claims of which nothing is held go with it;
// those that still hold orphans stay, for the next run to take over.
func (db *DB) EndRun(ctx context.Context, run int64, end store.RunEnd) error {
	for {
		var freed int
		err := db.write(ctx, "ending the run", synced, func(t *tx) (err error) {
			if freed, err = t.free(run); err != nil || freed == store.MaxRows {
				return err // there may be more, for the next transaction
			}
			fault.Here("ending the run", "freed")
			if err := t.forgetClaims(run); err != nil {
				return err
			}
			fault.Here("ending the run", "forgot")
			return t.exec("UPDATE run SET ended = ?, outcome = ?, peak = ? WHERE id = ?", t.now, end.Outcome, end.PeakBytes, run)
		})
		if err != nil || freed < store.MaxRows {
			return err
		}
	}
}

func (t *tx) forgetClaims(run int64) error {
	return t.exec("DELETE FROM claim WHERE run = ? AND NOT EXISTS (SELECT 1 FROM item WHERE claim = claim.id)", run)
}

// free makes the unstarted items of a run ready again, at most MaxRows of
// them: first in line, because their rank is what it was.
func (t *tx) free(run int64) (freed int, err error) {
	return t.release(`SELECT i.id FROM claim c CROSS JOIN item i INDEXED BY item_held ON i.claim = c.id
		WHERE c.run = ? AND i.state = 2 LIMIT ?`, run, store.MaxRows)
}

// release makes the claimed items that a query names ready again.
func (t *tx) release(ids string, args ...any) (released int, err error) {
	err = t.rows("UPDATE item SET state = 0, claim = NULL WHERE id IN ("+ids+") RETURNING job, scope", args,
		func(scan func(...any) error) error {
			var job, scope int64
			err := scan(&job, &scope)
			t.moved(job, scope, jobs.Claimed, jobs.Ready)
			released++
			return err
		})
	return released, err
}

// OtherRuns lists the runs that are at work, or have left something held.
func (db *DB) OtherRuns(ctx context.Context, run int64) (others []store.OtherRun, err error) {
	err = db.ownRead(ctx, "looking for other runs", func(t *tx) error {
		others = nil
		err := t.rows(`SELECT `+runColumns(schemaVersion, db.inode)+`,
				(SELECT count(*) FROM claim c CROSS JOIN item i INDEXED BY item_held ON i.claim = c.id WHERE c.run = r.id),
				(SELECT min(c.until) FROM claim c WHERE c.run = r.id), (SELECT max(c.until - c.lease) FROM claim c WHERE c.run = r.id)
			FROM run r WHERE r.id <> ?1 AND (r.ended IS NULL OR r.id IN (SELECT run FROM claim)) ORDER BY r.id`,
			[]any{run}, func(scan func(...any) error) error {
				o, err := scanOther(scan, t.now)
				others = append(others, o)
				return err
			})
		if err != nil {
			return err
		}
		// Held by nobody: the claim's row is gone, by a hand or a fault.
		var stray int
		err = t.row(`SELECT count(*) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND claim NOT IN (SELECT id FROM claim)`, nil, &stray)
		if stray > 0 {
			others = append(others, store.OtherRun{Held: stray, Ended: true})
		}
		return err
	})
	return others, err
}

func scanOther(scan func(...any) error, now int64) (store.OtherRun, error) {
	var o store.OtherRun
	var row runRow
	var until, renewed sql.NullInt64
	err := scan(row.dest(&o.Held, &until, &renewed)...)
	if err != nil {
		return o, err
	}
	if o.RunInfo, err = row.info(); err != nil {
		return o, err
	}
	o.Ended = row.ended.Valid
	// A lease that begins in the future was written before the clock was set
	// back. It is looked at as if it had run out, so that it can't last for
	// ever; a run that lives renews it before the second look.
	o.Lapsed = until.Valid && (until.Int64 <= now || renewed.Int64 > now+1000)
	if o.Lapsed {
		o.Since = max(0, time.Duration(now-until.Int64)*time.Millisecond)
	}
	return o, nil
}

// NoteLapse stores the first look at a lapsed run. It is kept in the database
// so that short runs, one after another, complete the wait between the looks.
func (db *DB) NoteLapse(ctx context.Context, run int64) (since, lease time.Duration, err error) {
	err = db.write(ctx, "looking at a lapsed lease", unsynced, func(t *tx) error {
		since, lease = 0, 0
		return t.rows(`UPDATE claim SET lapsed = iif(lapsed <= ?1, lapsed, ?1) WHERE run = ?2
			AND (until <= ?1 OR until - lease > ?1 + 1000) RETURNING lapsed, lease`, []any{t.now, run}, func(scan func(...any) error) error {
			var first, length int64
			err := scan(&first, &length)
			// Of several claims the first look at any counts: all of them are renewed together.
			since = max(since, time.Duration(t.now-first)*time.Millisecond)
			lease = max(lease, time.Duration(length)*time.Millisecond)
			return err
		})
	})
	return since, lease, err
}
