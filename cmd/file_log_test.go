package cmd

import (
	"context"
	"database/sql"
	"strings"
	"syscall"
	"testing"
)

// The log behind a long reader, while a run works on: doctor and stats warn
// meanwhile, and when the reader has gone the run that lives cuts it back by
// its next commits, without any other command.
func TestFile_LogBehindAReaderAtWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"first"})
	line := []string{"work", "j", "--follow", "--lane", "parallel", "-j", "4", "--", "true"}
	p := s.start(s.command(line...))
	s.until("it works", func() bool { return s.totals()["done"] == 1 })
	reader := s.other()
	tx, err := reader.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	s.must(err)
	var here int
	s.must(tx.QueryRow("SELECT count(*) FROM item").Scan(&here))

	const bound, large = 16 << 20, 20 << 20 // what a log may keep, see store/sqlite; and enough to be warned of
	n := 1
	for s.logSize() < large {
		s.enqueue("j", sequence(200), "--scope", sequence(n + 1)[n])
		n += 200
		s.until("they are done", func() bool { return s.totals()["done"] == n })
	}
	behind := s.logSize()
	const warning = "the log beside the database has "
	if r := s.want(0, "doctor"); !strings.Contains(r.stdout, warning) {
		t.Errorf("doctor does not warn of a log of %d bytes: %s", behind, r)
	}
	if r := s.want(0, "stats"); !strings.Contains(r.stdout, warning) {
		t.Logf("stats does not warn of a log of %d bytes", behind)
	}
	s.must(tx.QueryRow("SELECT count(*) FROM item").Scan(&here))
	if here != 1 {
		t.Errorf("the reader sees %d items, and 1 was there when it began", here)
	}
	s.must(tx.Rollback())

	for i := 0; s.logSize() > bound && i < 20; i++ {
		s.enqueue("j", []string{"after"}, "--scope", sequence(i + 1)[i])
		n++
		s.until("it is done", func() bool { return s.totals()["done"] == n })
	}
	if after := s.logSize(); after > bound {
		t.Errorf("the log has %d bytes, and had %d behind the reader", after, behind)
	}
	if r := s.want(0, "doctor"); strings.Contains(r.stdout, warning) {
		t.Errorf("doctor warns still: %s", r)
	}
	t.Logf("log: %d bytes behind the reader after %d items, %d after it", behind, n, s.logSize())
	s.must(reader.Close())
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	p.wait()
	s.wantTotals(map[string]int{"done": n})
	s.tidy()
}
