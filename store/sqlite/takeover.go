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

// noRun stands for the owner of items whose claim has no row any more.
const noRun = 0

// TakeOver moves what a dead run holds to another. It handles at most MaxRows
// items; More says that there are others.
func (db *DB) TakeOver(ctx context.Context, dead, by int64, why store.Death, lease time.Duration) (store.Taken, error) {
	var out store.Taken
	err := db.write(ctx, "taking over from a dead run", synced, func(t *tx) (err error) {
		out = store.Taken{}
		if dead == noRun {
			out.Freed, err = t.freeStrays()
		} else {
			out.Freed, err = t.free(dead)
		}
		if err != nil {
			return err
		}
		if out.More = out.Freed == store.MaxRows; out.More {
			return t.exec("UPDATE run SET freed = freed + ? WHERE id = ?", out.Freed, dead)
		}
		fault.Here("taking over", "freed")
		if out.Orphans, err = t.adopt(dead, by, why, lease); err != nil {
			return err
		}
		fault.Here("taking over", "adopted")
		if dead == noRun {
			return nil
		}
		if err := t.forgetClaims(dead); err != nil {
			return err
		}
		// An ended run that left an orphan keeps the end that it wrote itself.
		return t.exec(`UPDATE run SET ended = coalesce(ended, ?1), outcome = iif(outcome = '', ?2, outcome),
			freed = freed + ?3, orphans = orphans + ?4 WHERE id = ?5`, t.now, "died ("+string(why)+")", out.Freed, out.Orphans, dead)
	})
	return out, err
}

func (t *tx) freeStrays() (freed int, err error) {
	return t.release(`SELECT id FROM item INDEXED BY item_held
		WHERE claim IS NOT NULL AND claim NOT IN (SELECT id FROM claim) AND state = 2 LIMIT ?`, store.MaxRows)
}

// adopt puts the started items of a dead run under a new claim, so that a
// late result of the old owner is refused from here on. They stay running and
// counted until what the dead run left behind has ended.
func (t *tx) adopt(dead, by int64, why store.Death, lease time.Duration) (orphans int, err error) {
	items, err := t.startedUnder(dead)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	ids := idList(items)
	claim, err := t.newClaim(by, "", lease)
	if err != nil {
		return 0, err
	}
	// A running item without a slot gets one, or nobody would wait for it.
	err = t.exec(`INSERT INTO slot (run, item, job, lane, attempt, started)
		SELECT ?1, id, job, ?2, attempt, started FROM item
		WHERE id IN (SELECT value FROM json_each(?3)) AND id NOT IN (SELECT item FROM slot WHERE item IS NOT NULL)`, by, jobs.Serial, ids)
	if err != nil {
		return 0, err
	}
	// The run that started it stays on record, however often it changes hands.
	// A start in the future was written before the clock was set back: its age
	// counts from now, or a wait for its timeout would outlast the cap.
	err = t.rows("UPDATE slot SET orphan = coalesce(orphan, run), run = ?, started = min(started, ?) WHERE item IN (SELECT value FROM json_each(?)) RETURNING job, lane",
		[]any{by, t.now, ids}, func(scan func(...any) error) error {
			var job int64
			var lane string
			err := scan(&job, &lane)
			if why == store.DeathLease {
				t.event(job, lane).lapses++
			}
			return err
		})
	if err != nil {
		return 0, err
	}
	return len(items), t.exec("UPDATE item SET claim = ? WHERE id IN (SELECT value FROM json_each(?))", claim, ids)
}

