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

// Claim moves what is due, then takes items of one lane for one run.
func (db *DB) Claim(ctx context.Context, c store.ClaimRequest) (store.Claim, error) {
	var out store.Claim
	// What a claim took is given back when it is lost: it need not be synced.
	err := db.write(ctx, "claim", unsynced, func(t *tx) error {
		out = store.Claim{Lane: c.Lane, NextDue: -1}
		c := c
		// Half of what a transaction may touch is kept for what is due: a run
		// that asks for much must not keep it out.
		promoted, err := t.promote(store.MaxRows - min(c.Max, store.MaxRows/2))
		if err != nil {
			return err
		}
		fault.Here("claim", "promoted")
		c.Max = min(c.Max, store.MaxRows-promoted)
		g, err := t.openGate(c.Limits)
		if err != nil {
			return err
		}
		out.InUse = g.lane[c.Lane]
		if g.laneFull(c.Lane) {
			out.LaneFull = true
			out.Holders, err = t.holders(c.Lane)
			return err
		}
		scope, err := t.scopeFilter(c.Scope)
		if err != nil {
			return err
		}
		queues, err := t.queues(c)
		if err != nil {
			return err
		}
		if queues, err = t.within(queues, scope); err != nil {
			return err
		}
		if queues, err = g.admit(c.Lane, queues, &out); err != nil {
			return err
		}
		if out.Items, err = t.share(queues, scope, c); err != nil {
			return err
		}
		if len(out.Items) == 0 {
			due, err := t.nextDue(c, scope)
			out.NextDue = sooner(out.NextDue, due)
			return err
		}
		fault.Here("claim", "chosen")
		out.ID, err = t.own(c, out.Items)
		return err
	})
	return out, err
}

// promote makes delayed items ready that are due, at most limit of them, of
// each job an equal share and those first that have been due longest. One bad
// row can't hold up the others: it is the state alone that changes.
func (t *tx) promote(limit int) (promoted int, err error) {
	due, err := t.overdue()
	if err != nil {
		return 0, err
	}
	for left := limit; len(due) > 0 && left > 0; {
		each := max(1, left/len(due))
		var more []int64
		for _, job := range due {
			n := min(each, left)
			moved, err := t.promoteOf(job, n)
			if err != nil {
				return promoted, err
			}
			promoted, left = promoted+moved, left-moved
			if moved == n {
				more = append(more, job)
			}
		}
		due = more
	}
	return promoted, nil
}

// overdue lists the jobs that have something due to be promoted. The
// recursive walk touches two index entries a job, however many items wait.
func (t *tx) overdue() (due []int64, err error) {
	err = t.rows(`WITH RECURSIVE r (job) AS (
			SELECT (SELECT job FROM item INDEXED BY item_delayed WHERE state = 1 ORDER BY job LIMIT 1)
			UNION ALL
			SELECT (SELECT job FROM item INDEXED BY item_delayed WHERE state = 1 AND job > r.job ORDER BY job LIMIT 1) FROM r WHERE r.job IS NOT NULL)
		SELECT job FROM r WHERE job IS NOT NULL
		AND (SELECT due FROM item INDEXED BY item_delayed WHERE state = 1 AND job = r.job ORDER BY due LIMIT 1) <= ?`,
		[]any{t.now}, func(scan func(...any) error) error {
			var job int64
			err := scan(&job)
			due = append(due, job)
			return err
		})
	return due, err
}

func (t *tx) promoteOf(job int64, limit int) (promoted int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	err = t.rows(`UPDATE item SET state = 0 WHERE id IN
		(SELECT id FROM item INDEXED BY item_delayed WHERE state = 1 AND job = ? AND due <= ? ORDER BY due LIMIT ?) RETURNING scope`,
		[]any{job, t.now, limit}, func(scan func(...any) error) error {
			var scope int64
			err := scan(&scope)
			t.moved(job, scope, jobs.Delayed, jobs.Ready)
			promoted++
			return err
		})
	return promoted, err
}

// holders names who has the slots of a lane.
func (t *tx) holders(lane string) ([]store.Holder, error) {
	var hs []store.Holder
	err := t.rows("SELECT run, min(started), count(*) FROM slot WHERE lane = ? GROUP BY run ORDER BY 2", []any{lane},
		func(scan func(...any) error) error {
			h, err := scanHolder(scan)
			hs = append(hs, h)
			return err
		})
	return hs, err
}

