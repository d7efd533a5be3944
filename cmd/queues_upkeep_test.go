package cmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// aged moves every time on record back, as if the database had lain so long.
func (s *site) aged(by time.Duration) {
	s.Helper()
	db := s.other()
	for _, statement := range []string{
		"UPDATE item SET created = created - ?1, due = due - ?1, rank = rank - ?1, started = started - ?1, finished = finished - ?1",
		"UPDATE run SET started = started - ?1, ended = ended - ?1",
		"UPDATE attempt SET started = started - ?1",
	} {
		_, err := db.Exec(statement, by.Milliseconds())
		s.must(err)
	}
	s.must(db.Close())
}

const day = 24 * time.Hour

// Pruning went by the time of creation (bull PR#2309): an item that was created
// 30 days ago and failed, or was done, now is not old.
func TestQueues_PruneGoesByTheEnd(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"fails", "works 1", "works 2", "works 3"})
	s.enqueue("k", []string{"old"})
	s.want(0, "work", "k", "--", "true")
	s.aged(30 * day)
	s.want(3, "work", "j", "--max-attempts", "1", "--", "sh", "-c", `test "$1" != fails`, "sh")
	s.enqueue("j", []string{"now dropped"})
	s.want(0, "drop", "--job", "j", "--key", "now dropped")
	r := s.want(0, "prune", "--older-than", "7d")
	if r.stdout != "pruned 1 done, 0 dropped items, 1 run\n" {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"done": 3, "dead": 1, "dropped": 1})
	s.tidy()
}

// Retention deleted what was still waiting, a million of it (pg-boss#521).
func TestQueues_PruneLeavesWhatWaits(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\nkeep_done = \"1d\"\n")
	s.enqueue("j", sequence(2500))
	s.enqueue("j", []string{"later"}, "--delay", "100d")
	s.aged(40 * day)
	s.want(0, "prune", "--older-than", "1d")
	s.wantTotals(map[string]int{"ready": 2500, "delayed": 1})
	s.want(75, "work", "j", "--limit", "3")
	s.wantTotals(map[string]int{"ready": 2497, "delayed": 1, "done": 3})
	s.tidy()
}

// Dead-letter lists were cut silently (Sidekiq and asynq at 10,000, River after
// 7 days, Oban after 60 s): 10,500 dead items are still 10,500 after runs,
// prunes and a year.
func TestQueues_DeadStay(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = 10_500
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\nkeep_done = \"1d\"\n")
	s.enqueue("j", sequence(n))
	db := s.other() // what 10,500 commands would have done, a moment ago
	for _, statement := range []string{
		"UPDATE item SET state = 5, class = 'permanent', reason = 'exit 65', attempt = 1, failures = 1, started = created, finished = created",
		"UPDATE tally SET ready = 0, dead = 10500",
		"INSERT INTO daily (job, lane, day, dead) SELECT 1, 'serial', created / 86400000, 10500 FROM item LIMIT 1",
	} {
		_, err := db.Exec(statement)
		s.must(err)
	}
	s.must(db.Close())
	s.aged(366 * day)
	for i := range 3 {
		s.enqueue("j", []string{fmt.Sprint("new ", i)})
		s.want(0, "work", "j")
		s.want(0, "prune", "--older-than", "1ms")
	}
	if totals := s.totals(); totals["dead"] != n || totals["pruned"] != 3 {
		t.Errorf("%v", totals)
	}
	if rows := strings.Count(s.want(0, "dlq", "list", "--limit", "20000").stdout, "\n"); rows != n {
		t.Errorf("%d are listed", rows)
	}
	s.tidy()
}

// A prune that is stopped says what it has done, and the rest goes next time.
func TestUpkeep_PruneStopped(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(30_000))
	s.want(0, "drop", "--job", "j")
	s.aged(30 * day)
	p := s.start(s.command("prune", "--older-than", "1d"))
	s.until("it has begun", func() bool { return p.ended() || s.totals()["pruned"] > 0 })
	_ = p.cmd.Process.Signal(syscall.SIGINT) // it may be through, on a machine that is fast enough
	r := p.wait()
	gone := s.totals()["pruned"]
	if r.code == 130 {
		if !strings.HasPrefix(r.stdout, fmt.Sprintf("pruned 0 done, %d dropped items, 0 runs\n", gone)) || gone == 30_000 {
			t.Errorf("%d are gone: %s", gone, r)
		}
	} else {
		s.expect(r, 0, "prune")
	}
	s.want(0, "prune", "--older-than", "1d")
	s.wantTotals(nil)
	s.tidy()
}

