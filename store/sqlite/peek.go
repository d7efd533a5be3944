package sqlite

import (
	"context"
	"time"

	"batchq/jobs"
)

// Peek reads what would start first, and claims nothing.
func (db *DB) Peek(ctx context.Context, job string, scope *string, n int) (items []*jobs.Item, err error) {
	err = db.read(ctx, "looking ahead", func(s *snapshot) error {
		var in any
		if scope != nil {
			in = *scope
		}
		return s.rows(`SELECT i.id, s.name, i.key, i.priority, i.generation, i.attempt, i.failures, i.crashes, i.defers, i.due, p.item IS NOT NULL, p.body
			FROM item i INDEXED BY item_ready CROSS JOIN scope s ON s.id = i.scope LEFT JOIN payload p ON p.item = i.id
			WHERE i.state = 0 AND i.job = (SELECT id FROM job WHERE name = ?1) AND (?2 IS NULL OR s.name = ?2)
			ORDER BY i.rank, i.id LIMIT ?3`, []any{job, in, n}, func(scan func(...any) error) error {
			it := &jobs.Item{Job: job, State: jobs.Ready}
			var due int64
			var paid bool
			err := scan(&it.ID, &it.Scope, &it.Key, &it.Priority, &it.Generation, &it.Attempt, &it.Failures, &it.Crashes, &it.Defers, &due, &paid, &it.Payload)
			if paid && it.Payload == nil {
				it.Payload = []byte{}
			}
			it.Due = time.UnixMilli(due).UTC()
			items = append(items, it)
			return err
		})
	})
	return items, err
}
