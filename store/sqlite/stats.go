package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"batchq/store"
)

// Identity is the database's own random name.
func (db *DB) Identity(ctx context.Context) (identity string, err error) {
	err = db.ownRead(ctx, "opening", func(t *tx) error {
		return t.row("SELECT identity FROM book", nil, &identity)
	})
	return identity, err
}

const countColumns = `coalesce(sum(enqueued), 0), coalesce(sum(ready), 0), coalesce(sum(delayed), 0), coalesce(sum(claimed), 0),
	coalesce(sum(running), 0), coalesce(sum(done), 0), coalesce(sum(dead), 0), coalesce(sum(dropped), 0), coalesce(sum(pruned), 0)`

func countDest(c *store.Counts) []any {
	return []any{&c.Enqueued, &c.Ready, &c.Delayed, &c.Claimed, &c.Running, &c.Done, &c.Dead, &c.Dropped, &c.Pruned}
}

// Counts sums the books: no item is looked at.
func (db *DB) Counts(ctx context.Context, jobNames []string, scope *string) (c store.Counts, err error) {
	err = db.ownRead(ctx, "counting", func(t *tx) error {
		var names, in any
		if jobNames != nil {
			names = nameList(jobNames)
		}
		if scope != nil {
			in = *scope
		}
		return t.row("SELECT "+countColumns+` FROM tally WHERE (?1 IS NULL OR job IN (SELECT id FROM job WHERE name IN (SELECT value FROM json_each(?1))))
			AND (?2 IS NULL OR scope = (SELECT id FROM scope WHERE name = ?2))`, []any{names, in}, countDest(&c)...)
	})
	return c, err
}

// ScopeNames lists scopes by when they were first used, the newest first: ids
// grow in that order, and no scope is removed.
func (db *DB) ScopeNames(ctx context.Context, jobNames []string, limit int) (names []string, err error) {
	const (
		ofAny = "SELECT id, name FROM scope WHERE name <> '' ORDER BY id DESC LIMIT ?"
		// By the book's key, so that what other jobs have used costs nothing.
		ofJob = `SELECT s.id, s.name FROM tally t JOIN scope s ON s.id = t.scope
			WHERE t.job = (SELECT id FROM job WHERE name = ?) AND s.name <> '' ORDER BY t.scope DESC LIMIT ?`
	)
	err = db.ownRead(ctx, "listing scopes", func(t *tx) error {
		found := map[int64]string{}
		each := func(scan func(...any) error) error {
			var id int64
			var name string
			err := scan(&id, &name)
			found[id] = name
			return err
		}
		if jobNames == nil {
			if err := t.rows(ofAny, []any{limit}, each); err != nil {
				return err
			}
		}
		for _, job := range jobNames {
			if err := t.rows(ofJob, []any{job, limit}, each); err != nil {
				return err
			}
		}
		names = nil
		for _, id := range slices.Backward(slices.Sorted(maps.Keys(found))) {
			names = append(names, found[id])
		}
		names = names[:min(limit, len(names))]
		return nil
	})
	return names, err
}

// JobNames lists every job in the book.
func (db *DB) JobNames(ctx context.Context) (names []string, err error) {
	err = db.ownRead(ctx, "listing jobs", func(t *tx) error {
		names = nil
		return t.rows("SELECT name FROM job ORDER BY name", nil, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		})
	})
	return names, err
}

// Stats is one picture of everything, from the kept numbers.
func (db *DB) Stats(ctx context.Context) (out store.Stats, err error) {
	err = db.read(ctx, "stats", func(s *snapshot) error {
		out = store.Stats{Path: db.path, Now: time.UnixMilli(s.now).UTC()}
		if err := s.jobs(&out); err != nil {
			return err
		}
		if err := s.slots(&out); err != nil {
			return err
		}
		if err := s.held(&out); err != nil {
			return err
		}
		return s.runs(&out)
	})
	return out, err
}

func (s *snapshot) jobs(out *store.Stats) error {
	type extra struct{ id, low, high int64 }
	var extras []extra
	err := s.rows(`SELECT j.id, j.name, j.lane, coalesce(j.low, 0), coalesce(j.high, 0), `+countColumns+` FROM job j LEFT JOIN tally t ON t.job = j.id
		GROUP BY j.id ORDER BY j.name`, nil, func(scan func(...any) error) error {
		var j store.JobStats
		var x extra
		if err := scan(append([]any{&x.id, &j.Name, &j.Lane, &x.low, &x.high}, countDest(&j.Counts)...)...); err != nil {
			return err
		}
		out.Totals.Add(j.Counts)
		out.Jobs, extras = append(out.Jobs, j), append(extras, x)
		return nil
	})
	if err != nil {
		return err
	}
	breakers, err := s.breakers()
	if err != nil {
		return err
	}
	throttles, err := s.throttles()
	if err != nil {
		return err
	}
	throttled := "0"
	if s.schema >= 4 {
		throttled = "coalesce(sum(throttled), 0)"
	}
	for i, x := range extras {
		j := &out.Jobs[i]
		if err := s.waiting(j, x.id, x.low, x.high); err != nil {
			return err
		}
		j.Breaker, j.Throttle = breakers[x.id], throttles[x.id]
		c := &j.Counters
		err = s.row(`SELECT coalesce(sum(done), 0), coalesce(sum(retries), 0), coalesce(sum(timeouts), 0), coalesce(sum(dead), 0), coalesce(sum(crashes), 0),
			coalesce(sum(lapses), 0), coalesce(sum(stale), 0), coalesce(sum(duplicates), 0), coalesce(sum(conflicts), 0), `+throttled+` FROM daily WHERE job = ?`,
			[]any{x.id}, &c.Done, &c.Retries, &c.Timeouts, &c.Dead, &c.Crashes, &c.Lapses, &c.Stale, &c.Duplicates, &c.Conflicts, &c.Throttled)
		if err != nil {
			return err
		}
	}
	return nil
}

