package sqlite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// furnish makes a database with an item in each state but delayed and dropped:
// 1 done, 2 dead after a timeout, 3 running, 4 claimed, 5 ready, all of run 1.
func furnish(t *testing.T) *DB {
	t.Helper()
	db := openFresh(t)
	run := register(t, db, "run")
	e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip}
	for i := range 5 {
		e.Items = append(e.Items, store.NewItem{Key: fmt.Append(nil, i+1), Payload: []byte("p")})
	}
	_, err := db.Enqueue(context.Background(), e)
	noError(t, err)
	c := claim(t, db, run, 4)
	first := c
	first.Items = c.Items[:3]
	s := start(t, db, run, first)
	dead := settlement(s[1], jobs.Verdict{To: jobs.Dead, Class: jobs.ClassTimeout, Charge: jobs.ChargeFailure, Reason: "too long"})
	_, err = db.Advance(context.Background(), store.Advance{Run: run, Settle: []store.Settlement{settlement(s[0], done), dead}})
	noError(t, err)
	h := examine(t, db)
	if !h.Sound() || h.Items != 5 {
		t.Fatalf("at first: %+v", h)
	}
	return db
}

func examine(t *testing.T, db *DB) store.Health {
	t.Helper()
	h, err := db.Check(context.Background())
	noError(t, err)
	return h
}

func repair(t *testing.T, db *DB) string {
	t.Helper()
	mended, err := db.Repair(context.Background())
	noError(t, err)
	return strings.Join(mended, "\n")
}

// states are all items with what must never change by a repair.
func states(t *testing.T, db *DB) (all string) {
	t.Helper()
	rows, err := raw(t, db.Path()).QueryContext(context.Background(), "SELECT id, state, job, scope, key, coalesce(claim, 0), attempt, generation FROM item ORDER BY id")
	noError(t, err)
	noError(t, drain(rows, func(scan func(...any) error) error {
		var n [7]int64
		var key string
		err := scan(&n[0], &n[1], &n[2], &n[3], &key, &n[4], &n[5], &n[6])
		all += fmt.Sprintln(n, key)
		return err
	}))
	return all
}

