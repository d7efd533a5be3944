package sqlite

import (
	"context"
	"strings"
	"testing"
)

// sabotage changes a database as a person might by hand, and gives it back
// opened anew.
func sabotage(t *testing.T, statements ...string) *DB {
	t.Helper()
	db := furnish(t)
	execute(t, raw(t, db.Path()), statements...)
	return db
}

// rewrite changes the text of a schema.
func rewrite(name, from, to string) string {
	return "PRAGMA writable_schema = 1; UPDATE sqlite_schema SET sql = replace(sql, '" + from + "', '" + to + "') WHERE name = '" + name + "'; PRAGMA writable_schema = RESET"
}

// Every difference from what the migrations make is a fault: nothing can be
// changed in such a file, or not rightly. What holds no data is made anew.
func TestCheck_Schema(t *testing.T) {
	for name, c := range map[string]struct {
		statement, fault, mended string // mended "": it stays
	}{
		"IndexDropped": {"DROP INDEX item_ready", "the index item_ready of item is missing", "the index item_ready of item made anew"},
		"TwoDropped":   {"DROP INDEX item_held; DROP INDEX attempt_crash", "the index item_held of item is missing", "the index attempt_crash of attempt made anew\nthe index item_held of item made anew"},
		"IndexChanged": {"DROP INDEX item_ready; CREATE INDEX item_ready ON item (job, rank) WHERE state = 0", "the index item_ready of item is not as batchq makes it", "the index item_ready of item made anew"},
		"KeyDoubled": {"DROP INDEX item_key; INSERT INTO item (id, job, scope, key, state, rank, due, created) SELECT 6, job, scope, key, state, rank, due, created FROM item WHERE id = 5",
			"the index item_key of item is missing", ""},
		"Table":         {"DROP TABLE streak", "the table streak is missing", ""},
		"TableInUse":    {"PRAGMA foreign_keys = 0; DROP TABLE slot", "the table slot is missing", ""},
		"Column":        {"ALTER TABLE item ADD COLUMN mine TEXT", "the table item is not as batchq makes it", ""},
		"Constraint":    {rewrite("pause", "''all'', ", ""), "the table pause is not as batchq makes it", ""},
		"Trigger":       {"CREATE TRIGGER mine AFTER UPDATE ON item BEGIN SELECT raise(FAIL, 'no'); END", "the trigger mine of item is none of batchq's", ""},
		"UniqueIndex":   {"CREATE UNIQUE INDEX mine ON item (id)", "the index mine of item is none of batchq's", ""},
		"NumberZero":    {"PRAGMA user_version = 0", "the file says that its schema is 0, and its tables are those of 4", "the number of the schema is 4 again"},
		"NumberSmaller": {"PRAGMA user_version = 2", "the file says that its schema is 2, and its tables are those of 4", "the number of the schema is 4 again"},
		"NumberAndMore": {"PRAGMA user_version = 1; DROP INDEX attempt_crash", "the index attempt_crash of attempt is missing", "the number of the schema is 4 again\nthe index attempt_crash of attempt made anew"},
	} {
		t.Run(name, func(t *testing.T) {
			db := sabotage(t, c.statement)
			h := examine(t, db)
			if !strings.Contains(strings.Join(h.Faults, "\n"), c.fault) {
				t.Errorf("doctor says %q, want %q", h.Faults, c.fault)
			}
			if len(h.Integrity) > 0 && name != "Constraint" {
				t.Errorf("damage: %q", h.Integrity)
			}
			before := states(t, db)
			mended, err := db.RepairSchema(context.Background())
			noError(t, err)
			if got := strings.Join(mended, "\n"); got != c.mended {
				t.Errorf("mended %q, want %q", got, c.mended)
			}
			if h := examine(t, db); h.Sound() != (c.mended != "") {
				t.Errorf("and then: %q %q", h.Integrity, h.Faults)
			}
			if after := states(t, db); after != before {
				t.Errorf("items before\n%safter\n%s", before, after)
			}
			if again, err := db.RepairSchema(context.Background()); err != nil || len(again) > 0 {
				t.Errorf("and once more: %q, %v", again, err)
			}
		})
	}
}

