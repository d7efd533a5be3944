package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// portion is how many rows one INSERT carries. From 20 on the cost of a
// statement no longer shows; 50 keeps the re-look after a duplicate short.
const portion = 50

// insertion is the statement that adds n items. The key's uniqueness decides
// who was first, not a look beforehand: two producers may race.
func insertion(n int) string {
	if n == portion {
		return insertPortion
	}
	return insertHead + strings.Repeat(insertRow+",", n-1) + insertRow + insertTail
}

const (
	insertHead = `INSERT INTO item (id, job, scope, key, state, priority, rank, due, created) VALUES `
	insertRow  = `(?,?,?,?,?,?,?,?,?)`
	insertTail = ` ON CONFLICT (job, scope, key) WHERE state <> 6 DO NOTHING`
)

var insertPortion = insertHead + strings.Repeat(insertRow+",", portion-1) + insertRow + insertTail

// producer is the state of one Enqueue inside its transaction.
type producer struct {
	*tx
	e         store.Enqueue
	job       int64
	scope     int64 // of items that name none
	next      int64 // the id that the next item gets
	low, high *int  // priorities seen; nil: none
	out       []store.Outcome
	args      []any
}

func (db *DB) Enqueue(ctx context.Context, e store.Enqueue) (store.Enqueued, error) {
	if len(e.Items) > store.MaxRows {
		return store.Enqueued{}, fmt.Errorf("enqueue of %d items at once: at most %d", len(e.Items), store.MaxRows)
	}
	for i := range e.Items {
		switch n := &e.Items[i]; {
		case len(n.Key) == 0:
			return store.Enqueued{}, fmt.Errorf("enqueue: item %d has no key", i)
		case n.Priority > jobs.MaxPriority || n.Priority < -jobs.MaxPriority:
			return store.Enqueued{}, fmt.Errorf("enqueue: item %d has priority %d: want %d to %d", i, n.Priority, -jobs.MaxPriority, jobs.MaxPriority)
		}
	}
	if e.DryRun {
		return db.rehearse(ctx, e)
	}
	var out []store.Outcome
	err := db.write(ctx, "enqueue", synced, func(t *tx) (err error) {
		p := &producer{tx: t, e: e, out: make([]store.Outcome, 0, len(e.Items))}
		if p.job, err = t.jobID(e.Job); err != nil {
			return err
		}
		if slices.ContainsFunc(e.Items, func(n store.NewItem) bool { return n.Scope == nil }) {
			if p.scope, err = t.scopeID(e.Scope); err != nil {
				return err
			}
		}
		if err := t.row("SELECT last_item + 1 FROM book", nil, &p.next); err != nil {
			return err
		}
		for items := range slices.Chunk(e.Items, portion) {
			goOn, err := p.add(items)
			if err != nil {
				return err
			}
			if !goOn {
				break
			}
			fault.Here("enqueue", "part")
		}
		out = p.out
		return p.close()
	})
	return store.Enqueued{Outcomes: out}, err
}

func (p *producer) close() error {
	if p.low != nil {
		err := p.exec(`UPDATE job SET low = min(coalesce(low, ?1), ?1), high = max(coalesce(high, ?2), ?2)
			WHERE id = ?3 AND (low IS NULL OR low > ?1 OR high < ?2)`, *p.low, *p.high, p.job)
		if err != nil {
			return err
		}
	}
	return p.exec("UPDATE book SET last_item = max(last_item, ? - 1)", p.next)
}

