package sqlite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	sqlitedriver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"batchq/jobs"
	"batchq/store"
)

// Check recounts everything from the items and compares it with the books,
// and lets the engine examine its file. Each look is for itself: what one can't
// read is said, and the others go on.
func (db *DB) Check(ctx context.Context) (h store.Health, err error) {
	err = db.read(ctx, "doctor", func(s *snapshot) error {
		h = store.Health{Path: db.path, Schema: s.schema, NewestSchema: schemaVersion, Bytes: sizeOf(db.path), WALBytes: sizeOf(db.path + "-wal")}
		for _, look := range []struct {
			at  string
			run func(*store.Health) error
		}{
			{"the file's pages", s.integrity},
			{"the schema", s.shape},
			{"the texts", s.texts},
			{"the items and what was given out", s.numbers},
			{"the references", s.dangling},
			{"the books", s.recount},
			{"the counters by day", s.counters},
			{"the claims and slots", s.unheld},
			{"what dead runs left", s.left},
			{"the runs", s.openRuns},
		} {
			if err := unread(&h, look.at, look.run(&h)); err != nil {
				return err
			}
		}
		return nil
	})
	return h, err
}

// sizeOf is a file's size, 0 where there is none (a log that was folded in).
func sizeOf(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// unread turns what kept one look from its end into a line about the database,
// where that is its fault; other errors are passed on.
func unread(h *store.Health, at string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var engine *sqlitedriver.Error
	if !errors.As(err, &engine) {
		h.Faults = append(h.Faults, fmt.Sprintf("%s can't be read: %v", at, err)) // a value that is none of its kind
		return nil
	}
	switch engine.Code() & 0xff {
	case lib.SQLITE_ERROR: // a table or column that is not there
		h.Faults = append(h.Faults, fmt.Sprintf("%s can't be examined: %v", at, err))
		return nil
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
	case lib.SQLITE_IOERR:
		if c := engine.Code(); c != lib.SQLITE_IOERR_READ && c != lib.SQLITE_IOERR_SHORT_READ && c != lib.SQLITE_IOERR_CORRUPTFS {
			return err
		}
	default:
		return err
	}
	h.Integrity = append(h.Integrity, fmt.Sprintf("%s can't be read: %v", at, err))
	return nil
}

// integrityLines is after how many complaints the engine's own check ends.
const integrityLines = 20

// integrity lets the engine examine the file. It says several things at once
// where a page is damaged, under a heading.
func (s *snapshot) integrity(h *store.Health) error {
	trees := map[int64]string{}
	err := s.rows("SELECT rootpage, name FROM sqlite_schema WHERE rootpage > 0", nil, func(scan func(...any) error) error {
		var root int64
		var name string
		err := scan(&root, &name)
		trees[root] = name
		return err
	})
	if err != nil {
		return err
	}
	more := false
	err = s.rows(fmt.Sprintf("PRAGMA integrity_check(%d)", integrityLines), nil, func(scan func(...any) error) error {
		var text string
		if err := scan(&text); err != nil || text == "ok" {
			return err
		}
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch {
			case line == "" || strings.HasPrefix(line, "*** "):
			case len(h.Integrity) == integrityLines:
				more = true
			default:
				var tree int64
				if n, _ := fmt.Sscanf(line, "Tree %d", &tree); n == 1 && trees[tree] != "" {
					line = trees[tree] + ": " + line // the table or index whose page it is
				}
				h.Integrity = append(h.Integrity, line)
			}
		}
		return nil
	})
	if more || len(h.Integrity) == integrityLines {
		h.Integrity = append(h.Integrity, "there may be more: the engine's check ended here")
	}
	return err
}

// leastNumbers is how many ids there must be left to be given out; nobody comes
// there by counting.
const leastNumbers = 1 << 32

