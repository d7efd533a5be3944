package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Story tells all of one item, from one snapshot.
func (db *DB) Story(ctx context.Context, n store.Naming) (told store.Told, err error) {
	err = db.read(ctx, "looking at an item", func(s *snapshot) error {
		told = store.Told{}
		bearers, err := s.called(n)
		switch {
		case err != nil:
			return err
		case len(bearers) == 0 && n.ID != 0:
			told.KeyOf, err = s.keyOf(n.Key)
			return err
		case len(bearers) == 0:
			return s.row("SELECT "+countColumns+" FROM tally WHERE job = (SELECT id FROM job WHERE name = ?)", []any{n.Job}, countDest(&told.Job)...)
		case len(bearers) > 1:
			for _, b := range bearers {
				row, err := s.item(b.id)
				if err != nil {
					return err
				}
				told.Bearers = append(told.Bearers, row)
			}
			return nil
		}
		told.Story = &store.Story{Path: db.path, Now: time.UnixMilli(s.now).UTC()}
		return (&telling{s, told.Story, bearers[0]}).all()
	})
	return told, err
}

// bearer is an item that is called as a person called it.
type bearer struct {
	id, job, scope int64
	claim          sql.NullInt64
}

// called finds the items that bear a name, the newest first. A key is looked
// up in each scope that the job has: the index leads to it only with the scope,
// and the books know them all.
func (s *snapshot) called(n store.Naming) (bearers []bearer, err error) {
	query, args := "SELECT i.id, i.job, i.scope, i.claim FROM item i WHERE i.id = ?", []any{n.ID}
	if n.ID == 0 {
		query = `SELECT i.id, i.job, i.scope, i.claim FROM tally t
			CROSS JOIN item i INDEXED BY item_key ON i.job = t.job AND i.scope = t.scope AND i.key = ?2 AND i.state <> 6
			WHERE t.job = (SELECT id FROM job WHERE name = ?1) AND (?3 IS NULL OR t.scope = (SELECT id FROM scope WHERE name = ?3))
			ORDER BY i.id DESC`
		var scope any
		if n.Scope != nil {
			scope = *n.Scope
		}
		args = []any{n.Job, n.Key, scope}
	}
	err = s.rows(query, args, func(scan func(...any) error) error {
		var b bearer
		err := scan(&b.id, &b.job, &b.scope, &b.claim)
		bearers = append(bearers, b)
		return err
	})
	return bearers, err
}

// keyOf names jobs that have an item with a key, in any scope: the books lead
// to each by the index.
func (s *snapshot) keyOf(key []byte) (names []string, err error) {
	if len(key) == 0 {
		return nil, nil
	}
	err = s.rows(`SELECT j.name FROM job j WHERE EXISTS (SELECT 1 FROM tally t
		CROSS JOIN item i INDEXED BY item_key ON i.job = t.job AND i.scope = t.scope AND i.key = ?1 AND i.state <> 6 WHERE t.job = j.id)
		ORDER BY j.name LIMIT ?2`, []any{key, store.KeyOfMost}, func(scan func(...any) error) error {
		var name string
		err := scan(&name)
		names = append(names, name)
		return err
	})
	return names, err
}

func (s *snapshot) item(id int64) (row store.ItemRow, err error) {
	err = s.rows("SELECT "+itemColumns+" FROM "+itemTables+" WHERE i.id = ?", []any{id}, func(scan func(...any) error) error {
		row, err = scanItem(scan)
		return err
	})
	return row, err
}

// telling puts one story together.
type telling struct {
	*snapshot
	out *store.Story
	bearer
}