// Each kind of fault is found, mended without touching an item, and gone then.
func TestRepair(t *testing.T) {
	for name, c := range map[string]struct{ statement, fault, mended string }{
		"Books":        {"UPDATE tally SET ready = ready + 1, enqueued = enqueued + 1", "the books say 2 ready, there are 1", "lists whose books were written anew: 1"},
		"NoBooks":      {"DELETE FROM tally", "the books say 0 done, there are 1", "lists whose books were written anew: 1"},
		"BooksMoved":   {"UPDATE tally SET ready = ready - 1, dead = dead + 1", "the books say 2 dead, there are 1", "lists whose books were written anew: 1"},
		"Unbalanced":   {"PRAGMA ignore_check_constraints = 1; UPDATE tally SET enqueued = enqueued + 7", "12 were enqueued and not pruned, there are 5", "lists whose books were written anew: 1"},
		"OwnItem":      {"DELETE FROM item WHERE id = 1", "the books say 1 done, there are 0", "rows of payload of items that are not there removed: 1\nlists"},
		"Attempt":      {"INSERT INTO attempt (item, number, run, claim, class, reason, started, took) VALUES (99, 1, 1, 1, 'retry', '', 0, 0)", "rows of attempt that point to no item: 1", "rows of attempt of items that are not there removed: 1"},
		"Payload":      {"INSERT INTO payload VALUES (99, x'00')", "rows of payload that point to no item: 1", "rows of payload of items that are not there removed: 1"},
		"SlotDone":     {"INSERT INTO slot (run, item, job, lane, attempt, started) VALUES (1, 1, 1, 'serial', 1, 0)", "1 slot is taken by an item that is not running", "slots of items that do not run removed: 1"},
		"SlotNoItem":   {"INSERT INTO slot (run, item, job, lane, attempt, started) VALUES (1, 99, 1, 'serial', 1, 0)", "rows of slot that point to no item: 1", "slots of items that do not run removed: 1"},
		"SlotNoJob":    {"INSERT INTO slot (run, item, job, lane, attempt, started) VALUES (1, 1, 99, 'serial', 1, 0)", "rows of slot that point to no job: 1", "slots of items that do not run removed: 1"},
		"SlotNoRun":    {"UPDATE slot SET run = 77", "rows of slot that point to no run: 1", "slots given to the run that holds their item: 1"},
		"SlotNoOrphan": {"UPDATE slot SET orphan = 77", "rows of slot that point to no run: 1", "records made for runs that have none any more: 1"},
		"Run":          {"DELETE FROM run", "rows of claim that point to no run: 1", "records made for runs that have none any more: 1"},
		"RunAndClaim":  {"DELETE FROM run; DELETE FROM claim", "rows of slot that point to no run: 1", "records made for runs that have none any more: 1"},
		"PolicyNoRun":  {"INSERT INTO policy VALUES (77, 1, '{}')", "rows of policy that point to no run: 1", "rows of policy of runs or jobs that are not there removed: 1"},
		"PolicyNoJob":  {"INSERT INTO policy VALUES (1, 77, '{}')", "rows of policy that point to no job: 1", "rows of policy of runs or jobs that are not there removed: 1"},
		"Breaker":      {"INSERT INTO breaker (job, failed, reason) VALUES (77, 1, ''); INSERT INTO streak VALUES (77, 5)", "rows of breaker that point to no job: 1", "rows of breaker of jobs that are not there removed: 1"},
		"Streak":       {"INSERT INTO streak VALUES (1, 5)", "rows of streak that point to no breaker: 1", "rows of streak of breakers that are not there removed: 1"},
		"Pace":         {"INSERT INTO pace VALUES (77, 5)", "rows of pace that point to no job: 1", "rows of pace of jobs that are not there removed: 1"},
		"Squeeze":      {"INSERT INTO squeeze (job, lane, uses, since, until) VALUES (77, '', '', 0, 0)", "rows of squeeze that point to no job: 1", "rows of squeeze of jobs that are not there removed: 1"},
		"Daily":        {"INSERT INTO daily (job, lane, day) VALUES (77, '', 0)", "rows of daily that point to no job: 1", "rows of daily of jobs that are not there removed: 1"},
		"Latency":      {"INSERT INTO latency VALUES (77, '', 0, 1, 1)", "rows of latency that point to no job: 1", "rows of latency of jobs that are not there removed: 1"},
		"TallyNoJob":   {"INSERT INTO tally VALUES (77, 1, 3, 0, 0, 0, 0, 0, 0, 0, 3)", "rows of tally that point to no job: 1", "rows of tally of jobs or scopes that are not there removed: 1"},
		"TallyNoScope": {"INSERT INTO tally VALUES (1, 77, 3, 0, 0, 0, 0, 0, 0, 0, 3)", "rows of tally that point to no scope: 1", "rows of tally of jobs or scopes that are not there removed: 1"},
		"Successes":    {"DELETE FROM latency; UPDATE daily SET done = 0", "0 successes are counted by day, and 1 are known", "jobs whose counters were raised to what is known: 1"},
		"Dead":         {"UPDATE daily SET dead = 0", "0 dead items are counted by day, and 1 are known", "jobs whose counters were raised to what is known: 1"},
		"Timeouts":     {"UPDATE daily SET timeouts = 0", "0 timeouts are counted by day, and 1 are known", "jobs whose counters were raised to what is known: 1"},
		"Crashes":      {"UPDATE attempt SET class = 'crash'", "0 crashes are counted by day, and 1 are known", "jobs whose counters were raised to what is known: 1"},
		"Days":         {"UPDATE latency SET n = 5", "1 day has more durations on record than successes", "days whose successes were counted from their durations: 1"},
		"NoDays":       {"DELETE FROM daily", "1 day has more durations on record than successes", "days whose successes were counted from their durations: 1\njobs whose counters were raised to what is known: 1"},
		"Negative":     {"UPDATE daily SET stale = -3", "1 counter by day is negative", "negative counters set to 0: 1"},
		"NoDuration":   {"INSERT INTO latency SELECT job, lane, day, 7, 0 FROM latency", "1 duration is counted less than once", "durations without a count removed: 1"},
		"LastItem":     {"UPDATE book SET last_item = 2", "the last item id given out is said to be 2, and there is item 5", "the last numbers given out corrected: 1"},
		"LastClaim":    {"UPDATE book SET last_claim = 2", "the last fencing token given out is said to be 2, and there is ", "the last numbers given out corrected: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			db := furnish(t)
			execute(t, raw(t, db.Path()), c.statement)
			if h := examine(t, db); h.Sound() || !strings.Contains(strings.Join(h.Faults, "\n"), c.fault) {
				t.Errorf("doctor says %q, want %q", h.Faults, c.fault)
			}
			before := states(t, db)
			if mended := repair(t, db); !strings.Contains(mended, c.mended) {
				t.Errorf("mended %q, want %q", mended, c.mended)
			}
			if h := examine(t, db); !h.Sound() {
				t.Errorf("and then: %q %q", h.Integrity, h.Faults)
			}
			if after := states(t, db); after != before {
				t.Errorf("items before\n%safter\n%s", before, after)
			}
			if again := repair(t, db); again != "" {
				t.Errorf("and once more: %q", again)
			}
		})
	}
}

