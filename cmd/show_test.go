package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"batchq/report"
)

// shows is what show says of an item, as a document and for people.
func (s *site) shows(args ...string) (doc report.Show, text string) {
	s.Helper()
	s.must(json.Unmarshal([]byte(s.want(0, append([]string{"show", "--json"}, args...)...).stdout), &doc))
	return doc, strings.Join(strings.Fields(s.want(0, append([]string{"show"}, args...)...).stdout), " ")
}

// codes are the reasons, in order.
func codes(doc report.Show) (codes []string) {
	for _, w := range doc.Why {
		codes = append(codes, w.Code)
	}
	return codes
}

func (s *site) wantCodes(doc report.Show, want ...string) {
	s.Helper()
	if got := codes(doc); !slices.Equal(got, want) {
		s.Fatalf("%v, want %v: %+v", got, want, doc.Why)
	}
}

func (s *site) wantText(text, part string) {
	s.Helper()
	if !strings.Contains(text, part) {
		s.Errorf("no %q in:\n%s", part, text)
	}
}

// gone waits until a process has ended.
func (s *site) gone(pid int) {
	s.Helper()
	s.until(fmt.Sprintf("process %d has ended", pid), func() bool { return !working(pid) })
}

// From the start to the end of an item under a run that is killed, and under
// the next one, which has to end what that left behind.
func TestShow_ItsRunDies(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a"})
	s.write("stays", "#!/bin/sh\ntrap '' TERM\necho $$ > pid\nwhile [ -z \"$(ls go 2>/dev/null)\" ]; do sleep 0.02; done\n")
	p := s.running("work", "j", "--kill-after", "50s", "--", "./stays")
	pid := s.pidIn("pid")
	var doc report.Show
	var text string
	s.until("its process is on record", func() bool {
		doc, text = s.shows("j", "a")
		return doc.HeldBy != nil && doc.HeldBy.CommandPID == pid
	})
	s.wantCodes(doc, "running")
	if h := doc.HeldBy; h.State != report.Alive || h.PID != p.cmd.Process.Pid || h.TimeoutAt == nil || h.LeftBy != nil {
		t.Errorf("held by %+v", h)
	}
	s.wantText(text, fmt.Sprintf("run 1 (pid %d) has it at work since", p.cmd.Process.Pid))
	s.wantText(text, fmt.Sprintf("attempt 1, process %d; its timeout ends it at", pid))

	p.kill()
	doc, text = s.shows("j", "a")
	s.wantCodes(doc, "run_dead")
	s.wantText(text, "is dead: the next work ends what it left behind, and makes the item ready again (crash 1 of 3) to have it taken back: batchq work j -- COMMAND {}")
	if doc.HeldBy.State != report.Dead {
		t.Errorf("held by %+v", doc.HeldBy)
	}

	next := s.running("work", "j", "--", "true")
	s.until("it is taken over", func() bool {
		doc, text = s.shows("j", "a")
		return doc.Why[0].Code == "left_behind"
	})
	s.wantText(text, "run 1, which started it, is dead, and run 2 has taken over attempt 1")
	s.wantText(text, "it stays held until what that left behind has ended")
	by := doc.HeldBy.LeftBy
	if by == nil || by.Run != 1 || !by.Looked || !slices.ContainsFunc(by.Processes, func(p report.Process) bool { return p.PID == pid && p.Reason == "" && !p.Doubtful }) {
		t.Errorf("left by %+v", by)
	}
	s.wantText(text, fmt.Sprintf("- process %d (stays) lives: a run that looks ends it", pid))
	s.write("go", "")
	s.expect(next.wait(), 0, "work")
	doc, text = s.shows("j", "a")
	s.wantCodes(doc, "done")
	if h := doc.History; len(h) != 2 || h[0].Class != "crash" || *h[0].Run != 1 || h[1].Class != "done" || h[1].Number != 2 || doc.HeldBy != nil {
		t.Errorf("history %+v", h)
	}
	s.wantText(text, "crashes 1 of 3")
	s.tidy()
}

// In another pid namespace nobody can be asked: what holds the item and the way
// out are named, and that way leads out.
func TestShow_HeldElsewhere(t *testing.T) {
	t.Parallel()
	for _, timeout := range []string{"1h", "0"} {
		t.Run(timeout, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.enqueue("j", []string{"a"})
			p := s.running("work", "j", "--timeout", timeout, "--", "sh", "-c", "echo $$ > pid; exec sleep 1000")
			pid := s.pidIn("pid")
			p.kill()
			s.until("it began elsewhere", func() bool { return s.sql("UPDATE run SET pid_ns = 'pid:[1]'") })
			s.want(75, "work", "j", "--", "true")
			doc, text := s.shows("1")
			s.wantCodes(doc, "left_behind")
			s.wantText(text, "it began in another pid namespace, where nobody can be asked from here")
			s.wantText(text, map[string]string{"1h": "it stays held until its timeout is over, at ", "0": "and has no timeout: it stays held until a person drops it"}[timeout])
			s.wantText(text, "to give the item up when you know that it has ended: batchq drop 1")
			if by := doc.HeldBy.LeftBy; by.Looked || len(by.Processes) > 0 || doc.HeldBy.State != report.Ended {
				t.Errorf("held by %+v, left by %+v", doc.HeldBy, by)
			}
			s.want(0, "drop", "1")
			doc, _ = s.shows("1")
			s.wantCodes(doc, "dropped")
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			s.gone(pid)
			s.tidy()
		})
	}
}

