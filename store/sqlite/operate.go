package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// Requeue makes dead, done or delayed items ready, with budgets anew. What
// happened before stays on record, and attempts go on counting.
func (db *DB) Requeue(ctx context.Context, ids []int64, from []jobs.State) (store.Moved, error) {
	return db.operate(ctx, committed, "requeue", ids, requeue(from))
}

func requeue(from []jobs.State) operation {
	return func(t *tx, it operand) (refusal string, err error) {
		switch it.state {
		case jobs.Dead, jobs.Done, jobs.Delayed:
			if slices.Contains(from, it.state) {
				return "", t.again(it.id, it.job, it.scope, it.state)
			}
		}
		return t.whyNot(it) // whatever from says: what is held or dropped stays
	}
}

// Drop takes dead, ready or delayed items out of the list, and those that an
// orphan holds which can't be ended. The key is free again, the row stays in
// the books.
func (db *DB) Drop(ctx context.Context, ids []int64) (store.Moved, error) {
	return db.operate(ctx, committed, "drop", ids, drop)
}

func drop(t *tx, it operand) (refusal string, err error) {
	switch it.state {
	case jobs.Dead, jobs.Ready, jobs.Delayed:
		t.moved(it.job, it.scope, it.state, jobs.Dropped)
		return "", t.exec("UPDATE item SET state = 6, finished = ? WHERE id = ?", t.now, it.id)
	case jobs.Running:
		return t.dropOrphan(it)
	}
	return t.whyNot(it)
}

// dropOrphan gives up an item whose dead run left something behind that can't
// be ended, or not be seen from here: a person knows better. A running item
// whose run lives is refused.
func (t *tx) dropOrphan(it operand) (refusal string, err error) {
	var slot, claim int64
	none, err := missing(t.row(`SELECT s.id, i.claim FROM slot s JOIN item i ON i.id = s.item
		WHERE s.item = ? AND s.orphan IS NOT NULL`, []any{it.id}, &slot, &claim))
	if err != nil {
		return "", err
	}
	if none {
		return t.whyNot(it)
	}
	t.moved(it.job, it.scope, jobs.Running, jobs.Dropped)
	if err := t.exec("DELETE FROM slot WHERE id = ?", slot); err != nil {
		return "", err
	}
	if err := t.exec("UPDATE item SET state = 6, claim = NULL, finished = ? WHERE id = ?", t.now, it.id); err != nil {
		return "", err
	}
	return "", t.closeClaim(claim)
}

// operand is one item that a person wants moved.
type operand struct {
	id, job, scope int64
	state          jobs.State
}

// operation is what is to be done to one item. It returns a reason where that
// can't be.
type operation func(*tx, operand) (refusal string, err error)

// outcome says whether what was done stays.
type outcome bool

const (
	committed outcome = true
	rehearsed outcome = false
)

// operate calls f for each id in one transaction; a refusal is recorded and
// the others go on.
func (db *DB) operate(ctx context.Context, end outcome, doing string, ids []int64, f operation) (out store.Moved, err error) {
	if len(ids) > store.MaxRows {
		return out, fmt.Errorf("%s of %d items at once: at most %d", doing, len(ids), store.MaxRows)
	}
	err = db.write(ctx, doing, synced, func(t *tx) error {
		out = store.Moved{}
		from := map[operand]int{} // with the job and the state alone
		for _, id := range ids {
			it := operand{id: id}
			none, err := missing(t.row("SELECT job, scope, state FROM item WHERE id = ?", []any{id}, &it.job, &it.scope, &it.state))
			if err != nil {
				return err
			}
			refusal := "no item has this id"
			if !none {
				if refusal, err = f(t, it); err != nil {
					return err
				}
				fault.Here(doing, "moved")
			}
			if refusal != "" {
				out.Refused = append(out.Refused, store.Refusal{ID: id, Reason: refusal})
				continue
			}
			out.Moved++
			from[operand{job: it.job, state: it.state}]++
		}
		if out.From, err = t.named(from); err != nil {
			return err
		}
		if end == rehearsed {
			return errRehearsed
		}
		return nil
	})
	if errors.Is(err, errRehearsed) {
		err = nil
	}
	return out, err
}

// named gives sums by job and state the jobs' names.
func (t *tx) named(sums map[operand]int) (from []store.JobState, err error) {
	for of, n := range sums {
		one := store.JobState{State: of.state, Items: n}
		if err := t.row("SELECT name FROM job WHERE id = ?", []any{of.job}, &one.Job); err != nil {
			return nil, err
		}
		from = store.AddJobStates(from, []store.JobState{one})
	}
	return from, nil
}

// again makes an item ready now, with budgets anew. An item that was done
// begins a new generation: other systems must not take it for a repetition.
func (t *tx) again(id, job, scope int64, from jobs.State) error {
	generation := 0
	if from == jobs.Done {
		generation = 1
	}
	t.moved(job, scope, from, jobs.Ready)
	return t.exec(`UPDATE item SET state = 0, finished = NULL, failures = 0, crashes = 0, defers = 0, due = ?1,
		rank = ?1 - priority * ?2, generation = generation + ?3 WHERE id = ?4`,
		t.now, jobs.PriorityStep.Milliseconds(), generation, id)
}

// whyNot says in words why an item can't be moved from where it is.
func (t *tx) whyNot(it operand) (string, error) {
	if it.state != jobs.Dropped {
		return "it is " + it.state.String(), nil
	}
	var taken int64
	none, err := missing(t.row(`SELECT x.id FROM item d JOIN item x ON x.job = d.job AND x.scope = d.scope AND x.key = d.key
		WHERE d.id = ? AND x.state <> 6`, []any{it.id}, &taken))
	if err != nil {
		return "", err
	}
	if none {
		return "it was dropped: enqueue it again", nil
	}
	return fmt.Sprintf("it was dropped, and its key is item %d now", taken), nil
}
