package cmd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// traced is a system call that a process made, as strace saw it, or its end.
type traced struct {
	pid        string
	name       string // of the call; "exited"
	args       string
	begin, end int // line of the trace in which it begins, and in which it has returned
	result     string
}

var (
	tracedWhole = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (.*)$`)
	tracedBegin = regexp.MustCompile(`^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$`)
	tracedEnd   = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (.*)$`)
	tracedExit  = regexp.MustCompile(`^(\d+) +\+\+\+ (?:exited with|killed by) (.*) \+\+\+$`)
)

// trace runs a command line under strace and returns its calls in the order in
// which they began. It skips the test where nothing can be traced.
func (s *site) trace(stdin string, args ...string) (calls []*traced, r result) {
	s.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		s.Skip("there is no strace here")
	}
	out := filepath.Join(s.dir, "trace")
	c := s.command()
	c.Path = strace
	c.Args = append([]string{"strace", "-f", "-y", "-s", "64", "-o", out,
		"-e", "trace=write,pwrite64,writev,pwritev,fsync,fdatasync,execve,ftruncate", "-e", "signal=none", s.self}, args...)
	c.Stdin = strings.NewReader(stdin)
	r = s.result(c)
	if bytes.Contains([]byte(r.stderr), []byte("ptrace")) {
		s.Skipf("nothing can be traced here: %s", r.stderr)
	}
	text, err := os.ReadFile(out)
	s.must(err)
	open := map[string]*traced{}
	for i, line := range strings.Split(string(text), "\n") {
		if m := tracedWhole.FindStringSubmatch(line); m != nil {
			calls = append(calls, &traced{pid: m[1], name: m[2], args: m[3], begin: i, end: i, result: m[4]})
		} else if m := tracedBegin.FindStringSubmatch(line); m != nil {
			open[m[1]] = &traced{pid: m[1], name: m[2], args: m[3], begin: i, end: -1}
			calls = append(calls, open[m[1]])
		} else if m := tracedEnd.FindStringSubmatch(line); m != nil && open[m[1]] != nil {
			c := open[m[1]]
			c.args, c.end, c.result = c.args+m[3], i, m[4]
			delete(open, m[1])
		} else if m := tracedExit.FindStringSubmatch(line); m != nil {
			calls = append(calls, &traced{pid: m[1], name: "exited", begin: i, end: i, result: m[2]})
		}
	}
	return calls, r
}

func (c *traced) log() bool    { return strings.Contains(c.args, "/q.db-wal>") }
func (c *traced) writes() bool { return strings.Contains(c.name, "write") && c.log() }
func (c *traced) syncs() bool {
	return (c.name == "fsync" || c.name == "fdatasync") && c.log() && c.end >= 0 && c.result == "0"
}

// unsynced lists what was written into the log from one line on and not synced
// before another: by a call that began after the write had returned, and has
// returned itself. written counts all.
func unsynced(calls []*traced, from, to int) (written int, loose []*traced) {
	for _, w := range calls {
		if !w.writes() || w.begin < from || w.begin >= to {
			continue
		}
		written++
		safe := false
		for _, c := range calls {
			safe = safe || c.syncs() && w.end >= 0 && c.begin > w.end && c.end < to
		}
		if !safe {
			loose = append(loose, w)
		}
	}
	return written, loose
}

func (s *site) wantSynced(what string, calls []*traced, from, to int) {
	s.Helper()
	written, loose := unsynced(calls, from, to)
	if written == 0 || len(loose) > 0 {
		s.Errorf("%s: of %d writes into the log before it %d were not synced", what, written, len(loose))
	}
}

// first finds a call in the trace.
func (s *site) first(calls []*traced, what string, ok func(*traced) bool) *traced {
	s.Helper()
	for _, c := range calls {
		if ok(c) {
			return c
		}
	}
	s.Fatalf("the trace has no %s", what)
	return nil
}

// executed finds the execve of the item's command.
func (s *site) executed(calls []*traced, key string) *traced {
	s.Helper()
	return s.first(calls, "execve for "+key, func(c *traced) bool {
		return c.name == "execve" && strings.Contains(c.args, fmt.Sprintf(`item.sh", %q]`, key)) && c.result == "0"
	})
}

// A power cut costs nothing that was acknowledged: the log is on the disk
// before enqueue says so, before the next item starts on the result of a
// settled one, and, where a job must not be repeated, before its command is
// executed at all.
func TestFile_SyncedBeforeItIsSaid(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\nexit 0\n")
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"./item.sh\", \"{key}\"]\n[jobs.pay]\non_crash = \"dead\"\ncommand = [\"./item.sh\", \"{key}\"]\n")
	s.enqueue("j", []string{"zero"})
	// Somebody else has it open too: else closing it syncs everything.
	db := s.other()
	var n int
	s.must(db.QueryRow("SELECT count(*) FROM item").Scan(&n))

	calls, r := s.trace("one\ntwo", "enqueue", "j")
	s.expect(r, 0)
	said := s.first(calls, "summary", func(c *traced) bool { return c.name == "write" && strings.Contains(c.args, `"added 2, `) })
	s.wantSynced("enqueue's summary", calls, 0, said.begin)

	calls, r = s.trace("", "work", "j")
	s.expect(r, 0)
	for _, pair := range [][2]string{{"zero", "one"}, {"one", "two"}} {
		before, next := s.executed(calls, pair[0]), s.executed(calls, pair[1])
		exit := s.first(calls, "exit of "+pair[0], func(c *traced) bool { return c.name == "exited" && c.pid == before.pid })
		s.wantSynced("the start of "+pair[1], calls, exit.begin, next.begin)
	}
	said = s.first(calls, "summary", func(c *traced) bool { return c.name == "write" && strings.Contains(c.args, `"done 3, `) })
	s.wantSynced("work's summary", calls, 0, said.begin)
	if _, loose := unsynced(calls, 0, s.executed(calls, "zero").begin); len(loose) == 0 {
		t.Log("also the first start was synced, which nobody asks for")
	}

	s.enqueue("pay", []string{"a", "b"})
	calls, r = s.trace("", "work", "pay")
	s.expect(r, 0)
	for _, key := range []string{"a", "b"} {
		s.wantSynced("the execution of "+key+`, which on_crash = "dead" forbids to repeat`, calls, 0, s.executed(calls, key).begin)
	}
	s.must(db.Close())
	s.wantTotals(map[string]int{"done": 5})
	s.tidy()
}