// A process that cleared its environment, and whose leader is gone, may be a
// stranger's: it is named, with what to type, and when it has ended the item
// goes on.
func TestShow_HeldByADoubtfulProcess(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a"})
	s.write("leads", "#!/bin/sh\nenv -i PATH=\"$PATH\" sh -c 'echo $$ > pid; while :; do sleep 0.05; done' &\necho $$ > leader\nwait\n")
	p := s.running("work", "j", "--", "./leads")
	pid, leader := s.pidIn("pid"), s.pidIn("leader")
	s.until("its process is on record", func() bool {
		doc, _ := s.shows("1")
		return doc.HeldBy.CommandPID == leader
	})
	p.kill()
	s.must(syscall.Kill(leader, syscall.SIGKILL))
	s.until("its leader is reaped", func() bool { return state(leader) == "" }) // a zombie would still prove the group
	s.want(75, "work", "j", "--", "true")
	doc, text := s.shows("1")
	s.wantText(text, "it stays held until what that left behind has ended")
	s.wantText(text, fmt.Sprintf("- process %d (sh), which may belong to it, lives and is not ended from here: it may be another's", pid))
	s.wantText(text, fmt.Sprintf("to end it, as who may: kill %d", pid))
	if !slices.ContainsFunc(doc.HeldBy.LeftBy.Processes, func(p report.Process) bool { return p.PID == pid && p.Doubtful }) {
		t.Errorf("left by %+v", doc.HeldBy.LeftBy)
	}
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.until("nothing is left", func() bool { // its sleep outlives it for a moment
		doc, text = s.shows("1")
		return len(doc.HeldBy.LeftBy.Processes) == 0
	})
	s.wantText(text, "nothing of that is left, and the next look of a run makes it ready again to have it taken back: batchq work j -- COMMAND {}")
	// The run before has ended as it should, and is not called dead.
	s.wantText(s.want(0, "work", "j", "--", "true").stderr, "batchq: run 2 has ended: 1 item taken over that a dead run's processes may still hold")
	s.wantTotals(map[string]int{"done": 1})
}

// It reads an older database as it is, beside a run that writes without a
// pause, and makes none.
func TestShow_OnlyLooks(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[jobs.j]\nshell = ':'\n")
	s.enqueue("j", sequence(300))
	p := s.running("work", "j", "-q")
	looked := 0
	for !p.ended() {
		s.shows("j", "300")
		looked++
	}
	s.expect(p.wait(), 0, "work")
	t.Logf("looked %d times", looked)
	s.older()
	doc, _ := s.shows("j", "300")
	s.wantCodes(doc, "done")
	s.want(3, "show", "j", "301")
	if v := s.version(); v != 1 {
		t.Errorf("it was migrated to %d", v)
	}
	r := s.want(78, "show", "1", "--db", filepath.Join(s.dir, "none.db"))
	if !strings.Contains(r.stderr, "no database at") {
		t.Error(r)
	}
}

// What another user started is named as such by who may not end it.
func TestShow_HeldByAnotherUsersProcess(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	s := setup(t)
	s.must(os.Chmod(filepath.Dir(s.dir), 0o755))
	for dir := filepath.Dir(s.dir); dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		s.must(err)
		if info.Mode()&1 == 0 {
			t.Skipf("nobody else may reach %s", dir)
		}
	}
	s.enqueue("j", []string{"a"})
	p := s.running("work", "j", "--kill-after", "50s", "--", "sh", "-c", "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")
	pid := s.pidIn("pid")
	s.until("its process is on record", func() bool {
		doc, _ := s.shows("1")
		return doc.HeldBy.CommandPID == pid
	})
	p.kill()
	next := s.running("work", "j", "--", "true")
	s.until("it is taken over", func() bool {
		doc, _ := s.shows("1")
		return codes(doc)[0] == "left_behind"
	})
	next.kill() // it would end the process
	// nobody can neither signal it nor read its environment: its group tells of it.
	const nobody = 65534
	self, err := os.ReadFile(s.self)
	s.must(err)
	own := filepath.Join(s.dir, "batchq")
	s.must(os.WriteFile(own, self, 0o755))
	for _, path := range append(s.beside(), s.dir) {
		s.must(os.Chown(path, nobody, nobody))
	}
	c := s.command("show", "1")
	c.Path = own
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	r := s.result(c)
	s.expect(r, 0, "show")
	s.wantText(strings.Join(strings.Fields(r.stdout), " "), fmt.Sprintf("- process %d (sh) lives and is not ended from here: it is another user's to end it, as who may: kill %d", pid, pid))
}

// beside are the database and what lies beside it.
func (s *site) beside() []string {
	s.Helper()
	paths, err := filepath.Glob(s.db + "*")
	s.must(err)
	return paths
}