// numbers looks at what was given out: ids and tokens that would be given out
// once more, and times that have not come yet.
func (s *snapshot) numbers(h *store.Health) error {
	var item, latest int64
	err := s.row(`SELECT count(*), coalesce(max(id), 0), coalesce(max(max(created, coalesce(started, 0), coalesce(finished, 0))), 0) FROM item`,
		nil, &h.Items, &item, &latest)
	if err != nil {
		return err
	}
	err = s.row(`SELECT max(?, coalesce((SELECT max(max(started, coalesce(ended, 0))) FROM run), 0),
		coalesce((SELECT max(created) FROM claim), 0), coalesce((SELECT max(started) FROM slot), 0))`, []any{latest}, &latest)
	if err != nil {
		return err
	}
	h.Ahead = time.Duration(latest-s.now) * time.Millisecond
	var lastItem, lastClaim, claim int64
	none, err := missing(s.row("SELECT last_item, last_claim FROM book", nil, &lastItem, &lastClaim))
	if err != nil {
		return err
	}
	if none {
		h.Faults = append(h.Faults, "the book is empty: nobody knows any more which database this is, nor which ids it has given out")
		return nil
	}
	if err := s.row("SELECT "+highestClaim, nil, &claim); err != nil {
		return err
	}
	for _, n := range []struct {
		what string
		last int64
	}{{"item id", lastItem}, {"fencing token", lastClaim}} {
		if left := math.MaxInt64 - n.last; left < leastNumbers {
			h.Faults = append(h.Faults, fmt.Sprintf("the last %s given out is said to be %d: only %d more can be given out", n.what, n.last, left))
		}
	}
	if lastItem < item {
		h.Faults = append(h.Faults, fmt.Sprintf("the last item id given out is said to be %d, and there is item %d", lastItem, item))
	}
	if lastClaim < claim {
		h.Faults = append(h.Faults, fmt.Sprintf("the last fencing token given out is said to be %d, and there is %d", lastClaim, claim))
	}
	return nil
}

// highestClaim is the highest fencing token of which anything is on record.
const highestClaim = `max(coalesce((SELECT max(id) FROM claim), 0), coalesce((SELECT max(claim) FROM attempt), 0),
	coalesce((SELECT max(claim) FROM item INDEXED BY item_held WHERE claim IS NOT NULL), 0))`

// dangling finds rows that point nowhere: every reference in the schema is a
// foreign key, so that the engine knows them all.
func (s *snapshot) dangling(h *store.Health) error {
	seen := map[string]int{}
	// A held item whose claim is gone is counted by unheld: it heals.
	err := s.rows(`SELECT "table", "parent" FROM pragma_foreign_key_check WHERE NOT ("table" = 'item' AND "parent" = 'claim')`, nil, func(scan func(...any) error) error {
		var table, parent string
		err := scan(&table, &parent)
		seen[fmt.Sprintf("rows of %s that point to no %s", table, parent)]++
		return err
	})
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		h.Faults = append(h.Faults, fmt.Sprintf("%s: %d", what, seen[what]))
	}
	return err
}

// offBooks lists the lists of items whose books are not what is there: the
// names, the kept numbers, and those found.
const offBooks = `WITH truth AS (SELECT job, scope, sum(state = 0) AS s0, sum(state = 1) AS s1, sum(state = 2) AS s2, sum(state = 3) AS s3,
			sum(state = 4) AS s4, sum(state = 5) AS s5, sum(state = 6) AS s6, count(*) AS n FROM item GROUP BY job, scope)
	SELECT t.job, t.scope, t.enqueued - t.pruned, t.ready, t.delayed, t.claimed, t.running, t.done, t.dead, t.dropped,
		coalesce(n, 0), coalesce(s0, 0), coalesce(s1, 0), coalesce(s2, 0), coalesce(s3, 0), coalesce(s4, 0), coalesce(s5, 0), coalesce(s6, 0)
	FROM tally t LEFT JOIN truth USING (job, scope)
	WHERE (t.enqueued - t.pruned, t.ready, t.delayed, t.claimed, t.running, t.done, t.dead, t.dropped) IS NOT
		(coalesce(n, 0), coalesce(s0, 0), coalesce(s1, 0), coalesce(s2, 0), coalesce(s3, 0), coalesce(s4, 0), coalesce(s5, 0), coalesce(s6, 0))
	UNION ALL
	SELECT job, scope, 0, 0, 0, 0, 0, 0, 0, 0, n, s0, s1, s2, s3, s4, s5, s6 FROM truth
	WHERE NOT EXISTS (SELECT 1 FROM tally WHERE tally.job = truth.job AND tally.scope = truth.scope)`

// off is one list whose books are wrong: how many were enqueued and not pruned,
// and how many are in each state.
type off struct {
	job, scope  int64
	kept, found [8]int64
}

