package sqlite

import (
	"context"
	"database/sql"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// plansOf is how the engine would run a statement, one step a line.
func plansOf(t *testing.T, db *DB, statement string) []string {
	t.Helper()
	args := make([]any, parameters(statement))
	r, err := db.conn.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatalf("%v in %s", err, statement)
	}
	var steps []string
	noError(t, drain(r, func(scan func(...any) error) error {
		var id, parent, unused int
		var step string
		err := scan(&id, &parent, &unused, &step)
		steps = append(steps, step)
		return err
	}))
	return steps
}

var numbered = regexp.MustCompile(`\?(\d?)`)

// parameters counts what has to be bound: by number, or one a question mark.
func parameters(statement string) (n int) {
	for _, m := range numbered.FindAllStringSubmatch(statement, -1) {
		if m[1] == "" {
			n++
		} else {
			n = max(n, int(m[1][0]-'0'))
		}
	}
	return n
}

// recorder is a report's connection that keeps what was asked.
type recorder struct {
	connection
	asked map[string]bool
}

func (r recorder) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	r.asked[query] = true
	return r.connection.QueryContext(ctx, query, args...)
}

func (r recorder) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	r.asked[query] = true
	return r.connection.QueryRowContext(ctx, query, args...)
}

// everyStatement walks a database through everything that a worker, a
// producer and an operator do, and returns the statements of its writing
// connection and of its reports.
func everyStatement(t *testing.T, db *DB) (writes, reports []string) {
	t.Helper()
	ctx := context.Background()
	now := time.Now()
	db.now = func() time.Time { return now }
	asked := map[string]bool{}
	stats := func() {
		t.Helper()
		_, err := db.Stats(ctx)
		noError(t, err)
		if _, ok := db.reader.(recorder); !ok {
			db.reader = recorder{db.reader, asked} // the report's connection is open now
			_, err := db.Stats(ctx)
			noError(t, err)
		}
	}
	run, heir := register(t, db, "run"), register(t, db, "heir")
	for i, mode := range []store.OnDuplicate{store.Skip, store.Replace, store.Requeue, store.Fail} {
		e := store.Enqueue{Job: "pos", Scope: "s", OnDuplicate: mode, Items: []store.NewItem{{Key: []byte("a"), Payload: []byte{byte(i)}}, {Key: []byte{byte(i)}, Priority: i}, {Key: []byte("later"), Delay: time.Hour}}}
		for _, dry := range []bool{true, false} {
			e.DryRun = dry
			_, err := db.Enqueue(ctx, e)
			noError(t, err)
		}
	}
	for _, scope := range []*string{nil, new("s"), new("unknown")} {
		c, err := db.Claim(ctx, store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{spec("pos")}, Max: 2, Scope: scope, Lease: time.Minute,
			Limits: store.Limits{Lanes: map[string]int{jobs.Serial: 5}}})
		noError(t, err)
		started := start(t, db, run, c)
		_, err = db.Renew(ctx, run, time.Minute)
		noError(t, err)
		for i, s := range started {
			v := []jobs.Verdict{done, {To: jobs.Dead, Charge: jobs.ChargeFailure}}[i%2]
			_, err := db.Advance(ctx, store.Advance{Run: run, Settle: []store.Settlement{settlement(s, v), settlement(s, v)}, Pids: []store.Process{{Held: s.Held}}, Close: []int64{s.Claim}})
			noError(t, err)
		}
	}
	add(t, db, "x", "y", "z")
	now = now.Add(2 * time.Hour)
	c := claim(t, db, run, 1)
	_, err := db.Enqueue(ctx, store.Enqueue{Job: "other", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("later still"), Delay: time.Hour}}})
	noError(t, err)
	stats()
	_, err = db.Claim(ctx, store.ClaimRequest{Run: run, Lane: jobs.Serial, Limits: store.Limits{Lanes: map[string]int{jobs.Serial: 0}}, Lease: time.Minute})
	noError(t, err)
	_, err = db.Release(ctx, run, heldOf(c))
	noError(t, err)
	start(t, db, run, claim(t, db, run, 1))
	claim(t, db, run, 1)
	_, _, err = db.NoteLapse(ctx, run)
	noError(t, err)
	takeOver(t, db, 0, heir)
	takeOver(t, db, run, heir)
	orphans, err := db.Orphans(ctx, heir)
	noError(t, err)
	for _, o := range orphans {
		noError(t, db.SettleOrphan(ctx, heir, o, jobs.Verdict{To: jobs.Ready, Charge: jobs.ChargeCrash}))
	}
	noError(t, db.EndRun(ctx, heir, store.RunEnd{}))
	_, err = db.OtherRuns(ctx, 0)
	noError(t, err)
	_, err = db.Changed(ctx)
	noError(t, err)

	ids, err := db.Select(ctx, store.Selection{Limit: store.MaxRows})
	noError(t, err)
	for _, from := range []jobs.State{jobs.Dead, jobs.Done, jobs.Delayed} {
		_, err = db.Requeue(ctx, ids, []jobs.State{from})
		noError(t, err)
	}
	_, err = db.Select(ctx, store.Selection{States: []jobs.State{jobs.Dead}})
	noError(t, err)
	for range 2 {
		_, err = db.Drop(ctx, ids)
		noError(t, err)
	}
	_, err = db.Counts(ctx, []string{"pos"}, new("s"))
	noError(t, err)
	_, err = db.Identity(ctx)
	noError(t, err)
	_, err = db.JobNames(ctx)
	noError(t, err)
	for _, names := range [][]string{nil, {"pos"}} {
		_, err = db.ScopeNames(ctx, names, 5)
		noError(t, err)
	}
	_, err = db.Peek(ctx, "pos", nil, 5)
	noError(t, err)
	stats()
	flow(t, db, run, &now)
	stats()
	_, err = db.Runs(ctx, store.RunSelection{Since: time.Hour, Limit: 5})
	noError(t, err)
	for _, s := range []store.Selection{{}, {Jobs: []string{"pos"}, Scope: new("s"), Key: []byte("a")}, {States: []jobs.State{jobs.Dead}}, {Key: []byte("a")}, {States: []jobs.State{jobs.Claimed, jobs.Running}}, {IDs: ids}, {States: []jobs.State{jobs.Ready}}} {
		_, err := db.Items(ctx, s)
		noError(t, err)
		_, err = db.DeadLetters(ctx, s)
		noError(t, err)
		for _, err := range store.DeadPages(ctx, db, s, true) {
			noError(t, err)
		}
	}
	return slices.Sorted(maps.Keys(db.stmts)), slices.Sorted(maps.Keys(asked))
}

