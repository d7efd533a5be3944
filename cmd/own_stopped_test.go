package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A run that is stopped for longer than its lease is ended before anything of
// it runs again, and nothing runs a third time.
func TestOwn_StoppedRun(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"AtWork": "",
		// The start is on record, and the command was not yet executed.
		"BeforeExec": "exec/ready=stop",
		// It was executed, and its pid is not yet on record.
		"AfterExec": "exec/forked=stop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupFaulty(t)
			s.write("item.sh", logged+"say start\n[ -e go ] || sleep 600\nsay end\n")
			s.enqueue("j", []string{"a", "b", "c"})
			line := []string{"work", "j", "--wait", "--lease", "1s", "--", "./item.sh"}
			c := s.command(line...)
			if fault != "" {
				c.Env = append(c.Env, "BATCHQ_FAULT="+fault)
			}
			p := s.start(c)
			starts := 1
			switch name {
			case "AtWork":
				s.until("a runs", func() bool { return s.count("start") == 1 })
				p.signal(syscall.SIGSTOP)
			case "BeforeExec":
				s.stands(c.Process.Pid)
				starts = 0
			default:
				s.stands(c.Process.Pid)
				s.until("a runs", func() bool { return s.count("start") == 1 })
			}
			s.write("go", "")
			second, third := s.running(line...), s.running(line...)
			said := second.endsWith(0).stderr + third.endsWith(0).stderr
			if strings.Count(said, "let its lease lapse twice: ending it") == 0 {
				t.Errorf("said: %s", said)
			}
			p.endsWith(128 + int(syscall.SIGKILL))
			s.wantStarts("a", starts+1)
			s.wantStarts("b", 1)
			s.wantStarts("c", 1)
			s.charged("a", 0, 1)
			s.wantTotals(map[string]int{"done": 3})
			s.tidy()
		})
	}
}

// A run is stopped inside a transaction, and with it all writing. The next run
// waits for the lock twice, then ends it; an enqueue waits as long as for any
// other program, and says that one holds the database.
func TestOwn_StoppedInATransaction(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes two waits for the lock, of a minute each")
	}
	s := setupFaulty(t)
	s.write("item.sh", logged+"say start\n[ -e go ] || sleep 600\nsay end\n")
	s.enqueue("j", []string{"a", "b"})
	line := []string{"work", "j", "--lease", "4s", "--", "./item.sh"}
	c := s.command(line...)
	c.Env = append(c.Env, "BATCHQ_FAULT=renewing-the-lease/begun=stop")
	p := s.start(c)
	s.stands(c.Process.Pid)
	s.until("a runs", func() bool { return s.count("start") == 1 })
	s.write("go", "")
	second := s.running(line...)
	r := s.batchq("", "enqueue", "j", "--item", "c")
	if r.code != 1 || !strings.Contains(r.stderr, "another program holds the database") {
		t.Error(r)
	}
	r = second.endsWith(0)
	for _, want := range []string{"is stopped, its lease has lapsed, and the database can't be written: it is ended unless it goes on (kill -CONT ", "let its lease lapse twice: ending it"} {
		if strings.Count(r.stderr, want) != 1 {
			t.Errorf("want once %q: %s", want, r)
		}
	}
	p.endsWith(128 + int(syscall.SIGKILL))
	s.wantStarts("a", 2)
	s.wantStarts("b", 1)
	s.charged("a", 0, 1)
	s.wantTotals(map[string]int{"done": 2})
	s.tidy()
}

// namespaced is a command line in a pid namespace of its own, under the process
// that made it. The test is skipped where that can't be done.
func (s *site) namespaced(args ...string) *exec.Cmd {
	s.Helper()
	return s.inNamespace(s.self, args...)
}

// inNamespace is as namespaced, for any program.
func (s *site) inNamespace(program string, args ...string) *exec.Cmd {
	s.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		s.Skip(err)
	}
	own := []string{"unshare", "-pf", "--mount-proc", "--kill-child"}
	if out, err := exec.Command(unshare, append(own[1:], "true")...).CombinedOutput(); err != nil {
		s.Skipf("a pid namespace of its own can't be made here: %v: %s", err, out)
	}
	c := s.command()
	c.Path, c.Args = unshare, append(append(own, program), args...)
	return c
}

// childOf is the process that another one has started.
func (s *site) childOf(pid int) (child int) {
	s.Helper()
	s.until("it has a child", func() bool {
		out, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
		n, scanned := 0, error(nil)
		if err == nil {
			n, scanned = strconv.Atoi(strings.TrimSpace(string(out)))
		}
		child = n
		return err == nil && scanned == nil
	})
	return child
}