func (o *off) dest() []any {
	dest := []any{&o.job, &o.scope}
	for _, numbers := range []*[8]int64{&o.kept, &o.found} {
		for i := range numbers {
			dest = append(dest, &numbers[i])
		}
	}
	return dest
}

// bookStates are the states in the order of off's numbers, after the first.
var bookStates = []jobs.State{jobs.Ready, jobs.Delayed, jobs.Claimed, jobs.Running, jobs.Done, jobs.Dead, jobs.Dropped}

// recount compares the books with what is there, list by list.
func (s *snapshot) recount(h *store.Health) error {
	return s.rows(`SELECT coalesce(j.name, 'number ' || o.job), coalesce(sc.name, 'number ' || o.scope), o.* FROM (`+offBooks+`) o
		LEFT JOIN job j ON j.id = o.job LEFT JOIN scope sc ON sc.id = o.scope ORDER BY 1, 2`, nil,
		func(scan func(...any) error) error {
			var job, scope string
			var o off
			if err := scan(append([]any{&job, &scope}, o.dest()...)...); err != nil {
				return err
			}
			list, told := fmt.Sprintf("job %q, scope %q", job, scope), false
			for i, st := range bookStates {
				if o.kept[i+1] != o.found[i+1] {
					told = true
					h.Faults = append(h.Faults, fmt.Sprintf("%s: the books say %d %s, there are %d", list, o.kept[i+1], st, o.found[i+1]))
				}
			}
			if !told {
				h.Faults = append(h.Faults, fmt.Sprintf("%s: the books say that %d were enqueued and not pruned, there are %d", list, o.kept[0], o.found[0]))
			}
			return nil
		})
}

// shortCounters lists what the day's numbers must have counted at least, and have
// not. More is no fault: an item can be done twice, and go.
const shortCounters = `WITH kept AS (SELECT job, sum(done) AS done, sum(dead) AS dead, sum(crashes) AS crashes, sum(timeouts) AS timeouts FROM daily GROUP BY job),
	tried AS (SELECT i.job, sum(a.class = 'crash') AS crashes, sum(a.class = 'timeout') AS timeouts FROM attempt a JOIN item i ON i.id = a.item GROUP BY i.job),
	here AS (SELECT job, sum(state = 4) AS done, sum(state = 5) AS dead FROM item GROUP BY job)
	SELECT j.id, j.name, j.lane, coalesce(k.done, 0), coalesce(h.done, 0), coalesce(k.dead, 0), coalesce(h.dead, 0),
		coalesce(k.crashes, 0), coalesce(t.crashes, 0), coalesce(k.timeouts, 0), coalesce(t.timeouts, 0)
	FROM job j LEFT JOIN kept k ON k.job = j.id LEFT JOIN tried t ON t.job = j.id LEFT JOIN here h ON h.job = j.id
	WHERE coalesce(k.done, 0) < coalesce(h.done, 0) OR coalesce(k.dead, 0) < coalesce(h.dead, 0)
		OR coalesce(k.crashes, 0) < coalesce(t.crashes, 0) OR coalesce(k.timeouts, 0) < coalesce(t.timeouts, 0)
	ORDER BY j.name`

// short is one job of shortCounters.
type short struct {
	job        int64
	name, lane string
	// Of done, dead, crashes and timeouts: how many were counted, and how many
	// must have been.
	counted, known [4]int64
}

func (c *short) dest() []any {
	dest := []any{&c.job, &c.name, &c.lane}
	for i := range c.counted {
		dest = append(dest, &c.counted[i], &c.known[i])
	}
	return dest
}

// overfull are the days of which more durations are on record than successes.
const overfull = `SELECT l.job, l.lane, l.day, sum(l.n) AS n FROM latency l GROUP BY l.job, l.lane, l.day
	HAVING sum(l.n) > coalesce((SELECT done FROM daily d WHERE d.job = l.job AND d.lane = l.lane AND d.day = l.day), 0)`

// negative are the day's numbers that can't be.
const negative = `min(done, retries, timeouts, dead, crashes, lapses, stale, duplicates, conflicts) < 0`