// flow walks through what holds work back: a pool, a rate, a breaker, a pause.
func flow(t *testing.T, db *DB, run int64, now *time.Time) {
	t.Helper()
	ctx := t.Context()
	s := spec("flow")
	s.Uses, s.Rate, s.Policy.Breaker.Failures = map[string]int{"db": 2}, jobs.Rate{Count: 1, Per: time.Second}, 1
	limits := store.Limits{Pools: map[string]int{"db": 2}, Patience: time.Minute}
	_, err := db.Enqueue(ctx, store.Enqueue{Job: "flow", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}}})
	noError(t, err)
	step := func(settle ...store.Settlement) store.Advanced {
		t.Helper()
		c, err := db.Claim(ctx, store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{s}, Max: 1, Limits: limits, Lease: time.Minute})
		noError(t, err)
		start := store.Start{Lane: jobs.Serial, Want: 1}
		for _, h := range heldOf(c) {
			start.Items = append(start.Items, store.StartItem{Held: h, Spec: s})
		}
		out, err := db.Advance(ctx, store.Advance{Run: run, Limits: limits, Settle: settle, Start: []store.Start{start}})
		noError(t, err)
		return out
	}
	end := func(started []store.Started, v jobs.Verdict) store.Settlement {
		t.Helper()
		if len(started) != 1 {
			t.Fatalf("%d started: the walk has lost its way", len(started))
		}
		r := settlement(started[0], v)
		r.Breaker = s.Policy.Breaker
		return r
	}
	failed := jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassRetry, Charge: jobs.ChargeFailure, Delay: time.Hour}
	a := step().Started
	step() // no room
	limits.Patience = time.Second
	if got := step(end(a, failed)); len(got.Tripped) != 1 {
		t.Fatalf("%+v: the walk has lost its way", got)
	}
	*now = now.Add(-time.Hour)
	if got := step(end(step().Started, done)); len(got.Mended) != 1 {
		t.Fatalf("%+v: the walk has lost its way", got)
	}
	target := []store.Target{{Job: "flow"}, {Lane: jobs.Serial}, {}}
	noError(t, db.Pause(ctx, target, "", ""))
	_, err = db.InHand(ctx, target[0])
	noError(t, err)
	_, err = db.LaneNames(ctx)
	noError(t, err)
	_, err = db.Resume(ctx, target)
	noError(t, err)
}

