package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"batchq/store"
)

// The tests in own_* run the real binary and look at what runs do to each
// other: nothing is at work twice at once, and nothing of others is touched.

// running starts a command line of batchq.
func (s *site) running(args ...string) *started {
	s.Helper()
	return s.start(s.command(args...))
}

// endsWith waits for a run that must end with a status.
func (p *started) endsWith(code int) result {
	p.s.Helper()
	r := p.wait()
	if r.code != code {
		p.s.Errorf("%v: want exit %d, got %s", p.cmd.Args[1:], code, r)
	}
	return r
}

// signal sends sig to the run and, for SIGSTOP, waits until it stands still.
func (p *started) signal(sig syscall.Signal) {
	p.s.Helper()
	p.s.must(p.cmd.Process.Signal(sig))
	if sig == syscall.SIGSTOP {
		p.s.stands(p.cmd.Process.Pid)
	}
}

func (s *site) stands(pid int) {
	s.Helper()
	s.until("it stands still", func() bool { return state(pid) == "T" })
}

// state is the kernel's letter for what a process does; "" where there is none.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after[:1]
}

// working says whether a process runs.
func working(pid int) bool { return !strings.Contains("ZX", state(pid)) }

// pidIn reads the number that a command writes into a file, once it is whole.
// The process is ended with the test: it may not be found by its environment.
func (s *site) pidIn(name string) (pid int) {
	s.Helper()
	s.until(name+" holds a pid", func() bool {
		n, err := fmt.Sscanf(s.file(name), "%d\n", &pid)
		return n == 1 && err == nil
	})
	s.Cleanup(func() {
		if pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
	})
	return pid
}

// charged checks failures and crashes of an item.
func (s *site) charged(key string, failures, crashes int) {
	s.Helper()
	for _, it := range s.items(store.Selection{Key: []byte(key)}) {
		if it.Failures != failures || it.Crashes != crashes {
			s.Errorf("item %s was charged %d failures, %d crashes; want %d and %d", key, it.Failures, it.Crashes, failures, crashes)
		}
	}
}

// wantStarts checks how often an item's command began, and that it was never
// beside itself.
func (s *site) wantStarts(key string, n int) {
	s.Helper()
	events := s.log()
	s.notBeside(events)
	if got := runs(events, "start")[key]; got != n {
		s.Errorf("%s started %d times, want %d", key, got, n)
	}
}

// copyByBackup is a site with a copy of the database, made by batchq itself.
func (s *site) copyByBackup(t *testing.T) *site {
	c := setup(t)
	c.self = s.self
	s.want(0, "backup", c.db)
	return c
}

// setClock makes a file that says how far the clock of the site's commands is
// off; a command finds it through clockEnv.
func (s *site) setClock(off string) {
	s.Helper()
	next := filepath.Join(s.dir, "clock.new")
	s.must(os.WriteFile(next, []byte(off), 0o600))
	s.must(os.Rename(next, filepath.Join(s.dir, "clock"))) // it is read at any moment
}

// clocked starts a command line under the site's clock.
func (s *site) clocked(args ...string) *started {
	s.Helper()
	c := s.command(args...)
	c.Env = append(c.Env, "BATCHQ_FAULT_CLOCK="+filepath.Join(s.dir, "clock"))
	return s.start(c)
}

// negative is a number below zero where an age or a count should stand.
var negative = regexp.MustCompile(`(?m)(^|[\s":(,])-[0-9.]+(ms|s|m|h|d|,|\s|$)`)

// noNegatives checks what people see of ages, under the site's clock.
func (s *site) noNegatives() {
	s.Helper()
	for _, args := range [][]string{{"stats"}, {"stats", "--json"}, {"dlq", "list"}, {"dlq", "list", "--json"}, {"runs", "list"}, {"runs", "list", "--json"}, {"doctor"}} {
		r := s.clocked(args...).wait()
		if found := negative.FindString(r.stdout + r.stderr); found != "" || r.code != 0 {
			s.Errorf("batchq %s: %q is negative: %s", strings.Join(args, " "), found, r)
		}
	}
}