// counters looks at the numbers by day as far as they can be recounted.
func (s *snapshot) counters(h *store.Health) error {
	words := [4]string{"successes", "dead items", "crashes", "timeouts"}
	err := s.rows(shortCounters, nil, func(scan func(...any) error) error {
		var c short
		if err := scan(c.dest()...); err != nil {
			return err
		}
		for i, n := range c.counted {
			if n < c.known[i] {
				h.Faults = append(h.Faults, fmt.Sprintf("job %q: %d %s are counted by day, and %d are known", c.name, n, words[i], c.known[i]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.count(h, []counted{
		{"SELECT count(*) FROM (" + overfull + ")", "day has more durations on record than successes", "days have more durations on record than successes", false},
		{"SELECT count(*) FROM daily WHERE " + negative, "counter by day is negative", "counters by day are negative", false},
		{"SELECT count(*) FROM latency WHERE n < 1", "duration is counted less than once", "durations are counted less than once", false},
	})
}

// counted is a search for what should not be, and what to say of it.
type counted struct {
	query, one, text string // text where they are several
	note             bool
}

func (s *snapshot) count(h *store.Health, searches []counted) error {
	for _, c := range searches {
		var n int64
		if err := s.row(c.query, nil, &n); err != nil {
			return err
		}
		text := fmt.Sprintf("%d %s", n, c.text)
		if n == 1 {
			text = "1 " + c.one
		}
		switch {
		case n > 0 && c.note:
			h.Notes = append(h.Notes, text)
		case n > 0:
			h.Faults = append(h.Faults, text)
		}
	}
	return nil
}

// unheld looks at claims and slots. What a dead run left is a note: the next
// run heals it.
func (s *snapshot) unheld(h *store.Health) error {
	return s.count(h, []counted{
		{`SELECT count(*) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND claim NOT IN (SELECT id FROM claim)`,
			"item is held under a claim that is not there; the next run takes it back", "items are held under a claim that is not there; the next run takes them back", true},
		{`SELECT count(*) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND state = 3 AND id NOT IN (SELECT item FROM slot WHERE item IS NOT NULL)`,
			"item is running and takes no slot; the next run takes it back when its own is dead", "items are running and take no slot; the next run takes them back when theirs is dead", true},
		{"SELECT count(*) FROM slot WHERE " + idleSlot, "slot is taken by an item that is not running", "slots are taken by items that are not running", false},
	})
}

// idleSlot is true of a slot whose item does not run.
const idleSlot = "item IS NOT NULL AND NOT EXISTS (SELECT 1 FROM item i WHERE i.id = slot.item AND i.state = 3)"

// leftShown is how many items are named that dead runs keep.
const leftShown = 10

// left lists what is held only because something of a dead run may still be
// at work on it.
func (s *snapshot) left(h *store.Health) error {
	const from = `FROM slot s JOIN item i ON i.id = s.item WHERE s.orphan IS NOT NULL AND i.state = 3`
	if err := s.row("SELECT count(*) "+from, nil, &h.LeftCount); err != nil || h.LeftCount == 0 {
		return err
	}
	return s.rows(`SELECT i.id, coalesce((SELECT name FROM job WHERE id = i.job), ''), coalesce((SELECT name FROM scope WHERE id = i.scope), ''),
		i.key, i.attempt, s.orphan, s.run `+from+" ORDER BY i.id LIMIT ?", []any{leftShown}, func(scan func(...any) error) error {
		it := &jobs.Item{State: jobs.Running}
		l := store.LeftItem{It: it}
		err := scan(&it.ID, &it.Job, &it.Scope, &it.Key, &it.Attempt, &l.Dead, &l.By)
		h.Left = append(h.Left, l)
		return err
	})
}

// openRuns lists the runs that have not written their end.
func (s *snapshot) openRuns(h *store.Health) error {
	const held = "(SELECT count(*) FROM claim c CROSS JOIN item i INDEXED BY item_held ON i.claim = c.id WHERE c.run = r.id AND i.state = "
	return s.rows("SELECT "+runColumns(s.schema, s.file)+", schema, "+held+"2), "+held+`3)
		FROM run r WHERE ended IS NULL ORDER BY id`, nil, func(scan func(...any) error) error {
		var row runRow
		var r store.OpenRun
		if err := scan(row.dest(&r.Schema, &r.Claimed, &r.Running)...); err != nil {
			return err
		}
		var err error
		r.RunInfo, err = row.info()
		h.Runs = append(h.Runs, r)
		return err
	})
}
