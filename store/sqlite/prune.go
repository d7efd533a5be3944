package sqlite

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// pruneLook bounds how many items one step looks at: the search needs no
// index, which every result would have to pay for, and must not take long.
const pruneLook = 20_000

// Prune deletes what was settled long ago. Which items these are is read
// without the write lock, and asked again when they go.
func (db *DB) Prune(ctx context.Context, p store.Prune) (store.Pruned, error) {
	f, err := db.outlived(ctx, p)
	if err != nil || p.DryRun || len(f.ids) == 0 {
		return f.Pruned, err
	}
	err = db.write(ctx, "prune", synced, func(t *tx) error {
		f.Done, f.Dropped = 0, 0
		return t.prune(&f, p)
	})
	return f.Pruned, err
}

// Sweep is a step of Prune that remembers in the book where it was.
func (db *DB) Sweep(ctx context.Context, keep map[string]time.Duration) (store.Pruned, error) {
	p := store.Prune{Keep: keep}
	err := db.read(ctx, "prune", func(s *snapshot) error {
		return s.row("SELECT swept FROM book", nil, &p.After)
	})
	if err != nil {
		return store.Pruned{}, err
	}
	f, err := db.outlived(ctx, p)
	if err != nil {
		return f.Pruned, err
	}
	// Where it stands is no more than a hint: a power cut may forget it.
	durable := synced
	if len(f.ids) == 0 {
		if durable = unsynced; p.After == 0 && !f.More {
			return f.Pruned, nil // it stands where it stood
		}
	}
	err = db.write(ctx, "prune", durable, func(t *tx) error {
		f.Done, f.Dropped = 0, 0
		if err := t.prune(&f, p); err != nil {
			return err
		}
		next := f.Next
		if !f.More {
			next = 0
		}
		return t.exec("UPDATE book SET swept = ?", next)
	})
	return f.Pruned, err
}

// outlived is what a look has found.
type outlived struct {
	store.Pruned
	ids     []int64
	cutoffs map[int64]int64 // job → what was settled later stays
}

func (db *DB) outlived(ctx context.Context, p store.Prune) (f outlived, err error) {
	err = db.read(ctx, "prune", func(s *snapshot) error {
		f = outlived{cutoffs: map[int64]int64{}, Pruned: store.Pruned{Next: p.After}}
		err := s.rows("SELECT id, name FROM job", nil, func(scan func(...any) error) error {
			var id int64
			var name string
			err := scan(&id, &name)
			if age, ok := p.Keep[name]; ok {
				f.cutoffs[id] = s.now - age.Milliseconds()
			}
			return err
		})
		if err != nil {
			return err
		}
		scope := int64(math.MinInt64) // any
		if p.Scope != nil {
			if err := s.row("SELECT coalesce((SELECT id FROM scope WHERE name = ?), 0)", []any{*p.Scope}, &scope); err != nil {
				return err
			}
		}
		looked, rows := 0, 0
		err = s.rows(`SELECT i.id, i.job, i.scope, i.state, coalesce(i.finished, 0),
				(SELECT count(*) FROM attempt WHERE item = i.id) + (SELECT count(*) FROM payload WHERE item = i.id)
			FROM item i WHERE i.id > ? ORDER BY i.id LIMIT ?`, []any{p.After, pruneLook},
			func(scan func(...any) error) error {
				if f.More {
					return nil
				}
				var id, job, in, finished int64
				var state jobs.State
				var hanging int
				if err := scan(&id, &job, &in, &state, &finished, &hanging); err != nil {
					return err
				}
				cutoff, named := f.cutoffs[job]
				if goes := named && finished <= cutoff && takes(p, state) && (scope == math.MinInt64 || scope == in); goes {
					if rows > 0 && rows+1+hanging > store.MaxRows {
						f.More = true // it is the next step's first
						return nil
					}
					rows += 1 + hanging
					f.ids = append(f.ids, id)
					f.count(state, 1)
				}
				looked, f.Next = looked+1, id
				return nil
			})
		f.More = f.More || looked == pruneLook
		return err
	})
	return f, err
}

func (f *outlived) count(state jobs.State, n int64) {
	switch state {
	case jobs.Done:
		f.Done += n
	case jobs.Dropped:
		f.Dropped += n
	}
}