// The old owner's late error cleared the new owner's lock, and the item was
// started a third time (delayed_job_active_record#193, delayed_job#554). Here
// the first run is stopped in a pid namespace of its own, where nobody can end
// it; its item is taken over when its timeout is past; and when it goes on its
// result is refused, while the second one's lease stays as it is and a third
// run waits.
func TestOwn_StoppedWhereNobodyCanEndIt(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("first.sh", logged+"say start\nwhile [ ! -e go1 ]; do sleep 0.02; done\nsay end\nexit 75\n")
	s.write("second.sh", logged+"say start\nwhile [ ! -e go2 ]; do sleep 0.02; done\nsay end\n")
	s.enqueue("j", []string{"a"})
	limits := []string{"--lease", "1s", "--timeout", "3s", "--kill-after", "1s"}
	c := s.namespaced(append(append([]string{"work", "j"}, limits...), "--", "./first.sh")...)
	p := s.start(c)
	s.until("it runs", func() bool { return s.count("start") == 1 || p.ended() })
	run := s.childOf(c.Process.Pid)
	s.must(syscall.Kill(run, syscall.SIGSTOP))
	s.stands(run)
	s.write("go1", "") // its command comes to its end; its run does not hear of it
	s.until("its command has ended", func() bool { return s.count("end") == 1 })

	line := append(append([]string{"work", "j", "--wait"}, "--lease", "1s"), "--", "./second.sh")
	second := s.running(line...)
	s.until("the item runs again", func() bool { return s.count("start") == 2 })
	third := s.running(line...)
	holder := s.holder()
	s.must(syscall.Kill(run, syscall.SIGCONT))
	r := p.wait()
	if !strings.Contains(r.stderr, "came too late and was refused") && !strings.Contains(r.stderr, "took this one for dead") {
		t.Errorf("the first run: %s", r)
	}
	time.Sleep(1500 * time.Millisecond) // a lease and half of another
	if second.ended() || third.ended() || s.holder() != holder || s.count("start") != 2 {
		t.Errorf("ended: %v, %v; held by run %d, was by %d; log %v", second.ended(), third.ended(), s.holder(), holder, s.log())
	}
	s.write("go2", "")
	second.endsWith(0)
	third.endsWith(0)
	s.wantStarts("a", 2)
	s.charged("a", 0, 1)
	s.wantTotals(map[string]int{"done": 1})
	s.tidy()
}

// Two runs have the same pid and the same host name, in two pid namespaces:
// neither takes the other for dead while it lives, and its death is seen.
func TestOwn_SamePIDInTwoNamespaces(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"echo $PPID >>ppids\nsay start\nwhile [ ! -e go.$key ]; do sleep 0.02; done\nsay end\n")
	s.enqueue("j", []string{"a"})
	s.enqueue("k", []string{"b"})
	line := func(job string) []string {
		return []string{"work", job, "--lane", job, "--lease", "1s", "--timeout", "3s", "--kill-after", "1s", "--", "./item.sh"}
	}
	first, second := s.start(s.namespaced(line("j")...)), s.start(s.namespaced(line("k")...))
	s.until("both work", func() bool { return s.count("start") == 2 || first.ended() || second.ended() })
	if got := s.lines("ppids"); len(got) != 2 || got[0] != got[1] {
		t.Skipf("they have the pids %v", got)
	}
	time.Sleep(2 * time.Second) // each has looked at the other for two leases
	if n := s.count("start"); n != 2 || first.ended() || second.ended() {
		t.Fatalf("ended: %v, %v; %d starts", first.ended(), second.ended(), n)
	}
	first.kill() // its namespace ends with it, and its command
	s.write("go.b", "")
	second.endsWith(0)
	s.write("go.a", "")
	s.until("a is done", func() bool { return s.result(s.command(line("j")...)).code == 0 })
	s.wantStarts("a", 2)
	s.wantStarts("b", 1)
	s.wantTotals(map[string]int{"done": 2})
	s.tidy()
}

// Without its lock file a run lives by its lease: nobody takes its items as
// long as it renews, and when it is dead they come back within the lease and
// half of another.
func TestOwn_NoLockFile(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\n[ -e go ] || sleep 600\nsay end\n")
	s.enqueue("j", []string{"a", "b"})
	line := []string{"work", "j", "--wait", "--lease", "1s", "--", "./item.sh"}
	p := s.running(line...)
	s.until("a runs", func() bool { return s.count("start") == 1 })
	locks, err := filepath.Glob(s.db + "-run-*")
	if s.must(err); len(locks) != 1 {
		t.Fatalf("lock files: %v", locks)
	}
	s.must(os.Remove(locks[0]))
	second := s.running(line...)
	time.Sleep(2500 * time.Millisecond)
	if p.ended() || second.ended() || s.count("start") != 1 {
		t.Fatalf("ended: %v, %v; log: %v", p.ended(), second.ended(), s.log())
	}
	s.write("go", "")
	p.kill()
	second.endsWith(0)
	s.wantStarts("a", 2)
	s.wantStarts("b", 1)
	s.charged("a", 0, 1)
	s.tidy()
}