// What a person has beside our tables is no fault, and remarks mean nothing.
func TestCheck_SchemaOfOthers(t *testing.T) {
	db := sabotage(t, "CREATE TABLE mine (a)", "CREATE VIEW seen AS SELECT id FROM item", "CREATE INDEX quick ON item (due)", "ANALYZE",
		"ALTER TABLE pause RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO pause", rewrite("streak", ",", " , -- a remark\n"))
	h := examine(t, db)
	if !h.Sound() || strings.Join(h.Notes, "\n") != "the table mine is none of batchq's\nthe index quick of item is none of batchq's\nthe view seen is none of batchq's" {
		t.Errorf("%q %q %q", h.Integrity, h.Faults, h.Notes)
	}
	if mended, err := db.RepairSchema(context.Background()); err != nil || len(mended) > 0 {
		t.Errorf("mended %q, %v", mended, err)
	}
}

// Each version's own schema is no fault in a file of that version.
func TestCheck_SchemaOfEachVersion(t *testing.T) {
	known, err := versions()
	noError(t, err)
	if len(known) != schemaVersion+1 {
		t.Fatalf("%d versions", len(known))
	}
	for v, s := range known {
		if got := s.version(known); got != v {
			t.Errorf("the schema of %d is taken for that of %d", v, got)
		}
		if d := s.differences(known[v]); len(d) > 0 {
			t.Errorf("%d: %v", v, d)
		}
	}
}

// What no CHECK sees: texts that are no JSON, with their table and row.
func TestCheck_Texts(t *testing.T) {
	for statement, want := range map[string]string{
		"UPDATE slot SET uses = '{'":          "slot.uses is no JSON object: slot ",
		"UPDATE slot SET uses = '[]'":         "slot.uses is no JSON object: slot ",
		"UPDATE policy SET spec = 'nonsense'": "policy.spec is no JSON object: run 1, job 1",
		"UPDATE policy SET spec = ''":         "policy.spec is no JSON object: run 1, job 1",
		"UPDATE job SET spec = '{\"a\":'":     "job.spec is no JSON object: job pos",
		"UPDATE run SET command = 'work'":     "run.command is no JSON array: run 1",
		"INSERT INTO squeeze (job, lane, uses, since, until) VALUES (1, 'serial', '{}}', 0, 0)": "squeeze.uses is no JSON object: job 1",
	} {
		db := sabotage(t, statement)
		h := examine(t, db)
		if !strings.Contains(strings.Join(h.Faults, "\n"), want) {
			t.Errorf("%s: doctor says %q, want %q", statement, h.Faults, want)
		}
	}
	db := sabotage(t, "WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 150) INSERT INTO job (id, name, spec) SELECT i, 'j' || i, '?' FROM n")
	if h := examine(t, db); len(h.Faults) != textsShown+1 || h.Faults[textsShown] != "and more of job.spec" {
		t.Errorf("%q", h.Faults)
	}
}

// Numbers of which there are no more to be given out.
func TestCheck_NumbersUsedUp(t *testing.T) {
	for column, what := range map[string]string{"last_claim": "fencing token", "last_item": "item id"} {
		db := sabotage(t, "UPDATE book SET "+column+" = 9223372036854775807")
		if h := examine(t, db); len(h.Faults) != 1 || h.Faults[0] != "the last "+what+" given out is said to be 9223372036854775807: only 0 more can be given out" {
			t.Errorf("%q", h.Faults)
		}
	}
}

// One look that fails does not keep the others from being made.
func TestCheck_GoesOn(t *testing.T) {
	db := sabotage(t, "PRAGMA foreign_keys = 0; DROP TABLE slot; UPDATE tally SET ready = ready + 1, enqueued = enqueued + 1")
	h := examine(t, db)
	all := strings.Join(h.Faults, "\n")
	for _, want := range []string{"the table slot is missing", "the claims and slots can't be examined: ", "no such table", "the books say 2 ready, there are 1"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing of %q in\n%s", want, all)
		}
	}
	if len(h.Runs) != 1 {
		t.Errorf("runs: %+v", h.Runs)
	}
}