// prune deletes what a look has found, as far as it is still so. What hangs on
// an item goes with it.
func (t *tx) prune(f *outlived, p store.Prune) error {
	for _, id := range f.ids {
		var job, scope int64
		var state jobs.State
		none, err := missing(t.row("SELECT job, scope, state FROM item WHERE id = ? AND state IN (4, 6)", []any{id}, &job, &scope, &state))
		if err != nil {
			return err
		}
		if none || !takes(p, state) {
			continue
		}
		n, err := t.change("DELETE FROM item WHERE id = ? AND finished <= ?", id, f.cutoffs[job])
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		c := t.list(job, scope)
		c.state[state]--
		c.pruned++
		f.count(state, 1)
		fault.Here("prune", "deleted")
	}
	return nil
}

// PruneRuns deletes runs of long ago. What an attempt on record says of its
// run is the number alone, which stays.
func (db *DB) PruneRuns(ctx context.Context, age time.Duration, dryRun bool) (runs int, err error) {
	const old = `FROM run WHERE ended <= ?1 AND id NOT IN (SELECT run FROM claim) AND id NOT IN (SELECT run FROM slot)
		AND id NOT IN (SELECT orphan FROM slot WHERE orphan IS NOT NULL)`
	if dryRun {
		err = db.read(ctx, "prune", func(s *snapshot) error {
			return s.row("SELECT count(*) "+old, []any{s.now - age.Milliseconds()}, &runs)
		})
		return runs, err
	}
	err = db.write(ctx, "prune", unsynced, func(t *tx) error {
		// A run has one row for each job that it has worked.
		n, err := t.change("DELETE FROM run WHERE id IN (SELECT id "+old+" ORDER BY id LIMIT ?2)", t.now-age.Milliseconds(), store.MaxRows/4)
		runs = int(n)
		return err
	})
	return runs, err
}

// outworn are the runs that keep_done no longer keeps: of each job that they
// worked it says a time, and the longest of these is over. Which jobs these were
// is what their policies tell; of a run without any (it found nothing to do, or
// its rows went) nobody knows, so that every job there is must have said a time.
// One that left something running is to be looked at again while its item is
// there.
//
// ?1 is the jobs' times in milliseconds, as JSON by their name; ?2 is now.
const outworn = `WITH keep AS (SELECT j.id AS job, k.value AS age FROM json_each(?1) k JOIN job j ON j.name = k.key)
	SELECT r.id FROM run r WHERE r.ended IS NOT NULL
		AND r.id NOT IN (SELECT run FROM claim) AND r.id NOT IN (SELECT run FROM slot)
		AND r.id NOT IN (SELECT orphan FROM slot WHERE orphan IS NOT NULL)
		AND r.id NOT IN (SELECT run FROM attempt INDEXED BY attempt_crash WHERE class = 'crash')
		AND CASE WHEN EXISTS (SELECT 1 FROM policy p WHERE p.run = r.id)
			THEN NOT EXISTS (SELECT 1 FROM policy p LEFT JOIN keep k ON k.job = p.job
				WHERE p.run = r.id AND (k.age IS NULL OR r.ended > ?2 - k.age))
			ELSE NOT EXISTS (SELECT 1 FROM job j WHERE j.id NOT IN (SELECT job FROM keep))
				AND r.ended <= ?2 - (SELECT max(value) FROM json_each(?1)) END`

// SweepRuns looks without the write lock first: mostly there is nothing.
func (db *DB) SweepRuns(ctx context.Context, keep map[string]time.Duration) (runs int, err error) {
	if len(keep) == 0 {
		return 0, nil
	}
	ages := map[string]int64{}
	for name, age := range keep {
		ages[name] = age.Milliseconds()
	}
	text, err := json.Marshal(ages)
	if err != nil {
		return 0, err
	}
	var found bool
	err = db.read(ctx, "prune", func(s *snapshot) error {
		return s.row("SELECT EXISTS ("+outworn+")", []any{string(text), s.now}, &found)
	})
	if err != nil || !found {
		return 0, err
	}
	err = db.write(ctx, "prune", unsynced, func(t *tx) error {
		// A run has one row for each job that it has worked.
		n, err := t.change("DELETE FROM run WHERE id IN ("+outworn+" ORDER BY r.id LIMIT ?3)", string(text), t.now, store.MaxRows/4)
		runs = int(n)
		return err
	})
	return runs, err
}

// takes says whether a state is one of those that are to go.
func takes(p store.Prune, state jobs.State) bool {
	if state != jobs.Done && state != jobs.Dropped {
		return false
	}
	return p.States == nil || slices.Contains(p.States, state)
}