// add inserts one portion and looks at those that were there already. It
// returns false when the list is to stop here.
func (p *producer) add(items []store.NewItem) (goOn bool, err error) {
	if p.e.OnDuplicate == store.Fail {
		// Nothing after the first duplicate may go in: one row at a time.
		return p.addSingly(items)
	}
	first := p.next
	p.args = p.args[:0]
	for i := range items {
		if p.args, err = p.appendRow(p.args, &items[i], first+int64(i)); err != nil {
			return false, err
		}
	}
	inserted, err := p.change(insertion(len(items)), p.args...)
	if err != nil {
		return false, err
	}
	p.next += int64(len(items))
	there := map[int64]bool{}
	if inserted < int64(len(items)) {
		err := p.rows("SELECT id FROM item WHERE id BETWEEN ? AND ?", []any{first, p.next - 1}, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			there[id] = true
			return err
		})
		if err != nil {
			return false, err
		}
	}
	for i := range items {
		id := first + int64(i)
		if inserted == int64(len(items)) || there[id] {
			if err := p.accept(&items[i], id); err != nil {
				return false, err
			}
			continue
		}
		o, err := p.meet(&items[i])
		if err != nil {
			return false, err
		}
		p.out = append(p.out, o)
	}
	return true, nil
}

func (p *producer) addSingly(items []store.NewItem) (goOn bool, err error) {
	for i := range items {
		id := p.next
		row, err := p.appendRow(p.args[:0], &items[i], id)
		if err != nil {
			return false, err
		}
		n, err := p.change(insertion(1), row...)
		if err != nil {
			return false, err
		}
		if n == 0 {
			p.out = append(p.out, store.Stopped)
			return false, nil
		}
		p.next++
		if err := p.accept(&items[i], id); err != nil {
			return false, err
		}
	}
	return true, nil
}

func (p *producer) appendRow(args []any, n *store.NewItem, id int64) ([]any, error) {
	scope, err := p.scopeOf(n)
	due := p.due(n)
	return append(args, id, p.job, scope, n.Key, int64(p.stateAt(due)), int64(n.Priority), rank(due, n.Priority), due, p.now), err
}

// scopeOf is the id of the scope into which n goes.
func (p *producer) scopeOf(n *store.NewItem) (int64, error) {
	if n.Scope == nil {
		return p.scope, nil
	}
	return p.scopeID(*n.Scope)
}

func (p *producer) due(n *store.NewItem) int64 {
	if !n.At.IsZero() {
		return n.At.UnixMilli()
	}
	return p.now + n.Delay.Milliseconds()
}

func (p *producer) stateAt(due int64) jobs.State {
	if due > p.now {
		return jobs.Delayed
	}
	return jobs.Ready
}

// rank is the one static order within a job.
func rank(due int64, priority int) int64 {
	return due - int64(priority)*jobs.PriorityStep.Milliseconds()
}

// spread notes a priority that an item has from now on.
func (p *producer) spread(priority int) {
	if p.low == nil {
		p.low, p.high = new(priority), new(priority)
	}
	*p.low, *p.high = min(*p.low, priority), max(*p.high, priority)
}

// accept books an item that has been inserted.
func (p *producer) accept(n *store.NewItem, id int64) error {
	scope, err := p.scopeOf(n)
	if err != nil {
		return err
	}
	p.spread(n.Priority)
	p.added(p.job, scope, p.stateAt(p.due(n)))
	p.out = append(p.out, store.Added)
	if n.Payload == nil {
		return nil
	}
	return p.exec("INSERT INTO payload (item, body) VALUES (?, ?)", id, n.Payload)
}

// existing is the item that already bears a key.
type existing struct {
	id      int64
	scope   int64
	state   jobs.State
	paid    bool // it has a payload, which may be empty; the driver reads that as nil
	payload []byte
}

func (x *existing) dest() []any { return []any{&x.id, &x.state, &x.paid, &x.payload} }

// same says whether n would bring the payload that is there.
func (x *existing) same(n *store.NewItem) bool {
	return x.paid == (n.Payload != nil) && bytes.Equal(x.payload, n.Payload)
}

