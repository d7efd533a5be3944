package cmd

import (
	"database/sql"
	"errors"
	"strings"
	"syscall"
	"testing"
)

// A database is not migrated under a run of an older batchq: who would change
// it leaves with 75 and names that run; who only reads goes on. When the run
// has ended, the next change migrates.
func TestMigration_WaitsForOlderRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[jobs.j]\nshell = ':'\n")
	s.enqueue("j", []string{"a"})
	p := s.start(s.command("work", "--follow"))
	s.until("a is done", func() bool { return s.totals()["done"] == 1 })
	s.must(p.cmd.Process.Signal(syscall.SIGSTOP)) // it lives, and meets nothing that it can't know
	s.older()

	for _, args := range [][]string{{"enqueue", "j", "--item", "b"}, {"work"}, {"requeue", "--all"}, {"pause", "--all"}} {
		r := s.want(75, args...)
		if !strings.Contains(r.stderr, "a run of an older batchq is at work on it (run 1, pid ") || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%v: %s", args, r)
		}
	}
	for _, args := range [][]string{{"stats"}, {"doctor"}, {"dlq", "list"}, {"runs", "list"}, {"check"}, {"work", "--dry-run"}} {
		s.want(0, args...)
	}
	if v := s.version(); v != 1 {
		t.Errorf("schema %d", v)
	}
	s.must(p.cmd.Process.Signal(syscall.SIGKILL))
	p.wait()
	s.enqueue("j", []string{"b"})
	s.want(0, "work")
	if v := s.version(); v == 1 {
		t.Error("it was not migrated")
	}
	s.wantTotals(map[string]int{"done": 2})
	s.tidy()
}

// older makes the database what a batchq of schema 1 would have made.
func (s *site) older() {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db+"?_pragma=busy_timeout(60000)&_txlock=immediate")
	s.must(err)
	_, err = db.Exec(`BEGIN IMMEDIATE; DROP TABLE throttle; ALTER TABLE daily DROP COLUMN throttled; DROP TABLE streak; DROP TABLE breaker; DROP TABLE pause; DROP TABLE pace; DROP TABLE squeeze;
		DROP INDEX attempt_crash; ALTER TABLE run DROP COLUMN file; ALTER TABLE run DROP COLUMN session; ALTER TABLE book DROP COLUMN swept;
		UPDATE run SET schema = 1; PRAGMA user_version = 1; COMMIT`)
	s.must(errors.Join(err, db.Close()))
}

func (s *site) version() (v int) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db+"?_pragma=busy_timeout(60000)")
	s.must(err)
	s.must(errors.Join(db.QueryRow("PRAGMA user_version").Scan(&v), db.Close()))
	return v
}