// queue is one job's ready items.
type queue struct {
	job  int64
	spec *jobs.Spec
	most int // items that a claim may take of it; negative: no bound
	// fewest: the breaker is half open, and the item goes first that has
	// failed least often
	fewest bool
	// the last item seen, where the next look goes on
	rank, id int64
	items    []*jobs.Item
	dry      bool
}

// queues lists the wanted jobs that have something ready, the one served
// longest ago first. The recursive walk touches one index entry a job, not one
// an item.
func (t *tx) queues(c store.ClaimRequest) (qs []*queue, err error) {
	wanted := make(map[string]*jobs.Spec, len(c.Jobs))
	for _, s := range c.Jobs {
		wanted[s.Name] = s
	}
	err = t.rows(`WITH RECURSIVE r (job) AS (
			SELECT (SELECT job FROM item INDEXED BY item_ready WHERE state = 0 ORDER BY job LIMIT 1)
			UNION ALL
			SELECT (SELECT job FROM item INDEXED BY item_ready WHERE state = 0 AND job > r.job ORDER BY job LIMIT 1) FROM r WHERE r.job IS NOT NULL)
		SELECT j.id, j.name FROM r JOIN job j ON j.id = r.job ORDER BY j.served, j.id`, nil, func(scan func(...any) error) error {
		var id int64
		var name string
		if err := scan(&id, &name); err != nil {
			return err
		}
		if spec := wanted[name]; spec != nil {
			qs = append(qs, &queue{job: id, spec: spec, most: -1, rank: -1 << 62})
		}
		return nil
	})
	return qs, err
}

// within leaves out the jobs that have nothing ready in a scope. The books
// know it; to find it out would be a walk past all that other scopes have.
func (t *tx) within(qs []*queue, scope any) (some []*queue, err error) {
	id, scoped := scope.(int64)
	if !scoped {
		return qs, nil
	}
	for _, q := range qs {
		var ready int64
		if _, err := missing(t.row("SELECT ready FROM tally WHERE job = ? AND scope = ?", []any{q.job, id}, &ready)); err != nil {
			return nil, err
		}
		if c := t.books.tally[listKey{q.job, id}]; c != nil {
			ready += c.state[jobs.Ready] // what has just been promoted
		}
		if ready > 0 {
			some = append(some, q)
		}
	}
	return some, nil
}

// share takes up to c.Max items: an equal share of each job first, then what
// is still free for those that have more. The answer goes round the jobs, so
// that the long list of one does not stand before the only item of another.
func (t *tx) share(qs []*queue, scope any, c store.ClaimRequest) ([]*jobs.Item, error) {
	if c.Max <= 0 {
		return nil, nil
	}
	left := c.Max
	for open := len(qs); open > 0 && left > 0; {
		each := max(1, left/open)
		open = 0
		for _, q := range qs {
			if q.dry || left == 0 {
				continue
			}
			n := min(each, left)
			if q.most >= 0 {
				n = min(n, q.most-len(q.items))
			}
			got, err := t.next(q, n, scope, c)
			if err != nil {
				return nil, err
			}
			left -= got
			if q.dry = got < n || q.most == len(q.items); !q.dry {
				open++
			}
		}
	}
	var items []*jobs.Item
	for i, more := 0, true; more; i++ {
		more = false
		for _, q := range qs {
			if i < len(q.items) {
				items, more = append(items, q.items[i]), true
			}
		}
	}
	return items, nil
}

// next reads up to n more ready items of q in rank order, passing over those
// that the run leaves alone.
func (t *tx) next(q *queue, n int, scope any, c store.ClaimRequest) (got int, err error) {
	// CROSS JOIN keeps the index's order: items first, their scope's name after.
	query := `SELECT i.id, s.name, i.key, i.priority, i.generation, i.attempt, i.failures, i.crashes, i.defers, i.rank, i.due
		FROM item i INDEXED BY item_ready CROSS JOIN scope s ON s.id = i.scope
		WHERE i.state = 0 AND i.job = ? AND (i.rank, i.id) > (?, ?)`
	args := []any{q.job, q.rank, q.id}
	if scope != nil {
		query += " AND i.scope = ?"
		args = append(args, scope)
	}
	query += " ORDER BY i.rank, i.id LIMIT ?"
	if q.fewest {
		// Among as many as a transaction may look at. What has not failed yet
		// mostly stands first anyway: a retry is due later.
		query = "SELECT * FROM (" + query + ") ORDER BY failures, rank, id LIMIT ?"
		args = append(args, store.MaxRows)
	}
	err = t.rows(query, append(args, n+len(c.Skip)), func(scan func(...any) error) error {
		it := &jobs.Item{Job: q.spec.Name, State: jobs.Claimed}
		var rank, due int64
		err := scan(&it.ID, &it.Scope, &it.Key, &it.Priority, &it.Generation, &it.Attempt, &it.Failures, &it.Crashes, &it.Defers, &rank, &due)
		if err != nil || got == n {
			return err
		}
		q.rank, q.id = rank, it.ID
		it.Due = time.UnixMilli(due).UTC()
		if !c.Skip[it.ID] {
			q.items = append(q.items, it)
			got++
		}
		return nil
	})
	return got, err
}

