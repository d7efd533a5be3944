package sqlite

import (
	"context"
	"fmt"
	"os"

	"batchq/jobs"
	"batchq/store"
)

// Check recounts everything from the items and compares it with the books,
// and lets the engine examine its file.
func (db *DB) Check(ctx context.Context) (h store.Health, err error) {
	err = db.read(ctx, "doctor", func(s *snapshot) error {
		h = store.Health{Path: db.path, Schema: s.schema, Bytes: sizeOf(db.path), WALBytes: sizeOf(db.path + "-wal")}
		if err := s.row("SELECT count(*) FROM item", nil, &h.Items); err != nil {
			return err
		}
		for _, check := range []func(*store.Health) error{s.integrity, s.dangling, s.recount, s.unheld} {
			if err := check(&h); err != nil {
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

func (s *snapshot) integrity(h *store.Health) error {
	return s.rows("PRAGMA integrity_check(20)", nil, func(scan func(...any) error) error {
		var line string
		err := scan(&line)
		if line != "ok" {
			h.Integrity = append(h.Integrity, line)
		}
		return err
	})
}

// dangling finds rows that point nowhere.
func (s *snapshot) dangling(h *store.Health) error {
	seen := map[string]int{}
	// A held item whose claim is gone is counted by held: it heals.
	err := s.rows(`SELECT "table", "parent" FROM pragma_foreign_key_check WHERE NOT ("table" = 'item' AND "parent" = 'claim')`, nil, func(scan func(...any) error) error {
		var table, parent string
		err := scan(&table, &parent)
		seen[fmt.Sprintf("rows of %s that point to no %s", table, parent)]++
		return err
	})
	for what, n := range seen {
		h.Faults = append(h.Faults, fmt.Sprintf("%d %s", n, what))
	}
	return err
}

// recount compares the books with what is there, list by list.
func (s *snapshot) recount(h *store.Health) error {
	columns := []jobs.State{jobs.Ready, jobs.Delayed, jobs.Claimed, jobs.Running, jobs.Done, jobs.Dead, jobs.Dropped}
	return s.rows(`WITH truth AS (SELECT job, scope, sum(state = 0) AS s0, sum(state = 1) AS s1, sum(state = 2) AS s2, sum(state = 3) AS s3,
			sum(state = 4) AS s4, sum(state = 5) AS s5, sum(state = 6) AS s6 FROM item GROUP BY job, scope)
		SELECT j.name, sc.name, t.ready, t.delayed, t.claimed, t.running, t.done, t.dead, t.dropped,
			coalesce(s0, 0), coalesce(s1, 0), coalesce(s2, 0), coalesce(s3, 0), coalesce(s4, 0), coalesce(s5, 0), coalesce(s6, 0)
		FROM tally t JOIN job j ON j.id = t.job JOIN scope sc ON sc.id = t.scope LEFT JOIN truth USING (job, scope)
		WHERE (t.ready, t.delayed, t.claimed, t.running, t.done, t.dead, t.dropped) IS NOT
			(coalesce(s0, 0), coalesce(s1, 0), coalesce(s2, 0), coalesce(s3, 0), coalesce(s4, 0), coalesce(s5, 0), coalesce(s6, 0))
		UNION ALL
		SELECT j.name, sc.name, 0, 0, 0, 0, 0, 0, 0, s0, s1, s2, s3, s4, s5, s6
		FROM truth JOIN job j ON j.id = truth.job JOIN scope sc ON sc.id = truth.scope
		WHERE NOT EXISTS (SELECT 1 FROM tally WHERE tally.job = truth.job AND tally.scope = truth.scope)`, nil,
		func(scan func(...any) error) error {
			var job, scope string
			var kept, found [7]int64
			dest := []any{&job, &scope}
			for i := range kept {
				dest = append(dest, &kept[i])
			}
			for i := range found {
				dest = append(dest, &found[i])
			}
			if err := scan(dest...); err != nil {
				return err
			}
			for i, st := range columns {
				if kept[i] != found[i] {
					h.Faults = append(h.Faults, fmt.Sprintf("job %q, scope %q: the books say %d %s, there are %d", job, scope, kept[i], st, found[i]))
				}
			}
			return nil
		})
}

// unheld looks at claims and slots. What a dead run left is a note: the next
// run heals it.
func (s *snapshot) unheld(h *store.Health) error {
	counts := []struct {
		query, text string
		note        bool
	}{
		{`SELECT count(*) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND claim NOT IN (SELECT id FROM claim)`,
			"items are held under a claim that is not there; the next run takes them back", true},
		{`SELECT count(*) FROM item INDEXED BY item_held WHERE claim IS NOT NULL AND state = 3 AND id NOT IN (SELECT item FROM slot WHERE item IS NOT NULL)`,
			"items are running and take no slot; the next run takes them back when theirs is dead", true},
		{`SELECT count(*) FROM slot s WHERE s.item IS NOT NULL AND NOT EXISTS (SELECT 1 FROM item i WHERE i.id = s.item AND i.state = 3)`,
			"slots are taken by items that are not running", false},
		{`SELECT count(*) FROM payload WHERE item NOT IN (SELECT id FROM item)`, "payloads belong to no item", false},
	}
	for _, c := range counts {
		var n int64
		if err := s.row(c.query, nil, &n); err != nil {
			return err
		}
		switch {
		case n > 0 && c.note:
			h.Notes = append(h.Notes, fmt.Sprintf("%d %s", n, c.text))
		case n > 0:
			h.Faults = append(h.Faults, fmt.Sprintf("%d %s", n, c.text))
		}
	}
	return nil
}
