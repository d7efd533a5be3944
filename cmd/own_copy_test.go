package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Whoever works a copy of the database touches nothing of the run that works
// the original: neither its processes, which bear the ids that the copy knows,
// nor its private directory; and what that run is at work on is not run beside
// it by the copy.
func TestOwn_CopyOfALiveOne(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]func(*site) *site{
		"Backup": func(s *site) *site { return s.copyByBackup(s.T) },
		"cp": func(s *site) *site {
			c := setup(s.T)
			for _, suffix := range []string{"", "-wal"} {
				data, err := os.ReadFile(s.db + suffix)
				s.must(err)
				s.must(os.WriteFile(c.db+suffix, data, 0o600))
			}
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			script := logged + "say start\ncase $key in 1 | 2) while [ ! -e go ]; do sleep 0.02; done ;; esac\necho '{\"class\":\"done\"}' >$BATCHQ_RESULT || exit 65\nsay end\n"
			s.write("item.sh", script)
			s.enqueue("j", sequence(20))
			line := []string{"work", "j", "--lane", "parallel", "-j", "2", "--lease", "1s", "--", "./item.sh"}
			p := s.running(line...)
			s.until("two run", func() bool { return s.count("start") == 2 })
			c := how(s)
			c.write("item.sh", script)
			time.Sleep(2 * time.Second) // the leases in the copy have lapsed twice
			wider := slices.Clone(line) // what is held takes two slots of it
			wider[5] = "3"
			for range 2 {
				cmd := c.command(wider...)
				cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(s.dir, "tmp")) // where the private directories are
				r := c.result(cmd)
				if r.code != 75 || !strings.Contains(r.stderr, "is at work on it for another copy of this database: drop it, or wait") {
					t.Error(r)
				}
			}
			c.wantTotals(map[string]int{"done": 18, "running": 2})
			if p.ended() || s.count("start") != 2 || s.count("end") != 0 {
				t.Errorf("the original's run: ended: %v, log %v", p.ended(), s.log())
			}
			s.write("go", "")
			p.endsWith(0)
			c.write("go", "")
			c.want(0, line...)
			for _, x := range []*site{s, c} {
				x.wantTotals(map[string]int{"done": 20})
				for _, key := range sequence(20) {
					x.wantStarts(key, 1)
				}
				x.tidy()
			}
			s.charged("1", 0, 0)
			c.charged("1", 0, 1)
		})
	}
}

// Two databases with the same ids in them, both under load, and the runs of
// one are killed again and again: the other's never lose a child.
func TestOwn_CopiesUnderLoad(t *testing.T) {
	t.Parallel()
	s := setup(t)
	script := logged + "say start\nsleep 0.05\nsay end\n"
	s.write("item.sh", script)
	s.enqueue("j", sequence(short(200, 600)))
	line := []string{"work", "j", "--lane", "parallel", "-j", "3", "--lease", "1s", "--batch", "20", "--max-crashes", "1000", "--", "./item.sh"}
	first := s.running(line...)
	s.until("it works", func() bool { return s.count("end") > 3 })
	c := s.copyByBackup(t)
	c.write("item.sh", script)
	kills := 0
	for p := c.running(line...); !first.ended(); {
		time.Sleep(time.Duration(s.rand.Int64N(int64(400 * time.Millisecond))))
		if p.ended() {
			break
		}
		p.kill()
		kills++
		p = c.running(line...)
	}
	first.endsWith(0)
	s.until("the copy is worked", func() bool { return c.running(line...).wait().code == 0 })
	events := s.log()
	s.notBeside(events)
	for _, key := range sequence(short(200, 600)) {
		if runs(events, "start")[key] != 1 || runs(events, "end")[key] != 1 {
			t.Errorf("the original's item %s: %d starts, %d ends", key, runs(events, "start")[key], runs(events, "end")[key])
		}
	}
	c.notBeside(c.log())
	t.Logf("%d kills in the copy", kills)
	for _, x := range []*site{s, c} {
		x.wantTotals(map[string]int{"done": short(200, 600)})
		x.tidy()
	}
}

// A backup is restored over a database that is worked: the run that had the old
// file open ends itself, with its children, and says so; whoever works the new
// file begins with what the backup holds, under claims that only grow.
func TestOwn_Restored(t *testing.T) {
	t.Parallel()
	for name, clock := range map[string]string{"": "0s", "ClockSetBack": "-48h"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupFaulty(t)
			s.setClock("0s")
			s.write("item.sh", logged+"echo $BATCHQ_CLAIM >>claims\nsay start\n[ -e go ] || [ $key != 3 ] || { echo $$ >pid; sleep 600; }\nsay end\n")
			s.enqueue("j", sequence(3))
			line := []string{"work", "j", "--lease", "1s", "--batch", "1", "--", "./item.sh"}
			s.clocked(append(line[:2:2], append([]string{"--limit", "1"}, line[2:]...)...)...).endsWith(75)
			s.want(0, "backup", filepath.Join(s.dir, "backup"))
			inBackup := s.lastClaim()
			p := s.clocked(line...)
			child := s.pidIn("pid")
			before := s.lastClaim()
			s.must(os.Rename(filepath.Join(s.dir, "backup"), s.db))
			s.must(os.Remove(s.db + "-wal"))
			s.must(os.Remove(s.db + "-shm"))
			r := p.endsWith(1)
			if !strings.Contains(r.stderr, "is no longer the file that this run opened") {
				t.Error(r)
			}
			s.until("its children have ended", func() bool { return !working(child) })
			s.write("go", "")
			s.setClock(clock)
			s.clocked(line...).endsWith(0)
			if name == "" && s.firstClaimAfter(before) <= before || s.firstClaimAfter(before) <= inBackup {
				t.Errorf("claims %v: the backup had %d, and %d was the last", s.lines("claims"), inBackup, before)
			}
			s.wantTotals(map[string]int{"done": 3})
			s.wantStarts("1", 1)
			s.noNegatives()
		})
	}
}

// The database is moved away under a run, and nothing is put in its place.
func TestOwn_MovedAway(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\necho $$ >pid\nsleep 600\n")
	s.enqueue("j", sequence(3))
	p := s.running("work", "j", "--lease", "1s", "--", "./item.sh")
	child := s.pidIn("pid")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		s.must(os.Rename(s.db+suffix, s.db+".moved"+suffix))
	}
	p.endsWith(1)
	if working(child) {
		t.Error("its command lives on")
	}
	// Whoever goes on with it there takes it over, within its lease.
	s.db += ".moved"
	s.write("fast.sh", logged+"say start\nsay end\n")
	s.until("all is done", func() bool {
		return s.result(s.command("work", "j", "--lease", "1s", "--", "./fast.sh")).code == 0
	})
	s.wantTotals(map[string]int{"done": 3})
	s.notBeside(s.log())
}

// lastClaim is the fencing token that an item was last given.
func (s *site) lastClaim() (n int64) {
	s.Helper()
	for _, c := range s.claims() {
		n = max(n, c)
	}
	return n
}

// claims are the tokens that items were given, in their order.
func (s *site) claims() (all []int64) {
	s.Helper()
	for _, l := range s.lines("claims") {
		n, err := strconv.ParseInt(l, 10, 64)
		s.must(err)
		all = append(all, n)
	}
	return all
}

// firstClaimAfter is the token that came after another one.
func (s *site) firstClaimAfter(one int64) int64 {
	s.Helper()
	all := s.claims()
	i := slices.Index(all, one)
	for i++; i < len(all); i++ {
		if all[i] != one {
			return all[i]
		}
	}
	return 0
}