// No statement of a worker, a producer or stats reads the items one by one,
// or sorts them. So what is done, dead or far in the future costs nothing.
func TestPlans_NothingIsReadWhole(t *testing.T) {
	db := openFresh(t)
	writes, reports := everyStatement(t, db)
	if len(writes) < 40 || len(reports) < 10 {
		t.Fatalf("%d and %d statements: the walk has lost its way", len(writes), len(reports))
	}
	for _, s := range slices.Concat(writes, reports) {
		if strings.HasPrefix(s, "BEGIN") || s == "COMMIT" || strings.HasPrefix(s, "PRAGMA") {
			continue
		}
		if strings.HasPrefix(s, "INSERT INTO job") || strings.HasPrefix(s, "INSERT INTO scope") {
			continue // shows a walk of the items that point to it, which is skipped: a new name has none
		}
		// Lists and doctor read what they show: they may walk the table.
		list := strings.Contains(s, "FROM item i JOIN job j") || strings.HasPrefix(s, "SELECT i.id FROM item i WHERE")
		for _, step := range plansOf(t, db, s) {
			switch {
			case list:
			case wholeTable.MatchString(step):
				t.Errorf("%q\nin %s", step, s)
			case strings.Contains(step, "AUTOMATIC"):
				t.Errorf("an index is built for one statement: %q\nin %s", step, s)
			case strings.Contains(step, "USE TEMP B-TREE") && strings.Contains(s, "item_"):
				switch {
				case strings.Contains(s, "ORDER BY j.served, j.id"): // sorts jobs, not items
				case strings.HasSuffix(s, "ORDER BY i.rank, i.id LIMIT ?) ORDER BY failures, rank, id LIMIT ?"): // no more than MaxRows
				default:
					t.Errorf("%q\nin %s", step, s)
				}
			}
		}
	}
}

// A partial index of what is in hand, ready or delayed may be walked where
// that is bounded; these tables grow without bound and may not.
var wholeTable = regexp.MustCompile(`^SCAN (item|i|x|d|payload|p|attempt|a)\b($| USING (COVERING )?INDEX (item_key|item_dead|sqlite_))`)

