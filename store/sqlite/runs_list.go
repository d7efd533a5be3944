package sqlite

import (
	"context"

	"batchq/jobs"
	"batchq/store"
)

// Runs lists runs, the newest first.
func (db *DB) Runs(ctx context.Context, sel store.RunSelection) (runs []store.RunRow, err error) {
	err = db.read(ctx, "listing runs", func(s *snapshot) error {
		runs = nil
		var since any
		if sel.Since > 0 {
			since = s.now - sel.Since.Milliseconds()
		}
		limit := -1 // none
		if sel.Limit > 0 {
			limit = sel.Limit
		}
		err := s.rows(`SELECT `+runColumns(s.schema, s.file)+`, schema, outcome, batches, peak, freed
			FROM run r WHERE ?1 IS NULL OR ended IS NULL OR ended >= ?1 ORDER BY id DESC LIMIT ?2`, []any{since, limit}, func(scan func(...any) error) error {
			r, err := scanRun(scan)
			runs = append(runs, r)
			return err
		})
		if err != nil {
			return err
		}
		for i := range runs {
			if err := s.crashed(&runs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return runs, err
}

func scanRun(scan func(...any) error) (r store.RunRow, err error) {
	var row runRow
	if err := scan(row.dest(&r.Schema, &r.Outcome, &r.Batches, &r.PeakBytes, &r.Freed)...); err != nil {
		return r, err
	}
	r.RunInfo, err = row.info()
	return r, err
}

// crashed finds what a run's death left running: attempts that were charged
// with it, and those that are still being ended.
func (s *snapshot) crashed(r *store.RunRow) error {
	crashes := "SELECT item, number FROM attempt INDEXED BY attempt_crash WHERE run = ?1 AND class = 'crash'"
	if s.schema < 2 {
		crashes = "SELECT item, number FROM attempt WHERE run = ?1 AND class = 'crash'"
	}
	return s.rows(`SELECT i.id, j.name, sc.name, i.key, i.state, c.number FROM (`+crashes+`
			UNION SELECT item, attempt FROM slot WHERE orphan = ?1 AND item IS NOT NULL) c
		JOIN item i ON i.id = c.item JOIN job j ON j.id = i.job JOIN scope sc ON sc.id = i.scope ORDER BY i.id, c.number`,
		[]any{r.ID}, func(scan func(...any) error) error {
			var c store.CrashedItem
			var state int64
			err := scan(&c.Item, &c.Job, &c.Scope, &c.Key, &state, &c.Attempt)
			c.State = jobs.State(state)
			r.Crashed = append(r.Crashed, c)
			return err
		})
}