// Copies that are made while everything is busy are of one moment each: doctor
// finds each sound, and a run on it works what is left.
func TestUpkeep_BackupBesideWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(300))
	work := s.start(s.command("work", "j", "--lane", "parallel", "-j", "4", "--", "true"))
	enqueue := s.command("enqueue", "k")
	enqueue.Stdin = strings.NewReader(strings.Join(sequence(20_000), "\n"))
	added := s.start(enqueue)
	copies := 0
	for ; copies < 3 || !work.ended() && copies < 20; copies++ {
		path := fmt.Sprint("copy", copies)
		s.want(0, "backup", path)
		s.want(0, "--db", path, "doctor")
	}
	s.expect(work.wait(), 0, "work")
	s.expect(added.wait(), 0, "enqueue")
	s.want(0, "--db", "copy0", "work", "j", "--", "true")
	for i := range copies {
		s.want(0, "--db", fmt.Sprint("copy", i), "doctor")
	}
	s.wantTotals(map[string]int{"done": 300, "ready": 20_000})
	s.tidy()
}

// Whatever ends a backup half way leaves no FILE: told to stop, it leaves
// nothing at all; killed, its draft, which the next one clears away.
func TestUpkeep_BackupStopped(t *testing.T) {
	t.Parallel()
	s := setup(t)
	var list strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&list, "{\"k\":%d,\"pad\":%q}\n", i, strings.Repeat("x", 1000))
	}
	s.write("list.jsonl", list.String())
	s.want(0, "enqueue", "j", "list.jsonl", "--key", "k")
	draft := filepath.Join(s.dir, ".copy.new")
	there := func() bool { _, err := os.Lstat(draft); return err == nil }
	// KILL last: what it leaves looks as if the next one had begun.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		code := 128 + int(sig)
		p := s.start(s.command("backup", "copy"))
		s.until("it has begun", func() bool { return p.ended() || there() })
		_ = p.cmd.Process.Signal(sig) // it may be through
		r := p.wait()
		if r.code == 0 {
			s.must(os.Remove(filepath.Join(s.dir, "copy")))
			t.Logf("it was through before %v", sig)
			continue
		}
		s.expect(r, code, "backup")
		if s.file("copy") != "" || sig != syscall.SIGKILL && there() {
			t.Errorf("%v: something is left", sig)
		}
		if sig == syscall.SIGINT && !strings.Contains(r.stderr, "stopped by INT: no copy was made") {
			t.Error(r)
		}
	}
	s.want(0, "backup", "copy")
	s.want(0, "--db", "copy", "doctor")
	if there() {
		t.Error("the draft is left")
	}
	s.tidy()
}

// No room for the copy: one clear sentence, and nothing of it stays.
func TestUpkeep_BackupFull(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(20_000))
	full := filepath.Join(s.dir, "full")
	s.must(os.Mkdir(full, 0o700))
	if err := syscall.Mount("batchq-test", full, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { s.must(syscall.Unmount(full, syscall.MNT_DETACH)) })
	r := s.want(1, "backup", "full/copy")
	if !strings.Contains(r.stderr, "full/copy: no room to write") || !strings.Contains(r.stderr, "hint: make room on the device") {
		t.Error(r)
	}
	left, err := os.ReadDir(full)
	s.must(err)
	if len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	s.tidy()
}

// doctor --fix beside a run at work: the books are what is there, the run goes
// on, and nothing is run twice.
func TestUpkeep_FixBesideWork(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(200))
	s.enqueue("k", []string{"a"}) // whose books are wrong, or the run would take them for what is left
	s.write("item.sh", logged+"say start\nsleep 0.01\nsay end\n")
	p := s.start(s.command("work", "j", "--lane", "parallel", "-j", "4", "--", "./item.sh"))
	db := s.other()
	fixed := 0
	for ; fixed < 3 || !p.ended() && fixed < 30; fixed++ {
		_, err := db.Exec("UPDATE tally SET ready = ready + 3, enqueued = enqueued + 3 WHERE job = 2; INSERT INTO payload VALUES (99999, x'00')")
		s.must(err)
		r := s.want(0, "doctor", "--fix")
		if !strings.Contains(r.stdout, "mended: lists whose books were written anew: 1\n") || !strings.Contains(r.stdout, "mended: rows of payload ") {
			t.Error(r)
		}
	}
	s.must(db.Close())
	s.expect(p.wait(), 0, "work")
	if got := s.count("end"); got != 200 {
		t.Errorf("%d ended", got)
	}
	s.wantTotals(map[string]int{"done": 200, "ready": 1})
	s.tidy()
}

// Two at once mend the same, once.
func TestUpkeep_TwoFixes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(100))
	db := s.other()
	_, err := db.Exec("DELETE FROM tally")
	s.must(errors.Join(err, db.Close()))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if r := s.start(s.command("doctor", "--fix")).wait(); r.code != 0 {
				t.Error(r)
			}
		})
	}
	both.Wait()
	s.wantTotals(map[string]int{"ready": 100})
	s.tidy()
}

// A run that follows deletes what keep_done no longer keeps, while it is idle.
func TestUpkeep_FollowSweeps(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\nkeep_done = \"1d\"\n")
	s.enqueue("j", sequence(3000))
	s.want(0, "drop", "--job", "j")
	s.aged(30 * day)
	p := s.start(s.command("work", "--follow"))
	s.until("all is gone", func() bool { return s.totals()["pruned"] == 3000 })
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	s.expect(p.wait(), 143, "work")
	s.tidy()
}