// What a run was, or what lists were called, nobody can make up: it stays a
// fault, and what hangs on it stays as it is.
func TestRepair_LeavesWhatItCanNot(t *testing.T) {
	for name, c := range map[string]struct{ statement, fault string }{
		"Job":   {"DELETE FROM job", "rows of item that point to no job: 5"},
		"Scope": {"DELETE FROM scope", "rows of item that point to no scope: 5"},
		"Book":  {"DELETE FROM book", "the book is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			db := furnish(t)
			execute(t, raw(t, db.Path()), c.statement)
			before := states(t, db)
			if mended := repair(t, db); mended != "" {
				t.Errorf("mended %q", mended)
			}
			h := examine(t, db)
			if faults := strings.Join(h.Faults, "\n"); !strings.Contains(faults, c.fault) {
				t.Errorf("doctor says %q, want %q", faults, c.fault)
			}
			if after := states(t, db); after != before {
				t.Errorf("items before\n%safter\n%s", before, after)
			}
			var tally, daily int
			noError(t, raw(t, db.Path()).QueryRowContext(context.Background(), "SELECT (SELECT count(*) FROM tally), (SELECT count(*) FROM daily)").Scan(&tally, &daily))
			if tally != 1 || daily == 0 {
				t.Errorf("%d tally, %d daily", tally, daily)
			}
		})
	}
}

// A run whose record was lost is taken over like any other when it has one
// again: nothing is stuck for ever.
func TestRepair_LostRunIsTakenOver(t *testing.T) {
	for _, statement := range []string{"DELETE FROM run", "DELETE FROM run; DELETE FROM claim", "DELETE FROM run; DELETE FROM slot"} {
		db := furnish(t)
		execute(t, raw(t, db.Path()), statement)
		repair(t, db)
		rescuer := register(t, db, "rescuer")
		others, err := db.OtherRuns(context.Background(), rescuer)
		noError(t, err)
		var all store.Taken
		for _, o := range others {
			if !o.Ended {
				t.Errorf("%s: run %d has not ended", statement, o.ID)
			}
			taken := takeOver(t, db, o.ID, rescuer)
			all.Freed, all.Orphans = all.Freed+taken.Freed, all.Orphans+taken.Orphans
		}
		if all != (store.Taken{Freed: 1, Orphans: 1}) {
			t.Errorf("%s: taken over %+v", statement, all)
		}
	}
}

// More of a kind than one transaction may touch.
func TestRepair_InSteps(t *testing.T) {
	db := furnish(t)
	execute(t, raw(t, db.Path()), "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 2599) INSERT INTO payload SELECT i, x'00' FROM n",
		"WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 1201) INSERT INTO scope SELECT i, 's' || i FROM n",
		"INSERT INTO tally SELECT 1, id, 1, 1, 0, 0, 0, 0, 0, 0, 0 FROM scope WHERE id > 1")
	mended := repair(t, db)
	if !strings.Contains(mended, "removed: 2500") || !strings.Contains(mended, "anew: 1200") {
		t.Error(mended)
	}
	if h := examine(t, db); !h.Sound() {
		t.Error(h.Faults)
	}
}