// all reads every part.
func (t *telling) all() error {
	for _, part := range []func() error{
		t.itself, t.attempts, t.around, t.grip /* has its slot from around */, t.spec, t.line, t.successor, t.flow,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (t *telling) itself() (err error) {
	if t.out.Item, err = t.item(t.id); err != nil {
		return err
	}
	var identity string
	if err := t.row("SELECT identity FROM book", nil, &identity); err != nil {
		return err
	}
	t.out.IdempotencyKey = t.out.Item.IdempotencyKey(identity)
	// The length stands in the row's head: the payload itself is not read.
	none, err := missing(t.row("SELECT length(body) FROM payload WHERE item = ?", []any{t.id}, &t.out.PayloadBytes))
	if none {
		t.out.PayloadBytes = -1
	}
	return err
}

// Payload reads what an item's command reads. An empty one is not none.
func (db *DB) Payload(ctx context.Context, item int64) (payload []byte, err error) {
	err = db.read(ctx, "reading a payload", func(s *snapshot) error {
		none, err := missing(s.row("SELECT body FROM payload WHERE item = ?", []any{item}, &payload))
		if !none && payload == nil {
			payload = []byte{}
		}
		return err
	})
	return payload, err
}

func (t *telling) attempts() error {
	return t.rows(`SELECT number, run, claim, class, exit_code, signal, http, reason, started, took, head, tail, omitted FROM attempt
		WHERE item = ? ORDER BY number`, []any{t.id}, func(scan func(...any) error) error {
		var a attemptColumns
		err := scan(a.dest()...)
		if row := a.row(); row != nil {
			t.out.Attempts = append(t.out.Attempts, *row)
		}
		return err
	})
}

// grip finds who holds it, and for one that runs, its slot.
func (t *telling) grip() error {
	if !t.claim.Valid {
		return nil
	}
	g := &store.Grip{Claim: t.claim.Int64}
	t.out.Grip = g
	var run, since, until int64
	none, err := missing(t.row("SELECT run, created, until FROM claim WHERE id = ?", []any{g.Claim}, &run, &since, &until))
	if err != nil {
		return err
	}
	if !none {
		g.Since, g.Until = time.UnixMilli(since).UTC(), time.UnixMilli(until).UTC()
	}
	for i := range t.out.Slots {
		if t.out.Slots[i].Item == t.id {
			g.Slot = &t.out.Slots[i]
		}
	}
	if g.Slot != nil {
		if none {
			run = g.Slot.Run
		}
		if g.Slot.Orphan {
			if g.Orphan, err = t.orphan(); err != nil {
				return err
			}
		}
	}
	g.Run, err = t.run(run)
	return err
}

// run is one run of the book; its ID is 0 where there is none.
func (t *telling) run(id int64) (store.RunInfo, error) {
	var row runRow
	none, err := missing(t.row("SELECT "+runColumns(t.schema, t.file)+" FROM run r WHERE id = ?", []any{id}, row.dest()...))
	if err != nil || none {
		return store.RunInfo{}, err
	}
	return row.info()
}

// orphan is what a rescuer knows of it; see Orphans.
func (t *telling) orphan() (*store.Orphan, error) {
	var found *store.Orphan
	err := t.rows(orphansQuery(t.schema, t.file)+" AND s.item = ? ORDER BY s.id LIMIT 1", []any{t.id}, func(scan func(...any) error) error {
		o, err := scanOrphan(scan, t.now)
		found = &o
		return err
	})
	return found, err
}

// spec is how its job is worked, by the run that started or holds it, or that
// has made its last attempt.
func (t *telling) spec() error {
	var run int64
	switch g, n := t.out.Grip, len(t.out.Attempts); {
	case g != nil && g.Orphan != nil:
		run = g.Orphan.Owner.ID
	case g != nil:
		run = g.Run.ID
	case t.out.Item.State == jobs.Dead && n > 0:
		run = t.out.Attempts[n-1].Run
	}
	var text string
	err := t.row(`SELECT coalesce(p.spec, j.spec), j.lane, coalesce(p.run, 0) FROM job j LEFT JOIN policy p ON p.run = ?1 AND p.job = j.id
		WHERE j.id = ?2`, []any{run, t.job}, &text, &t.out.Lane, &t.out.SpecRun)
	if err != nil || text == "" {
		return err
	}
	var spec jobs.Spec
	// What can't be read (a newer batchq may have written it) must not keep all
	// the rest from who asks.
	if json.Unmarshal([]byte(text), &spec) == nil {
		t.out.Spec = &spec
	}
	return nil
}

// lineCounted bounds how far the items before one are counted: a person does
// not need to know it better, and it stays a matter of milliseconds.
const lineCounted = 100_000

// line counts what is ready and starts before it. What is delayed stands
// behind all that is ready until a claim has moved it.
func (t *telling) line() error {
	switch t.out.Item.State {
	case jobs.Ready, jobs.Delayed:
	default:
		return nil
	}
	l := &store.Line{}
	t.out.Line = l
	err := t.row(`SELECT count(*) FROM (SELECT 1 FROM item INDEXED BY item_ready
		WHERE state = 0 AND job = ?1 AND (rank, id) < ((SELECT rank FROM item WHERE id = ?2), ?2) LIMIT ?3)`, []any{t.job, t.id, lineCounted + 1}, &l.Before)
	if l.More = l.Before > lineCounted; l.More {
		l.Before = lineCounted
	}
	return err
}

// successor finds who bears the key of a dropped item now.
func (t *telling) successor() error {
	if t.out.Item.State != jobs.Dropped {
		return nil
	}
	_, err := missing(t.row("SELECT id FROM item INDEXED BY item_key WHERE job = ? AND scope = ? AND key = ? AND state <> 6",
		[]any{t.job, t.scope, t.out.Item.Key}, &t.out.Successor))
	return err
}

// around reads what is in flight, and who is at work.
func (t *telling) around() error {
	var all store.Stats
	if err := t.slots(&all); err != nil {
		return err
	}
	if err := t.runs(&all); err != nil {
		return err
	}
	t.out.Slots, t.out.Runs = all.Slots, all.Runs
	err := t.rows("SELECT p.run FROM run r INDEXED BY run_live CROSS JOIN policy p ON p.run = r.id AND p.job = ? WHERE r.ended IS NULL ORDER BY r.id",
		[]any{t.job}, func(scan func(...any) error) error {
			var run int64
			err := scan(&run)
			t.out.Served = append(t.out.Served, run)
			return err
		})
	if err != nil {
		return err
	}
	if t.out.Item.Crashes == 0 {
		return nil
	}
	return t.rows("SELECT s.item FROM slot s JOIN item i ON i.id = s.item WHERE i.crashes > 0 AND s.orphan IS NULL AND i.id <> ? ORDER BY s.started, s.id",
		[]any{t.id}, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			for _, slot := range t.out.Slots {
				if slot.Item == id {
					t.out.Crashed = append(t.out.Crashed, slot)
				}
			}
			return err
		})
}

// flow reads what holds its job back.
func (t *telling) flow() error {
	if t.schema < 2 {
		return nil
	}
	if err := t.rows(pausesQuery, nil, scanPauses(&t.out.Pauses)); err != nil {
		return err
	}
	breakers, err := t.breakers()
	if err != nil {
		return err
	}
	t.out.Breaker = breakers[t.job]
	throttles, err := t.throttles()
	if err != nil {
		return err
	}
	t.out.Throttle = throttles[t.job]
	var next int64
	none, err := missing(t.row("SELECT next FROM pace WHERE job = ?", []any{t.job}, &next))
	if err != nil {
		return err
	}
	if !none {
		t.out.NextStart = time.UnixMicro(next).UTC()
	}
	// Only one job at a time has pools kept for it (see gate.loadSqueezes).
	return t.rows(`SELECT j.name, q.uses, q.kept + q.span FROM squeeze q JOIN job j ON j.id = q.job
		WHERE q.job <> ?2 AND q.until > ?1 AND q.since <= ?1 AND q.kept > 0 AND q.kept <= ?1 AND q.kept + q.span > ?1
		ORDER BY q.since DESC, q.job DESC`, []any{t.now, t.job}, func(scan func(...any) error) error {
		var uses string
		var until int64
		k := store.Kept{}
		if err := scan(&k.Job, &uses, &until); err != nil {
			return err
		}
		k.Until = time.UnixMilli(until).UTC()
		k.Uses, err = decodeUses(uses)
		t.out.Kept = &k // the last is the one that has waited longest
		return err
	})
}
