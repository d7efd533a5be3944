package cmd

import (
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// "Active" without a record of whose it is was out of everybody's sight
// (asynq#1144, PR#1158). Here a person deletes the rows of the claims by hand
// under what a dead run holds: doctor notes it, and the next command line
// works all of it.
func TestQueues_ClaimDeleted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\n[ -e free ] || exec sleep 600\nsay end\n")
	s.enqueue("j", sequence(10))
	line := []string{"work", "j", "--lane", "parallel", "-j", "2", "--lease", "1h", "--", "./item.sh"}
	p := s.start(s.command(line...))
	s.until("two run", func() bool { return s.count("start") == 2 })
	p.kill()
	db := s.other()
	_, err := db.Exec("DELETE FROM claim")
	s.must(err)
	s.must(db.Close())
	if r := s.want(0, "doctor"); !strings.Contains(r.stdout, "10 items are held under a claim that is not there") {
		t.Error(r)
	}
	s.write("free", "")
	s.want(0, line...)
	s.wantTotals(map[string]int{"done": 10})
	events := s.log()
	s.notBeside(events)
	if n := len(runs(events, "end")); n != 10 {
		t.Errorf("%d have ended", n)
	}
	s.tidy()
}

// "Duplicate" was answered though the other insert was rolled back, and the job
// was lost (oban#1087, #1093). Here an enqueue is killed at each moment before
// its commit, and one that waits beside it goes on: exactly one row.
func TestQueues_KilledBeforeItsCommit(t *testing.T) {
	t.Parallel()
	s := setupFaulty(t)
	s.enqueue("j", []string{"first"})
	added := 1
	for _, moment := range []string{"enqueue/begun", "enqueue/part", "enqueue/written"} {
		keys := []string{moment + " a", moment + " b"}
		c := s.command("enqueue", "j")
		c.Env = append(c.Env, "BATCHQ_FAULT="+moment+"=stop")
		c.Stdin = strings.NewReader(strings.Join(keys, "\n"))
		first := s.start(c)
		s.until("it has stopped with the lock in its hand", func() bool { return atRest(first.cmd.Process.Pid) })
		c = s.command("enqueue", "j")
		c.Stdin = strings.NewReader(strings.Join(keys, "\n"))
		second := s.start(c)
		time.Sleep(50 * time.Millisecond) // so that it waits for the lock, mostly
		first.kill()
		if r := second.wait(); r.code != 0 || !strings.HasPrefix(r.stdout, "added 2, duplicate 0, ") || r.stderr != "" {
			t.Errorf("killed at %s: %s", moment, r)
		}
		if added += 2; s.totals()["ready"] != added {
			t.Errorf("killed at %s: %v", moment, s.totals())
		}
	}
	s.tidy()
}

// The database failed while an item was finished, and it stayed claimed while
// the worker lived on (solid_queue#748). Here another program has the database
// for longer than a write waits as the item ends: the run tries again, says so,
// and the item has run once. A command that only comes and goes fails, and says
// who is in the way. The wait is a minute, so this test runs only where
// BATCHQ_TEST_SOAK gives it two; lease/worker has it with a short one.
func TestQueues_LockedBeyondTheWait(t *testing.T) {
	t.Parallel()
	const wait = 60 * time.Second // see store/sqlite
	if soakTime(t, 0, 0) < 2*wait {
		t.Skip("it takes more than a minute: BATCHQ_TEST_SOAK=2m runs it")
	}
	s := setup(t)
	s.write("item.sh", logged+"say start\nwhile [ ! -e free ]; do sleep 0.05; done\nsay end\n")
	s.enqueue("j", sequence(3))
	work := s.start(s.command("work", "j", "--lease", "4s", "--", "./item.sh"))
	s.until("it works", func() bool { return s.count("start") == 1 })
	db := s.other()
	_, err := db.Exec("BEGIN EXCLUSIVE")
	s.must(err)
	s.write("free", "")
	begin := time.Now()
	r := s.batchq("", "enqueue", "k", "--item", "a")
	took := time.Since(begin)
	if r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, ": another program holds the database") || !strings.Contains(r.stderr, "\nhint: find it with: fuser ") || took < wait {
		t.Errorf("after %s: %s", took, r)
	}
	t.Logf("enqueue gave up after %s", took)
	time.Sleep(5 * time.Second) // until the run's own wait is over too
	_, err = db.Exec("ROLLBACK")
	s.must(err)
	s.must(db.Close())
	if r := work.wait(); r.code != 0 || r.stdout != "done 3, left 0\n" || strings.Count(r.stderr, "trying again until it can be recorded") != 1 || strings.Count(r.stderr, "could not be renewed") > 1 {
		t.Error(r)
	}
	s.notBeside(s.log())
	for _, it := range s.items(store.Selection{}) {
		if it.State != jobs.Done || it.Attempt != 1 {
			t.Errorf("item %s is %s after %d attempts", it.Key, it.State, it.Attempt)
		}
	}
	s.tidy()
}
