package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// where turns a selection into a condition over item i. Values are bound,
// never written into the text.
func where(s store.Selection, now int64) (cond string, args []any) {
	var parts []string
	add := func(part string, values ...any) {
		parts = append(parts, part)
		args = append(args, values...)
	}
	if s.IDs != nil {
		add("i.id IN (SELECT value FROM json_each(?))", idList(s.IDs))
	}
	if s.Jobs != nil {
		add("i.job IN (SELECT id FROM job WHERE name IN (SELECT value FROM json_each(?)))", nameList(s.Jobs))
	}
	if s.Scope != nil {
		add("i.scope = (SELECT id FROM scope WHERE name = ?)", *s.Scope)
	}
	if s.Key != nil {
		// With state <> 6 the unique index can serve; a dropped item is reached by its id.
		add("i.key = ? AND i.state <> 6", s.Key)
		// It leads to a key only by job and scope, and the books know them all.
		if s.Jobs == nil {
			add("i.job IN (SELECT id FROM job)")
		}
		if s.Scope == nil {
			add("i.scope IN (SELECT scope FROM tally)")
		}
	}
	if len(s.States) > 0 {
		marks := make([]string, len(s.States))
		for i, st := range s.States {
			// Written out, so that the partial indexes can be used: they are
			// constants of ours. That needs the equality, too.
			marks[i] = "i.state = " + [...]string{"0", "1", "2", "3", "4", "5", "6"}[st]
		}
		add("(" + strings.Join(marks, " OR ") + ")")
		if only(s.States, jobs.Claimed, jobs.Running) {
			add("i.claim IS NOT NULL") // as the index of what is held says it
		}
	}
	if s.Class != "" {
		add("i.class = ?", string(s.Class))
	}
	if s.Error != "" {
		add("instr(lower(i.reason), lower(?)) > 0", s.Error)
	}
	if s.Since > 0 {
		add("coalesce(i.finished, i.created) >= ?", now-s.Since.Milliseconds())
	}
	if len(parts) == 0 {
		return "1", nil
	}
	return strings.Join(parts, " AND "), args
}

// only says whether states are given and all of them are among these.
func only(states []jobs.State, these ...jobs.State) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(s jobs.State) bool { return !slices.Contains(these, s) })
}

// oldestFirst is the order of lists. Without the plus the engine would rather
// walk every item in order of id than sort the few that are dead, that are
// held, or that bear a key.
func oldestFirst(s store.Selection) string {
	if s.Key != nil || only(s.States, jobs.Dead) || only(s.States, jobs.Claimed, jobs.Running) {
		return " ORDER BY +i.id LIMIT ?"
	}
	return " ORDER BY i.id LIMIT ?"
}

// limit is LIMIT's value: -1 is none.
func limit(n int) int {
	if n <= 0 {
		return -1
	}
	return n
}

// Select lists the ids that a selection names at this moment. Who changes
// them later works through this list, so that it ends, also beside a worker
// that sends items back.
func (db *DB) Select(ctx context.Context, s store.Selection) (ids []int64, err error) {
	err = db.read(ctx, "selecting", func(sn *snapshot) error {
		cond, args := where(s, sn.now)
		return sn.rows("SELECT i.id FROM item i WHERE "+cond+oldestFirst(s), append(args, limit(s.Limit)), func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	return ids, err
}

// CountSelected counts what a selection names, by job and state.
func (db *DB) CountSelected(ctx context.Context, s store.Selection) (sums []store.JobState, err error) {
	err = db.read(ctx, "counting items", func(sn *snapshot) error {
		cond, args := where(s, sn.now)
		chosen := "SELECT i.job, i.state FROM item i WHERE " + cond
		if s.Limit > 0 { // the same items that Select names
			chosen += oldestFirst(s)
			args = append(args, limit(s.Limit))
		}
		return sn.rows("SELECT j.name, x.state, count(*) FROM ("+chosen+") x JOIN job j ON j.id = x.job GROUP BY j.name, x.state ORDER BY j.name, x.state",
			args, func(scan func(...any) error) error {
				var sum store.JobState
				err := scan(&sum.Job, &sum.State, &sum.Items)
				sums = append(sums, sum)
				return err
			})
	})
	return sums, err
}

const itemColumns = `i.id, j.name, s.name, i.key, i.state, i.priority, i.generation, i.attempt, i.failures, i.crashes, i.defers,
	i.due, i.created, i.started, i.finished, coalesce(i.class, ''), coalesce(i.reason, '')`

const itemTables = `item i JOIN job j ON j.id = i.job JOIN scope s ON s.id = i.scope`

func scanItem(scan func(...any) error, more ...any) (store.ItemRow, error) {
	var r store.ItemRow
	var due, created int64
	var started, finished sql.NullInt64
	dest := []any{&r.ID, &r.Job, &r.Scope, &r.Key, &r.State, &r.Priority, &r.Generation, &r.Attempt, &r.Failures, &r.Crashes, &r.Defers,
		&due, &created, &started, &finished, &r.Class, &r.Reason}
	if err := scan(append(dest, more...)...); err != nil {
		return r, err
	}
	r.Due, r.Created = time.UnixMilli(due).UTC(), time.UnixMilli(created).UTC()
	r.Started, r.Finished = instant(started), instant(finished)
	return r, nil
}

// Items lists what a selection names, oldest first.
func (db *DB) Items(ctx context.Context, s store.Selection) (items []store.ItemRow, err error) {
	err = db.read(ctx, "listing items", func(sn *snapshot) error {
		cond, args := where(s, sn.now)
		return sn.rows("SELECT "+itemColumns+" FROM "+itemTables+" WHERE "+cond+oldestFirst(s), append(args, limit(s.Limit)),
			func(scan func(...any) error) error {
				r, err := scanItem(scan)
				items = append(items, r)
				return err
			})
	})
	return items, err
}