// An older file is looked at as it is.
func TestCheck_Older(t *testing.T) {
	db := furnish(t)
	execute(t, raw(t, db.Path()), "DROP TABLE throttle; ALTER TABLE daily DROP COLUMN throttled; DROP TABLE streak; DROP TABLE breaker; DROP TABLE pause; DROP TABLE pace; DROP TABLE squeeze; DROP INDEX attempt_crash",
		"ALTER TABLE run DROP COLUMN file; ALTER TABLE run DROP COLUMN session; ALTER TABLE book DROP COLUMN swept", "PRAGMA user_version = 1")
	h := examine(t, db)
	if !h.Sound() || h.Schema != 1 || h.NewestSchema != schemaVersion || len(h.Runs) != 1 || h.Runs[0].Claimed != 1 || h.Runs[0].Running != 1 || h.Runs[0].Foreign {
		t.Errorf("%+v", h)
	}
}

// Times that have not come yet, runs of another file, and what a dead run left.
func TestCheck_Notes(t *testing.T) {
	db := furnish(t)
	if h := examine(t, db); h.Ahead > time.Minute || h.Runs[0].Foreign || h.LeftCount != 0 {
		t.Errorf("%+v", h)
	}
	takeOver(t, db, 1, register(t, db, "rescuer"))
	execute(t, raw(t, db.Path()), "UPDATE run SET file = '1:2'", "UPDATE item SET created = created + 7200000 WHERE id = 5")
	h := examine(t, db)
	if !h.Sound() || h.Ahead < 2*time.Hour-time.Minute || h.Ahead > 2*time.Hour+time.Minute {
		t.Errorf("ahead %v", h.Ahead)
	}
	if len(h.Runs) != 1 || !h.Runs[0].Foreign || h.LeftCount != 1 || len(h.Left) != 1 || h.Left[0].Dead != 1 || h.Left[0].By != 2 || string(h.Left[0].It.Key) != "3" {
		t.Errorf("%+v", h)
	}
}

// What others may read is a fault, and mended.
func TestRepair_Files(t *testing.T) {
	db := furnish(t)
	files := func() store.Files {
		f, err := db.Files()
		noError(t, err)
		return f
	}
	if f := files(); len(f.Faults) > 0 {
		t.Fatal(f.Faults)
	}
	noError(t, os.Chmod(db.Path(), 0o644))
	noError(t, os.Chmod(db.Path()+"-wal", 0o660))
	want := fmt.Sprintf("[%s has mode 0644: others than its owner may get at it %s-wal has mode 0660: others than its owner may get at it]", db.Path(), db.Path())
	if f := files(); fmt.Sprint(f.Faults) != want {
		t.Error(f.Faults)
	}
	if os.Geteuid() == 0 {
		noError(t, os.Chown(db.Path()+"-shm", 12345, -1))
		if f := files(); len(f.Faults) != 3 || !strings.HasSuffix(f.Faults[2], "-shm belongs to user 12345, and the database to user 0") {
			t.Error(f.Faults)
		}
	}
	if mended := repair(t, db); !strings.Contains(mended, " is its owner's alone") {
		t.Error(mended)
	}
	if f := files(); len(f.Faults) > 0 {
		t.Error(f.Faults)
	}
	// A stricter mode is a person's wish.
	noError(t, os.Chmod(db.Path(), 0o400))
	if f := files(); len(f.Faults) > 0 || repair(t, db) != "" {
		t.Error(f.Faults)
	}
}

// A device that is nearly full is a note.
func TestFiles_NearlyFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("batchq-test", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	db := openWith(t, dir+"/batchq.db", Options{Create: true})
	f, err := db.Files()
	noError(t, err)
	if len(f.Faults) > 0 || len(f.Notes) != 1 || !strings.HasPrefix(f.Notes[0], "the device is nearly full: ") {
		t.Errorf("%+v", f)
	}
}

// A log that grows behind a reader is a note.
func TestFiles_LargeLog(t *testing.T) {
	db := openFresh(t)
	reader := raw(t, db.Path())
	execute(t, reader, "BEGIN", "SELECT count(*) FROM item")
	ballast(t, db)
	f, err := db.Files()
	noError(t, err)
	if len(f.Faults) > 0 || !strings.Contains(strings.Join(f.Notes, "\n"), "the log beside the database has 20 MB: ") {
		t.Errorf("%+v", f)
	}
	execute(t, reader, "ROLLBACK")
}
