package sqlite

import (
	"context"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// asynq#1144: an item that is in hand while the record of whose hand it is is
// gone must not be out of everybody's sight. The rows are deleted as a person
// at a shell would, who has no foreign keys on.
func TestStray(t *testing.T) {
	db := openFresh(t)
	add(t, db, "claimed", "running", "done")
	dead, rescuer := register(t, db, "dead"), register(t, db, "rescuer")
	c := claim(t, db, dead, 3)
	part := c
	part.Items = c.Items[1:]
	started := start(t, db, dead, part)
	_, err := db.Advance(context.Background(), store.Advance{Run: dead, Settle: []store.Settlement{settlement(started[1], done)}})
	noError(t, err)
	execute(t, raw(t, db.Path()), "DELETE FROM claim")

	h, err := db.Check(context.Background())
	noError(t, err)
	if !h.Sound() || len(h.Notes) != 1 || !strings.Contains(h.Notes[0], "2 items are held under a claim that is not there") {
		t.Errorf("doctor says %q %q %q", h.Integrity, h.Faults, h.Notes)
	}
	if o := stray(t, db, rescuer); o.Held != 2 || o.Lapsed {
		t.Errorf("held by nobody: %+v", o)
	}
	// Its run may live and have it in hand: what has started is left to it.
	taken := takeOver(t, db, 0, rescuer)
	if taken != (store.Taken{Freed: 1}) {
		t.Errorf("taken over from nobody: %+v", taken)
	}
	// When the run is over, the started one is an orphan like any other.
	noError(t, db.EndRun(context.Background(), dead, store.RunEnd{Outcome: "finished"}))
	if taken = takeOver(t, db, 0, rescuer); taken != (store.Taken{Orphans: 1}) {
		t.Errorf("taken over from nobody after the run's end: %+v", taken)
	}
	orphans, err := db.Orphans(context.Background(), rescuer)
	noError(t, err)
	if len(orphans) != 1 || orphans[0].Owner.ID != dead || string(orphans[0].It.Key) != "running" {
		t.Fatalf("orphans %+v", orphans)
	}
	v := jobs.Verdict{To: jobs.Ready, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash, Reason: "its run died"}
	noError(t, db.SettleOrphan(context.Background(), rescuer, orphans[0], v))
	sound(t, db)
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c != (store.Counts{Enqueued: 3, Ready: 2, Done: 1}) {
		t.Errorf("counts %+v, %v", c, err)
	}
}

// The run lives and ends what it has in hand: the result counts, though the
// record of its claim is gone.
func TestStray_ResultOfALiveRun(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	run := register(t, db, "run")
	s := start(t, db, run, claim(t, db, run, 1))
	execute(t, raw(t, db.Path()), "DELETE FROM claim")
	out, err := db.Advance(context.Background(), store.Advance{Run: run, Settle: []store.Settlement{settlement(s[0], done)}})
	if err != nil || len(out.Stale) > 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	sound(t, db)
}

// A started item whose slot is gone gets one when it is taken over, or nobody
// would wait for it.
func TestStray_NoSlot(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	dead, rescuer := register(t, db, "dead"), register(t, db, "rescuer")
	start(t, db, dead, claim(t, db, dead, 1))
	execute(t, raw(t, db.Path()), "DELETE FROM slot")
	h, err := db.Check(context.Background())
	noError(t, err)
	if !h.Sound() || len(h.Notes) != 1 {
		t.Errorf("doctor says %q %q %q", h.Integrity, h.Faults, h.Notes)
	}
	if taken := takeOver(t, db, dead, rescuer); taken != (store.Taken{Orphans: 1}) {
		t.Errorf("taken over: %+v", taken)
	}
	orphans, err := db.Orphans(context.Background(), rescuer)
	noError(t, err)
	if len(orphans) != 1 {
		t.Fatalf("orphans %+v", orphans)
	}
	noError(t, db.SettleOrphan(context.Background(), rescuer, orphans[0], jobs.Verdict{To: jobs.Ready, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash}))
	sound(t, db)
}

// What a hand has done to the books is found.
func TestCheck_FindsFaults(t *testing.T) {
	for name, c := range map[string]struct{ statement, words string }{
		"Books":    {"UPDATE tally SET ready = ready + 1, enqueued = enqueued + 1", "the books say 2 ready, there are 1"},
		"NoBooks":  {"DELETE FROM tally", "the books say 0 ready, there are 1"},
		"Item":     {"DELETE FROM item", "the books say 1 ready, there are 0"},
		"Job":      {"DELETE FROM job", "rows of item that point to no job"},
		"Slot":     {"INSERT INTO slot (run, item, job, lane, attempt, started) VALUES (1, 1, 1, 'serial', 1, 0)", "1 slot is taken by an item that is not running"},
		"SlotOfNo": {"INSERT INTO slot (run, item, job, lane, attempt, started) VALUES (77, 1, 1, 'serial', 1, 0)", "rows of slot that point to no run: 1"},
		"Payload":  {"INSERT INTO payload VALUES (99, x'00')", "rows of payload that point to no item: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			db := openFresh(t)
			register(t, db, "run")
			add(t, db, "a")
			execute(t, raw(t, db.Path()), c.statement)
			h, err := db.Check(context.Background())
			noError(t, err)
			if h.Sound() || !strings.Contains(strings.Join(h.Faults, "\n"), c.words) {
				t.Errorf("doctor says %q, want %q", h.Faults, c.words)
			}
		})
	}
}

func stray(t *testing.T, db *DB, run int64) store.OtherRun {
	t.Helper()
	others, err := db.OtherRuns(context.Background(), run)
	noError(t, err)
	for _, o := range others {
		if o.ID == 0 {
			return o
		}
	}
	t.Fatalf("nobody's items are not among %+v", others)
	return store.OtherRun{}
}

func takeOver(t *testing.T, db *DB, dead, by int64) store.Taken {
	t.Helper()
	taken, err := db.TakeOver(context.Background(), dead, by, store.DeathLock, time.Minute)
	noError(t, err)
	return taken
}
