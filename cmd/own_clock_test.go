package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A clock that steps, either way and by days, under a run that lives: nothing
// is taken from it by the one that looks on. After its death, which nobody can
// see by its lock file, what it had comes back within its lease and half of
// another, whatever the clock did.
func TestOwn_ClockSteps(t *testing.T) {
	t.Parallel()
	for _, off := range []string{"1h", "-1h", "48h", "-48h"} {
		t.Run(off, func(t *testing.T) {
			t.Parallel()
			s := setupFaulty(t)
			s.setClock("0s")
			s.write("item.sh", logged+"say start\nwhile [ ! -e go.$key ]; do sleep 0.02; done\nsay end\n")
			s.write("fast.sh", logged+"say start\n[ $key != bad ] || exit 65\nsay end\n")
			s.enqueue("k", []string{"bad"})
			s.clocked("work", "k", "--", "./fast.sh").endsWith(3)
			s.enqueue("j", []string{"a", "b", "c"})
			line := []string{"work", "j", "--wait", "--lease", "2s", "--", "./item.sh"}
			p := s.clocked(line...)
			s.until("a runs", func() bool { return s.count("start") == 2 })
			second := s.clocked(line...)
			for _, step := range []string{off, "0s", off} {
				s.setClock(step)
				s.noNegatives()
				time.Sleep(time.Duration(short(1200, 4000)) * time.Millisecond)
				if p.ended() || second.ended() || s.count("start") != 2 {
					t.Fatalf("with the clock off by %s: ended: %v, %v; log %v", step, p.ended(), second.ended(), s.log())
				}
			}
			s.write("go.a", "") // a result beside a step
			s.until("b runs", func() bool { return s.count("start") == 3 })

			locks, err := filepath.Glob(s.db + "-run-*")
			s.must(err)
			for _, l := range locks {
				s.must(os.Remove(l))
			}
			s.setClock("0s")
			p.kill()
			died := time.Now()
			s.until("b comes back", func() bool { return s.count("start") == 4 || second.ended() })
			t.Logf("b came back %s after the death of its run, of a lease of 2s", time.Since(died).Round(time.Millisecond))
			s.write("go.b", "")
			s.write("go.c", "")
			second.endsWith(0)
			s.noNegatives()
			s.wantStarts("a", 1)
			s.wantStarts("b", 2)
			s.wantStarts("c", 1)
			s.charged("b", 0, 1)
			s.wantTotals(map[string]int{"done": 3, "dead": 1})
		})
	}
}

// After a boot nothing of a run is left, whatever bears its numbers: its items
// come back at once, and no process is ended for it.
func TestOwn_AnotherBoot(t *testing.T) {
	t.Parallel()
	s := setupFaulty(t)
	s.write("item.sh", logged+"say start\n[ -e go ] || { echo $$ >pid; sleep 600; }\nsay end\n")
	s.enqueue("j", []string{"a", "b"})
	p := s.running("work", "j", "--lease", "1h", "--", "./item.sh")
	pid := s.pidIn("pid")
	p.kill()
	s.must(os.Remove(filepath.Join(s.dir, "lock.a"))) // what is not there can't hold it
	s.write("go", "")
	c := s.command("work", "j", "--", "./item.sh")
	c.Env = append(c.Env, "BATCHQ_FAULT_BOOT=another")
	r := s.start(c).endsWith(0)
	if !strings.Contains(r.stderr, "run 1 is dead: 1 unstarted item taken back, 1 that had started") {
		t.Error(r)
	}
	if !working(pid) {
		t.Error("what bears the number on this boot was ended")
	}
	s.wantStarts("a", 2)
	s.charged("a", 0, 1)
	s.killAll()
	s.tidy()
}
