package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"batchq/store"
)

// A run that stands still (a debugger, a laptop's lid, a frozen container)
// between the commit that starts an item and its execution, longer than its
// lease: another one ends it before the item runs, so that it can't go on and
// execute what is another's by now. Whatever had been executed is ended too.
func TestMatrix_Stop(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct {
		moment   string
		executed int // attempts of a that the stopped run has begun
	}{
		"BeforeExec":  {"recording/committed", 0},
		"ReadyToExec": {"exec/ready", 0},
		"Executed":    {"exec/forked", 1},
		"Writing":     {"recording/begun", 0},
		"Claimed":     {"claim/committed", 0},
		"Ended":       {"exec/reaped", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupFaulty(t)
			// An item that finds the stopped run in the process table says so.
			s.write("item.sh", logged+`say start
if [ -e stopped ] && grep -q '^State:.[^ZX]' "/proc/$(cat stopped)/status" 2>/dev/null; then say early; fi
say end
`)
			s.enqueue("j", []string{"a", "b"})
			line := []string{"work", "j", "--wait", "--lease", "1s", "--kill-after", "300ms", "--", "./item.sh"}
			c := s.command(line...)
			c.Env = append(c.Env, "BATCHQ_FAULT="+at.moment+"=stop")
			p := s.start(c)
			s.until("it stands still", func() bool { return stands(p.cmd.Process.Pid) })
			s.until("what it has executed has ended", func() bool { return s.count("end") == at.executed })
			s.write("stopped", fmt.Sprintln(p.cmd.Process.Pid))
			if at.moment == "recording/begun" {
				// It has the write lock in hand: nobody can take anything over
				// until it is gone, and who tries says who is to be looked for.
				s.mustHold(p)
				return
			}

			r := s.want(0, line...)
			if !strings.Contains(r.stderr, fmt.Sprintf("run 1 (pid %d) let its lease lapse twice: ending it", p.cmd.Process.Pid)) {
				t.Error(r)
			}
			if r := p.wait(); r.code != 137 {
				t.Errorf("the stopped run: %s", r)
			}
			events := s.log()
			s.notBeside(events)
			if n := runs(events, "early"); len(n) > 0 {
				t.Errorf("while the stopped run lived there ran %v", n)
			}
			// The second run's attempt is the last one: no third.
			if n := runs(events, "start"); n["a"] != at.executed+1 || n["b"] != 1 {
				t.Errorf("starts: %v", n)
			}
			s.wantTotals(map[string]int{"done": 2})
			for _, it := range s.items(store.Selection{}) {
				if charged := at.moment != "claim/committed" && string(it.Key) == "a"; it.Crashes != btoi(charged) || it.Failures > 0 {
					t.Errorf("item %s: %d crashes, %d failures", it.Key, it.Crashes, it.Failures)
				}
			}
			s.tidy()
		})
	}
}

// stands says whether a process is stopped.
func stands(pid int) bool {
	status, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
	return err == nil && strings.Contains(string(status), "\nState:\tT")
}

// mustHold checks what others meet while a stopped run holds the write lock.
func (s *site) mustHold(p *started) {
	s.Helper()
	s.wantTotals(map[string]int{"claimed": 2}) // a look needs no lock
	p.kill()
	s.want(0, "work", "j", "--", "./item.sh")
	s.wantTotals(map[string]int{"done": 2})
	s.notBeside(s.log())
	s.tidy()
}