// own writes the claim and moves the items under it.
func (t *tx) own(c store.ClaimRequest, items []*jobs.Item) (id int64, err error) {
	if id, err = t.newClaim(c.Run, c.Lane, c.Lease); err != nil {
		return 0, err
	}
	if err := t.exec("UPDATE run SET batches = batches + 1 WHERE id = ?", c.Run); err != nil {
		return 0, err
	}
	served := map[string]bool{}
	for _, it := range items {
		job, err := t.jobID(it.Job)
		if err != nil {
			return 0, err
		}
		scope, err := t.scopeID(it.Scope)
		if err != nil {
			return 0, err
		}
		if err := t.exec("UPDATE item SET state = 2, claim = ? WHERE id = ?", id, it.ID); err != nil {
			return 0, err
		}
		t.moved(job, scope, jobs.Ready, jobs.Claimed)
		served[it.Job] = true
	}
	for _, s := range c.Jobs {
		if served[s.Name] {
			if err := t.served(c, s, id); err != nil {
				return 0, err
			}
		}
	}
	return id, nil
}

// newClaim makes a claim with the next fencing token. The token grows also
// across a restored backup, whose last one is older than what was given out
// since: the clock has moved on.
func (t *tx) newClaim(run int64, lane string, lease time.Duration) (id int64, err error) {
	if err := t.row("UPDATE book SET last_claim = max(last_claim + 1, ?) RETURNING last_claim", []any{t.now}, &id); err != nil {
		return 0, err
	}
	return id, t.exec("INSERT INTO claim (id, run, lane, created, until, lease) VALUES (?, ?, ?, ?, ?, ?)",
		id, run, lane, t.now, t.now+lease.Milliseconds(), lease.Milliseconds())
}

// served notes that a job had its turn, and stores how this run works it: a
// rescuer of this run, and show, will need it.
func (t *tx) served(c store.ClaimRequest, s *jobs.Spec, claim int64) error {
	job, err := t.jobID(s.Name)
	if err != nil {
		return err
	}
	if err := t.exec("UPDATE job SET served = ?, lane = ? WHERE id = ?", claim, c.Lane, job); err != nil {
		return err
	}
	kept := *s
	kept.Handler.Env = nil // may be secrets, and neither a rescuer nor show needs them
	if kept.Handler.HTTP != nil {
		kept.Handler.HTTP = kept.Handler.HTTP.Public()
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return err
	}
	k := specKey{c.Run, job}
	if t.db.specs[k] == string(text) {
		return nil
	}
	if err := t.exec("UPDATE job SET spec = ? WHERE id = ?", string(text), job); err != nil {
		return err
	}
	err = t.exec("INSERT INTO policy (run, job, spec) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET spec = excluded.spec", c.Run, job, string(text))
	if err == nil {
		t.onCommit = append(t.onCommit, func() { t.db.specs[k] = string(text) })
	}
	return err
}

// nextDue is how long until the first delayed item of the wanted jobs is due.
func (t *tx) nextDue(c store.ClaimRequest, scope any) (time.Duration, error) {
	names := make([]string, 0, len(c.Jobs))
	for _, s := range c.Jobs {
		names = append(names, s.Name)
	}
	// One index entry a job: what waits of other jobs is not looked at.
	var due sql.NullInt64
	err := t.row(`SELECT min((SELECT due FROM item INDEXED BY item_delayed WHERE state = 1 AND job = j.id
			AND (?2 IS NULL OR scope = ?2) ORDER BY due LIMIT 1))
		FROM job j WHERE name IN (SELECT value FROM json_each(?1))
			AND (?2 IS NULL OR EXISTS (SELECT 1 FROM tally WHERE job = j.id AND scope = ?2 AND delayed > 0))`, []any{nameList(names), scope}, &due)
	if err != nil || !due.Valid {
		return -1, err
	}
	return max(0, time.Duration(due.Int64-t.now)*time.Millisecond), nil
}