// startedUnder lists the running items of a dead run, or those of no run.
func (t *tx) startedUnder(dead int64) (ids []int64, err error) {
	query, args := `SELECT i.id FROM claim c CROSS JOIN item i INDEXED BY item_held ON i.claim = c.id WHERE c.run = ? AND i.state = 3`, []any{dead}
	if dead == noRun {
		// One whose run lives and has a slot for it is left to that run.
		query, args = `SELECT id FROM item i INDEXED BY item_held WHERE claim IS NOT NULL AND claim NOT IN (SELECT id FROM claim) AND state = 3
			AND NOT EXISTS (SELECT 1 FROM slot s JOIN run r ON r.id = s.run WHERE s.item = i.id AND r.ended IS NULL)`, nil
	}
	err = t.rows(query, args, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// Orphans lists what a run has taken over and not yet settled, with what is
// known of the processes that may still be at work on it.
func (db *DB) Orphans(ctx context.Context, run int64) (orphans []store.Orphan, err error) {
	err = db.ownRead(ctx, "listing orphans", func(t *tx) error {
		orphans = nil
		return t.rows(orphansQuery(schemaVersion, db.inode)+" AND s.run = ? AND i.state = 3 ORDER BY s.id", []any{run}, func(scan func(...any) error) error {
			o, err := scanOrphan(scan, t.now)
			orphans = append(orphans, o)
			return err
		})
	})
	return orphans, err
}

// orphansQuery reads what scanOrphan takes, of every slot that a dead run has
// left.
func orphansQuery(schema int, file inode) string {
	return `SELECT i.id, i.claim, s.id, j.name, sc.name, i.key, i.priority, i.generation, i.attempt, i.failures, i.crashes, i.defers,
			s.pid, s.pid_start, s.started, coalesce(p.spec, j.spec), ` + runColumns(schema, file) + `
		FROM slot s JOIN item i ON i.id = s.item JOIN job j ON j.id = i.job JOIN scope sc ON sc.id = i.scope
		LEFT JOIN run r ON r.id = s.orphan LEFT JOIN policy p ON p.run = s.orphan AND p.job = i.job
		WHERE s.orphan IS NOT NULL`
}

func scanOrphan(scan func(...any) error, now int64) (store.Orphan, error) {
	o := store.Orphan{It: &jobs.Item{State: jobs.Running}, Policy: jobs.DefaultPolicy()}
	it := o.It
	var started int64
	var spec sql.NullString
	var owner runRow
	err := scan(append([]any{&o.Item, &o.Claim, &o.Slot, &it.Job, &it.Scope, &it.Key, &it.Priority, &it.Generation, &it.Attempt, &it.Failures, &it.Crashes, &it.Defers,
		&o.PID, &o.PIDStart, &started, &spec}, owner.dest()...)...)
	if err != nil {
		return o, err
	}
	if o.Owner, err = owner.info(); err != nil {
		return o, err
	}
	it.ID, o.Attempt = o.Item, it.Attempt
	o.Age = max(0, time.Duration(now-started)*time.Millisecond)
	if spec.String == "" {
		return o, nil
	}
	var s jobs.Spec
	if err := json.Unmarshal([]byte(spec.String), &s); err != nil {
		return o, err
	}
	o.Policy, o.HTTP = s.Policy, s.Handler.HTTP != nil
	return o, nil
}

// SettleOrphan charges the crash, once, when nothing of the dead run is left.
func (db *DB) SettleOrphan(ctx context.Context, run int64, o store.Orphan, v jobs.Verdict) error {
	return db.write(ctx, "settling an orphan", synced, func(t *tx) error {
		var job, scope, priority int64
		none, err := missing(t.row(`SELECT i.job, i.scope, i.priority FROM item i JOIN claim c ON c.id = i.claim
			WHERE i.id = ? AND i.claim = ? AND i.state = 3 AND c.run = ?`, []any{o.Item, o.Claim, run}, &job, &scope, &priority))
		if err != nil {
			return err
		}
		if none {
			return store.ErrStale
		}
		var lane string
		var started int64
		if _, err := missing(t.row("DELETE FROM slot WHERE id = ? AND run = ? RETURNING lane, started", []any{o.Slot, run}, &lane, &started)); err != nil {
			return err
		}
		fault.Here("settling an orphan", "freed")
		if err := t.place(o.Item, priority, v); err != nil {
			return err
		}
		fault.Here("settling an orphan", "placed")
		t.moved(job, scope, jobs.Running, v.To)
		t.note(job, lane, v)
		s := store.Settlement{Held: o.Held, Attempt: o.Attempt, Verdict: v, Result: jobs.Result{Ending: jobs.Lost, Duration: o.Age}}
		if err := t.attempted(o.Owner.ID, &s, started); err != nil {
			return err
		}
		return t.closeClaim(o.Claim)
	})
}