// waiting counts what waits and finds since when the oldest of it is due.
func (s *snapshot) waiting(j *store.JobStats, job, low, high int64) error {
	var overdue, delayedDue, heldDue sql.NullInt64
	if j.Counts.Delayed > 0 {
		err := s.row("SELECT count(*), min(due) FROM item INDEXED BY item_delayed WHERE state = 1 AND due <= ? AND job = ?", []any{s.now, job}, &overdue, &delayedDue)
		if err != nil {
			return err
		}
	}
	if j.Counts.Claimed > 0 {
		err := s.row("SELECT min(due) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND state = 2 AND job = ?", []any{job}, &heldDue)
		if err != nil {
			return err
		}
	}
	j.Waiting = j.Counts.Ready + j.Counts.Claimed + overdue.Int64
	oldest := min2(delayedDue, heldDue)
	if j.Counts.Ready > 0 {
		due, err := s.oldestReady(job, low, high)
		if err != nil {
			return err
		}
		oldest = min2(oldest, due)
	}
	// A clock that was set back must not make an age negative.
	if oldest.Valid {
		oldest.Int64 = min(oldest.Int64, s.now)
	}
	j.Oldest = instant(oldest)
	return nil
}

// oldestReady finds the earliest due time among the ready items of a job. The
// line is in order of rank, in which one with a priority stands elsewhere than
// its age says: those have an index by age. Among those without, the first in
// line is the oldest; where only such ones stand before it that are newer, no
// more than these are passed over.
func (s *snapshot) oldestReady(job, low, high int64) (due sql.NullInt64, err error) {
	if low < 0 || high > 0 {
		err = s.row("SELECT min(due) FROM item INDEXED BY item_apart WHERE state = 0 AND priority <> 0 AND job = ?", []any{job}, &due)
		if err != nil || low > 0 || high < 0 {
			return due, err
		}
	}
	var plain sql.NullInt64
	err = s.row(`SELECT min(rank) FROM (SELECT rank FROM item INDEXED BY item_ready
		WHERE state = 0 AND job = ?1 AND priority = 0 AND rank < coalesce(?2, 9000000000000000000) ORDER BY rank, id LIMIT 1)`, []any{job, due}, &plain)
	return min2(due, plain), err
}

func min2(a, b sql.NullInt64) sql.NullInt64 {
	if !a.Valid || b.Valid && b.Int64 < a.Int64 {
		return b
	}
	return a
}

func (s *snapshot) slots(out *store.Stats) error {
	return s.rows(`SELECT s.run, j.name, s.lane, s.uses, coalesce(s.item, 0), coalesce(i.key, x''), coalesce(sc.name, ''), s.attempt, s.started, s.pid, s.orphan IS NOT NULL
		FROM slot s JOIN job j ON j.id = s.job LEFT JOIN item i ON i.id = s.item LEFT JOIN scope sc ON sc.id = i.scope ORDER BY s.started, s.id`,
		nil, func(scan func(...any) error) error {
			var r store.SlotRow
			var uses string
			var since int64
			err := scan(&r.Run, &r.Job, &r.Lane, &uses, &r.Item, &r.Key, &r.Scope, &r.Attempt, &since, &r.PID, &r.Orphan)
			if err != nil {
				return err
			}
			r.Since = time.UnixMilli(since).UTC()
			r.Uses, err = decodeUses(uses)
			out.Slots = append(out.Slots, r)
			return err
		})
}

// held reads what holds work back.
func (s *snapshot) held(out *store.Stats) (err error) {
	if s.schema < 2 {
		return nil
	}
	if err := s.rows(pausesQuery, nil, scanPauses(&out.Pauses)); err != nil {
		return err
	}
	out.Squeezed, err = s.squeezes()
	return err
}

func (s *snapshot) runs(out *store.Stats) error {
	return s.rows("SELECT "+runColumns(s.schema, s.file)+" FROM run r WHERE ended IS NULL ORDER BY id", nil, func(scan func(...any) error) error {
		var row runRow
		if err := scan(row.dest()...); err != nil {
			return err
		}
		r, err := row.info()
		out.Runs = append(out.Runs, r)
		return err
	})
}