func (p *producer) meet(n *store.NewItem) (store.Outcome, error) {
	scope, err := p.scopeOf(n)
	if err != nil {
		return 0, err
	}
	x := existing{scope: scope}
	err = p.row(`SELECT i.id, i.state, p.item IS NOT NULL, p.body FROM item i LEFT JOIN payload p ON p.item = i.id
		WHERE i.job = ? AND i.scope = ? AND i.key = ? AND i.state <> 6`, []any{p.job, scope, n.Key}, x.dest()...)
	if err != nil {
		return 0, err
	}
	o := judge(x, n, p.e.OnDuplicate)
	switch o {
	case store.Duplicate, store.DuplicateDone:
		p.event(p.job, "").duplicates++
	case store.Conflict:
		p.event(p.job, "").conflicts++
	case store.Replaced:
		return o, p.replace(x, n)
	case store.Requeued:
		return o, p.again(x.id, p.job, x.scope, x.state)
	}
	return o, nil
}

// judge is the table of --on-duplicate. A payload is never changed silently:
// where the new one differs and would not be taken, the answer is Conflict.
func judge(x existing, n *store.NewItem, mode store.OnDuplicate) store.Outcome {
	same := x.same(n)
	switch {
	case mode == store.Fail:
		return store.Stopped
	case mode == store.Replace && (x.state == jobs.Ready || x.state == jobs.Delayed || x.state == jobs.Dead):
		return store.Replaced
	case mode == store.Replace && x.state == jobs.Done && !same:
		return store.Conflict
	case mode == store.Requeue && (x.state == jobs.Done || x.state == jobs.Dead):
		if !same {
			return store.Conflict
		}
		return store.Requeued
	case x.state == jobs.Dead:
		return store.InDLQ
	case !same:
		return store.Conflict
	case x.state == jobs.Done:
		return store.DuplicateDone
	}
	return store.Duplicate
}

// replace gives an unstarted or dead item the new payload, priority and due
// time. The idempotency key changes only with the payload: the same work must
// keep it, because an earlier attempt may have had effects under it.
func (p *producer) replace(x existing, n *store.NewItem) error {
	due := p.due(n)
	to := p.stateAt(due)
	generation := 0
	if !x.same(n) {
		generation = 1
	}
	fresh := x.state == jobs.Dead // a dead item starts anew, with fresh budgets
	err := p.exec(`UPDATE item SET state = ?, priority = ?, rank = ?, due = ?, finished = NULL, generation = generation + ?,
		failures = iif(?, 0, failures), crashes = iif(?, 0, crashes), defers = iif(?, 0, defers) WHERE id = ?`,
		int64(to), n.Priority, rank(due, n.Priority), due, generation, fresh, fresh, fresh, x.id)
	if err != nil {
		return err
	}
	p.spread(n.Priority)
	p.moved(p.job, x.scope, x.state, to)
	if err := p.exec("DELETE FROM payload WHERE item = ?", x.id); err != nil || n.Payload == nil {
		return err
	}
	return p.exec("INSERT INTO payload (item, body) VALUES (?, ?)", x.id, n.Payload)
}

// rehearse says what Enqueue would do and changes nothing.
func (db *DB) rehearse(ctx context.Context, e store.Enqueue) (store.Enqueued, error) {
	out := make([]store.Outcome, 0, len(e.Items))
	err := db.read(ctx, "enqueue --dry-run", func(s *snapshot) error {
		for i := range e.Items {
			n := &e.Items[i]
			scope := e.Scope
			if n.Scope != nil {
				scope = *n.Scope
			}
			var x existing
			none, err := missing(s.row(`SELECT i.id, i.state, p.item IS NOT NULL, p.body FROM item i LEFT JOIN payload p ON p.item = i.id
				WHERE i.job = (SELECT id FROM job WHERE name = ?) AND i.scope = (SELECT id FROM scope WHERE name = ?)
				AND i.key = ? AND i.state <> 6`, []any{e.Job, scope, n.Key}, x.dest()...))
			if err != nil {
				return err
			}
			o := store.Added
			if !none {
				o = judge(x, n, e.OnDuplicate)
			}
			out = append(out, o)
			if o == store.Stopped {
				return nil
			}
		}
		return nil
	})
	return store.Enqueued{Outcomes: out}, err
}
