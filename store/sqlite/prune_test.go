package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// between does something between the end of a report's snapshot and what comes
// after it, once.
type between struct {
	connection
	do func()
}

func (b *between) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	r, err := b.connection.ExecContext(ctx, query, args...)
	if query == "ROLLBACK" && b.do != nil {
		do := b.do
		b.do = nil
		do()
	}
	return r, err
}

// What became of an item between the look and the deletion counts: one that was
// requeued stays, also when it is done again meanwhile; one that a person has
// dropped instead is no longer what was asked for.
func TestPrune_BetweenLookAndDeletion(t *testing.T) {
	for _, sweep := range []bool{false, true} {
		t.Run(fmt.Sprintf("sweep=%v", sweep), func(t *testing.T) {
			ctx := context.Background()
			now := time.Now()
			o := Options{Create: true, Now: func() time.Time { return now }}
			db := openWith(t, t.TempDir()+"/batchq.db", o)
			doneItems(t, db, "goes", "again", "done anew", "dropped")
			ids := map[string]int64{}
			items, err := db.Items(ctx, store.Selection{})
			noError(t, err)
			for _, it := range items {
				ids[string(it.Key)] = it.ID
			}
			now = now.Add(time.Hour)
			other := openWith(t, db.Path(), o)
			_, err = db.Stats(ctx) // opens the reader
			noError(t, err)
			db.reader = &between{db.reader, func() {
				requeue := func(keys ...string) {
					for _, k := range keys {
						m, err := other.Requeue(ctx, []int64{ids[k]}, []jobs.State{jobs.Done})
						noError(t, err)
						if m.Moved != 1 {
							t.Fatalf("requeue %s: %+v", k, m)
						}
					}
				}
				requeue("done anew")
				run := register(t, other, "meanwhile")
				settleAll(t, other, run, start(t, other, run, claim(t, other, run, 1)))
				requeue("again", "dropped")
				_, err := other.Drop(ctx, []int64{ids["dropped"]})
				noError(t, err)
			}}
			p := store.Prune{Keep: map[string]time.Duration{"pos": time.Hour}, States: []jobs.State{jobs.Done}}
			if sweep {
				// The sweep's first look is where it stands, not at items.
				inner := db.reader.(*between)
				do := inner.do
				inner.do = func() { inner.do = do }
			}
			var got store.Pruned
			if sweep {
				got, err = db.Sweep(ctx, p.Keep)
			} else {
				got, err = db.Prune(ctx, p)
			}
			noError(t, err)
			if got.Done != 1 || got.Dropped != 0 {
				t.Errorf("pruned %+v, want 1 done", got)
			}
			items, err = db.Items(ctx, store.Selection{})
			noError(t, err)
			var left []string
			for _, it := range items {
				left = append(left, string(it.Key)+"="+it.State.String())
			}
			if s := strings.Join(left, " "); s != "again=ready done anew=done dropped=dropped" {
				t.Errorf("left: %s", s)
			}
			sound(t, db)
		})
	}
}

// doneItems adds keys and has them done.
func doneItems(t *testing.T, db *DB, keys ...string) {
	t.Helper()
	add(t, db, keys...)
	run := register(t, db, "does "+keys[0])
	settleAll(t, db, run, start(t, db, run, claim(t, db, run, len(keys))))
}

func settleAll(t *testing.T, db *DB, run int64, started []store.Started) {
	t.Helper()
	a := store.Advance{Run: run}
	for _, s := range started {
		a.Settle = append(a.Settle, settlement(s, done))
		a.Close = append(a.Close, s.Claim)
	}
	out, err := db.Advance(context.Background(), a)
	noError(t, err)
	if len(out.Stale) > 0 {
		t.Fatalf("refused: %+v", out.Stale)
	}
}

// Nothing of an item is left: what hangs on it goes in the same transaction.
// One on which more hangs than a transaction may touch goes alone.
func TestPrune_WhatHangsOnIt(t *testing.T) {
	ctx := context.Background()
	db := openFresh(t)
	doneItems(t, db, "a", "long history", "b")
	conn := raw(t, db.Path())
	execute(t, conn, "INSERT INTO payload SELECT id, key FROM item",
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500)
		INSERT INTO attempt (item, number, run, claim, class, reason, started, took) SELECT 2, i, 1, 1, 'retry', 'x', 1, 1 FROM n`)
	p := store.Prune{Keep: map[string]time.Duration{"pos": 0}}
	var steps []int64
	for more := true; more; {
		got, err := db.Prune(ctx, p)
		noError(t, err)
		steps = append(steps, got.Done)
		p.After, more = got.Next, got.More
		if len(steps) > 5 {
			break
		}
	}
	if fmt.Sprint(steps) != "[1 1 1]" {
		t.Errorf("steps of %v items, want one each", steps)
	}
	for _, table := range []string{"item", "payload", "attempt"} {
		var n int
		noError(t, conn.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
		if n > 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
	sound(t, db)
}

// The look walks items by id and reaches what hangs on them by key, however
// many there are; a deletion looks nothing up in a table that grows.
func TestPrune_Plans(t *testing.T) {
	db := openFresh(t)
	doneItems(t, db, "a")
	ctx := context.Background()
	_, err := db.Stats(ctx)
	noError(t, err)
	asked := recorder{db.reader, map[string]bool{}}
	db.reader = asked
	_, err = db.Sweep(ctx, map[string]time.Duration{"pos": 0})
	noError(t, err)
	for q := range asked.asked {
		if !strings.Contains(q, "FROM item") {
			continue
		}
		for _, step := range plansOf(t, db, q) {
			if strings.Contains(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s in %s", step, q)
			}
		}
	}
	for q := range db.stmts {
		if !strings.HasPrefix(q, "DELETE FROM item") {
			continue
		}
		for _, step := range plansOf(t, db, q) {
			// What is in flight is little.
			if strings.Contains(step, "SCAN") && step != "SCAN slot" {
				t.Errorf("%s in %s", step, q)
			}
		}
	}
}

// A run's policies go with it.
func TestPruneRuns_Policies(t *testing.T) {
	db := openFresh(t)
	doneItems(t, db, "a")
	noError(t, db.EndRun(context.Background(), 1, store.RunEnd{}))
	conn := raw(t, db.Path())
	policies := func() (n int) {
		noError(t, conn.QueryRowContext(context.Background(), "SELECT count(*) FROM policy").Scan(&n))
		return n
	}
	if policies() == 0 {
		t.Fatal("no policy is on record")
	}
	n, err := db.PruneRuns(context.Background(), 0, false)
	noError(t, err)
	if n != 1 || policies() != 0 {
		t.Errorf("%d runs pruned, %d policies left", n, policies())
	}
	sound(t, db)
}
