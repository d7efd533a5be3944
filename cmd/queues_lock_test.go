package cmd

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// other is another program's connection to the database.
func (s *site) other() *sql.DB {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db+"?_pragma=busy_timeout(60000)")
	s.must(err)
	db.SetMaxOpenConns(1)
	s.Cleanup(func() {
		if err := db.Close(); err != nil {
			s.Error(err)
		}
	})
	return db
}

// Who is told twice to stop goes, also while another program holds the lock:
// within seconds, with the status of the signal, and the same line resumes.
func TestQueues_StoppedTwiceBesideALock(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(3))
	s.write("item.sh", logged+"say start\n[ -e free ] || sleep 600\nsay end\n")
	line := []string{"work", "j", "--", "./item.sh"}
	p := s.start(s.command(line...))
	s.until("it works", func() bool { return s.count("start") == 1 })
	db := s.other()
	_, err := db.Exec("BEGIN EXCLUSIVE")
	s.must(err)
	for range 2 {
		s.must(p.cmd.Process.Signal(syscall.SIGTERM))
		time.Sleep(200 * time.Millisecond) // two signals at once may come as one
	}
	// It ends though the lock is still held: that is what is tested.
	r := p.wait()
	if r.code != 143 || !strings.Contains(r.stderr, "the same line again resumes") {
		t.Error(r)
	}
	_, err = db.Exec("ROLLBACK")
	s.must(err)
	s.write("free", "")
	s.want(0, line...)
	s.notBeside(s.log())
	s.wantTotals(map[string]int{"done": 3})
	s.must(db.Close())
	s.tidy()
}

// The wait for a lock was set on one connection of a pool only (OneSSH#4).
// Here another program holds the write lock again and again while items are
// enqueued and worked 15 at a time: nobody is told of a lock.
func TestQueues_LockHeld(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(200))
	db := s.other()
	hold := time.Second // longer than any wait that the engine makes by itself
	if !testing.Short() {
		hold = 3 * time.Second
	}
	stop := make(chan struct{})
	var holding sync.WaitGroup
	holding.Go(func() {
		for {
			if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(hold)
			if _, err := db.Exec("COMMIT"); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	})
	work := s.start(s.command("work", "j", "--lane", "parallel", "-j", "15", "--", "true"))
	enqueue := s.command("enqueue", "k", "--scope", "x")
	enqueue.Stdin = strings.NewReader(strings.Join(sequence(5000), "\n"))
	added := s.start(enqueue)
	stats := s.start(s.command("stats"))
	dlq := s.start(s.command("requeue", "--all"))
	for _, p := range []*started{work, added, stats, dlq} {
		r := p.wait()
		if text := strings.ReplaceAll(strings.ToLower(r.stdout+r.stderr), strings.ToLower(s.dir), ""); r.code != 0 || strings.Contains(text, "lock") || strings.Contains(text, "busy") {
			t.Errorf("%v: %s", p.cmd.Args[1:], r)
		}
	}
	close(stop)
	holding.Wait()
	s.wantTotals(map[string]int{"done": 200, "ready": 5000})
	s.must(db.Close())
	s.tidy()
}

// A log of gigabytes grew behind a reader (gotosocial#2808, CoreScope#1434,
// khive#1876). It may grow while somebody reads, and is cut back by the next
// command after that, also while others keep the file open.
func TestQueues_LogBehindAReader(t *testing.T) {
	t.Parallel()
	s := setup(t)
	n := short(20_000, 50_000)
	s.enqueue("j", sequence(10))
	reader, idle := s.other(), s.other()
	var here int
	s.must(idle.QueryRow("SELECT count(*) FROM item").Scan(&here))
	tx, err := reader.BeginTx(context.Background(), &sql.TxOptions{ReadOnly: true})
	s.must(err)
	s.must(tx.QueryRow("SELECT count(*) FROM item").Scan(&here))

	s.enqueue("j", sequence(n))
	s.want(0, "drop", "--job", "j")
	s.enqueue("j", sequence(n))
	behind := s.logSize()
	s.must(tx.QueryRow("SELECT count(*) FROM item").Scan(&here))
	if here != 10 {
		t.Errorf("the reader sees %d items, and 10 were there when it began", here)
	}
	s.must(tx.Rollback())

	s.enqueue("j", []string{"one more"})
	s.enqueue("j", []string{"and another"})
	const bound = 16 << 20 // what a log may keep; see store/sqlite
	if after := s.logSize(); after > bound {
		t.Errorf("the log has %d bytes, and had %d behind the reader", after, behind)
	}
	t.Logf("log: %d bytes behind the reader, %d after it", behind, s.logSize())
	s.must(reader.Close())
	s.must(idle.Close())
	s.want(0, "enqueue", "j", "--item", "last")
	s.wantTotals(map[string]int{"ready": n + 3, "dropped": n})
	s.tidy()
}

func (s *site) logSize() int64 {
	s.Helper()
	info, err := os.Stat(s.db + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}