// Each important search goes by the index that was made for it.
func TestPlans_Indexes(t *testing.T) {
	db := openFresh(t)
	writes, reports := everyStatement(t, db)
	for _, c := range []struct{ name, part, want string }{
		{"newest scopes of a job", "ORDER BY t.scope DESC", "SEARCH t USING PRIMARY KEY (job=?)"},
		{"claim", "AND (i.rank, i.id) > (?, ?)", "SEARCH i USING INDEX item_ready (job=? AND rank>?)"},
		{"jobs that have something ready", "ORDER BY j.served", "SEARCH item USING COVERING INDEX item_ready (job>?)"},
		{"promotion", "WHERE state = 1 AND job = ? AND due <= ? ORDER BY due LIMIT ?", "SEARCH item USING COVERING INDEX item_delayed (job=? AND due<?)"},
		{"jobs that have something due", "SELECT job FROM r WHERE", "SEARCH item USING COVERING INDEX item_delayed (job>?)"},
		{"next due", "SELECT min((SELECT due", "SEARCH item USING COVERING INDEX item_delayed (job=?)"},
		{"release of a dead run's items", "WHERE c.run = ? AND i.state = 2", "SEARCH i USING INDEX item_held (claim=?)"},
		{"started items of a dead run", "WHERE c.run = ? AND i.state = 3", "SEARCH i USING INDEX item_held (claim=?)"},
		{"closing a claim", "DELETE FROM claim WHERE id = ?", "SEARCH item USING COVERING INDEX item_held (claim=?)"},
		{"other runs", "FROM run r WHERE r.id <>", "SEARCH i USING COVERING INDEX item_held (claim=?)"},
		{"renewal", "UPDATE claim SET until", "INDEX claim_run (run=?)"},
		{"the item that bears a key", "AND i.key = ? AND i.state <> 6", "SEARCH i USING INDEX item_key (job=? AND scope=? AND key=?)"},
		{"key in a list", "i.key = ? AND i.state <> 6 ORDER BY", "USING INDEX item_key"},
		{"key in any scope", "i.scope IN (SELECT scope FROM tally) ORDER BY", "USING INDEX item_key (job=? AND scope=? AND key=?)"},
		{"list of what is held", "AND i.claim IS NOT NULL ORDER BY +i.id", "INDEX item_held"},
		{"dead letters", "WHERE (i.state = 5) ORDER BY i.finished", "SCAN i USING INDEX item_dead"},
		{"a page of dead letters", "WHERE (i.state = 5) AND i.finished <= ? AND (i.finished, i.id) > (?, ?)", "SEARCH i USING INDEX item_dead (finished>? AND finished<?)"},
		{"the newest dead", "SELECT max(finished)", "SEARCH item USING COVERING INDEX item_dead"},
		{"ids of the dead", "SELECT i.id FROM item i WHERE (i.state = 5) ORDER BY", "INDEX item_dead"},
		{"oldest without a priority", "AND priority = 0 AND rank <", "SEARCH item USING COVERING INDEX item_ready (job=? AND rank<?)"},
		{"oldest with a priority", "AND priority <> 0 AND job = ?", "SEARCH item USING INDEX item_apart (job=?)"},
		{"overdue", "SELECT count(*), min(due)", "USING COVERING INDEX item_delayed"},
		{"try of a half-open breaker", "ORDER BY failures, rank, id", "SEARCH i USING INDEX item_ready (job=? AND rank>?)"},
		{"taking back what is paused", "WHERE i.claim IS NOT NULL AND i.state = 2 AND (?1 = '' OR", "USING INDEX item_held"},
		{"what a run's death left", "FROM attempt INDEXED BY", "SEARCH attempt USING COVERING INDEX attempt_crash (run=?)"},
		{"first that would start", "p.item IS NOT NULL, p.body\n\t\t\tFROM item i INDEXED BY item_ready", "SEARCH i USING INDEX item_ready (job=?)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := false
			for _, s := range slices.Concat(writes, reports) {
				if !strings.Contains(s, c.part) {
					continue
				}
				found = true
				steps := plansOf(t, db, s)
				if !slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, c.want) }) {
					t.Errorf("want %q in\n%s\nof %s", c.want, strings.Join(steps, "\n"), s)
				}
			}
			if !found {
				t.Errorf("no statement has %q", c.part)
			}
		})
	}
}

// A heartbeat writes the claim and nothing else, however much is held.
func TestPlans_RenewTouchesTheClaimOnly(t *testing.T) {
	db := openFresh(t)
	run := register(t, db, "run")
	add(t, db, "a", "b", "c")
	claim(t, db, run, 3)
	beat := openAt(t, db.Path())
	_, err := beat.Renew(context.Background(), run, time.Minute)
	noError(t, err)
	for s := range beat.stmts {
		if s != "BEGIN IMMEDIATE" && s != "COMMIT" && !strings.HasPrefix(s, "UPDATE claim SET until") {
			t.Errorf("a renewal runs %s", s)
		}
	}
	if len(beat.stmts) != 3 {
		t.Errorf("a renewal is %d statements, want one in a transaction", len(beat.stmts))
	}
}

// A page of a million dead items costs its own rows: they come in the index's
// order, and reading starts where the last page ended.
func TestPlans_DeadPagesAreNotSorted(t *testing.T) {
	db := openFresh(t)
	_, reports := everyStatement(t, db)
	found := false
	for _, s := range reports {
		if strings.Contains(s, "WHERE (i.state = 5) AND i.finished <= ?") {
			found = true
			if steps := plansOf(t, db, s); slices.ContainsFunc(steps, func(step string) bool { return strings.Contains(step, "TEMP B-TREE") }) {
				t.Errorf("%s\nof %s", strings.Join(steps, "\n"), s)
			}
		}
	}
	if !found {
		t.Error("no statement reads a page")
	}
}
