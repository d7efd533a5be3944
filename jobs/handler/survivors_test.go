package handler

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// spawn starts sh -c text with the given environment added, in a group of its
// own, as a run that has died would have left it. It is reaped at the end.
func spawn(t *testing.T, text string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", text)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

// awaitSleep waits until the shells have become sleep: until then their
// environment reads as their parent's, or empty.
func awaitSleep(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		until(t, "it sleeps", func() bool {
			var buf [1024]byte
			p, err := readStat(pid, buf[:])
			return err == nil && p.Name == "sleep" && p.state == 'S'
		})
	}
}

func survivorPIDs(t *testing.T, orphans ...Orphan) []int {
	t.Helper()
	found, err := Survivors(orphans)
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{}
	for _, p := range found {
		pids = append(pids, p.PID)
	}
	slices.Sort(pids)
	return pids
}

func TestSurvivors_Mark(t *testing.T) {
	mark := newMark()
	a := spawn(t, "exec "+sleepers, "BATCHQ_MARK="+mark+"-1")
	b := spawn(t, "exec "+sleepers, "BATCHQ_MARK="+mark+"-12")
	awaitSleep(t, a.Process.Pid, b.Process.Pid)
	want := func(orphan Orphan, pids ...int) {
		t.Helper()
		slices.Sort(pids)
		if got := survivorPIDs(t, orphan); !slices.Equal(got, pids) {
			t.Errorf("%+v: got %v, want %v", orphan, got, pids)
		}
	}
	want(Orphan{Mark: mark + "-1"}, a.Process.Pid)
	want(Orphan{Mark: mark + "-12"}, b.Process.Pid)
	want(Orphan{Mark: mark + "-", Prefix: true}, a.Process.Pid, b.Process.Pid)
	want(Orphan{Mark: mark})
	want(Orphan{})
	found, err := Survivors([]Orphan{{Mark: mark + "-x"}, {Mark: mark + "-1"}})
	if err != nil || len(found) != 1 || found[0].Orphan != 1 || found[0].Name != "sleep" || found[0].Start == 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestSurvivors_NeverItselfOrAnAncestor(t *testing.T) {
	// The mark stands in the environment of the process that asks and of its
	// parent: the test binary is run twice, by a shell.
	if mark := os.Getenv("HANDLER_TEST_SURVIVORS"); mark != "" {
		found, err := Survivors([]Orphan{{Mark: mark}})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found {
			t.Errorf("found %+v", p)
		}
		return
	}
	mark := newMark()
	cmd := exec.Command("sh", "-c", `"$0" -test.run '^TestSurvivors_NeverItselfOrAnAncestor$'; exit $?`, os.Args[0])
	cmd.Env = append(os.Environ(), "BATCHQ_MARK="+mark, "HANDLER_TEST_SURVIVORS="+mark)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSurvivors_Group(t *testing.T) {
	dir := t.TempDir()
	// A leader whose child has no mark (env -i), and one that has another's.
	cmd := spawn(t, "env -i /bin/"+sleepers+" & echo $! >"+dir+"/bare; BATCHQ_MARK=another "+sleepers+" & echo $! >"+dir+"/other; wait")
	leader := cmd.Process.Pid
	bare, other := pidFile(t, dir+"/bare"), pidFile(t, dir+"/other")
	start, err := StartTime(leader)
	if err != nil {
		t.Fatal(err)
	}
	awaitSleep(t, bare, other)
	orphan := Orphan{Mark: newMark(), PID: leader, Start: start}
	want := func(o Orphan, pids ...int) {
		t.Helper()
		slices.Sort(pids)
		if got := survivorPIDs(t, o); !slices.Equal(got, pids) {
			t.Errorf("%+v: got %v, want %v (leader %d, bare %d, other %d)", o, got, pids, leader, bare, other)
		}
	}
	want(orphan, leader, bare)
	wrong := orphan
	wrong.Start--
	want(wrong) // the pid is a stranger's now
	wrong.Start = 0
	want(wrong) // can't be verified

	// A zombie leader still proves the group, and doesn't count itself.
	if err := syscall.Kill(leader, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the leader is dead", func() bool { return !alive(leader) })
	want(orphan, bare)

	// Reaped, it proves nothing; an environment that reads empty is no alibi.
	_ = cmd.Wait()
	want(orphan, bare)
	late := orphan
	if late.Start, err = StartTime(bare); err != nil {
		t.Fatal(err)
	}
	late.Start++
	want(late) // it started before the leader did: another's group
}

func TestSurvivors_StrangersGroup(t *testing.T) {
	dir := t.TempDir()
	cmd := spawn(t, sleepers+" & echo $! >"+dir+"/pid; exit 0")
	child := pidFile(t, dir+"/pid")
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	awaitSleep(t, child)
	// The leader is gone, and the member's environment shows that no attempt
	// of ours has started it: the group's number has been used again.
	if got := survivorPIDs(t, Orphan{Mark: newMark(), PID: cmd.Process.Pid, Start: start}); len(got) != 0 {
		t.Errorf("a stranger was taken for a survivor: %v", got)
	}
}

func TestEnd_TermThenKill(t *testing.T) {
	dir := t.TempDir()
	mark := newMark()
	gentle := spawn(t, "trap ': >"+dir+"/heard; exit 0' TERM; : >"+dir+"/up1; while :; do sleep 0.01; done", "BATCHQ_MARK="+mark)
	deaf := spawn(t, "trap '' TERM; : >"+dir+"/up2; while :; do sleep 0.01; done", "BATCHQ_MARK="+mark)
	stopped := spawn(t, ": >"+dir+"/up3; kill -STOP $$; sleep 1", "BATCHQ_MARK="+mark)
	for _, up := range []string{"/up1", "/up2", "/up3"} {
		until(t, up, func() bool { return exists(dir + up) })
	}
	left, err := End(t.Context(), []Orphan{{Mark: mark}}, 300*time.Millisecond)
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	for _, cmd := range []*exec.Cmd{gentle, deaf, stopped} {
		if alive(cmd.Process.Pid) {
			t.Errorf("process %d is left", cmd.Process.Pid)
		}
	}
	if !exists(dir + "/heard") {
		t.Error("no TERM before KILL")
	}
}

func TestEnd_ForkingOnes(t *testing.T) {
	mark := newMark()
	dir := t.TempDir()
	spawn(t, "trap '' TERM; : >"+dir+"/up; while :; do (sleep 0.02; sleep 0.02) & sleep 0.005; done", "BATCHQ_MARK="+mark)
	until(t, "up", func() bool { return exists(dir + "/up") })
	if left, err := End(t.Context(), []Orphan{{Mark: mark}}, 0); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if got := survivorPIDs(t, Orphan{Mark: mark}); len(got) != 0 {
		t.Errorf("left %v", got)
	}
}

func TestEnd_Nothing(t *testing.T) {
	for _, orphans := range [][]Orphan{nil, {{Mark: newMark()}}, {{PID: 1, Start: 1}}} {
		if left, err := End(t.Context(), orphans, time.Hour); err != nil || len(left) != 0 {
			t.Errorf("%v: left %v, %v", orphans, left, err)
		}
	}
}

func TestEnd_Cancelled(t *testing.T) {
	mark := newMark()
	dir := t.TempDir()
	cmd := spawn(t, "trap ': >"+dir+"/told' TERM; : >"+dir+"/up; while :; do sleep 0.01; done", "BATCHQ_MARK="+mark)
	until(t, "up", func() bool { return exists(dir + "/up") })
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	endWhen(t, dir+"/told", cancel, cause)
	left, err := End(ctx, []Orphan{{Mark: mark}}, time.Hour)
	if !errors.Is(err, cause) || !slices.ContainsFunc(left, func(p Process) bool { return p.PID == cmd.Process.Pid }) {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestEnd_AnotherUsers(t *testing.T) {
	if os.Getuid() == 0 {
		// As root nothing is denied; the rule is then tested by its parts.
		if !denied(unix.EPERM) || denied(unix.ESRCH) {
			t.Error("denied is not EPERM")
		}
		t.Skip("root may signal everybody")
	}
	p := Process{PID: 1}
	p.Start, _ = StartTime(1)
	if err := p.signal(0); !denied(err) {
		t.Errorf("got %v", err)
	}
}

func TestProcess_SignalNeverHitsAnother(t *testing.T) {
	cmd := spawn(t, "exec "+sleepers)
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	wrong := Process{PID: cmd.Process.Pid, Start: start - 1}
	if err := wrong.signal(unix.SIGKILL); err != nil {
		t.Errorf("a process that is gone is no error: %v", err)
	}
	if !alive(cmd.Process.Pid) {
		t.Fatal("a stranger was killed")
	}
	right := Process{PID: cmd.Process.Pid, Start: start}
	if err := right.signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	until(t, "it is killed", func() bool { return !alive(cmd.Process.Pid) })
	_ = cmd.Wait()
	if err := right.signal(unix.SIGKILL); err != nil {
		t.Errorf("a process that is gone is no error: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c)) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 123456789 1000 2 18446744073709551615 1\n"
	p, err := parseStat([]byte(line))
	if err != nil || p.PID != 42 || p.Name != "a) b (c)" || p.state != 'S' || p.parent != 7 || p.group != 8 || p.threads != 3 || p.Start != 123456789 {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, bad := range []string{"", "42", "42 (x", ") 42 (", "42 (x) S 1 2", strings.Replace(line, "123456789", "x", 1), strings.Replace(line, " 7 8 9", " x 8 9", 1)} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v", bad, p)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b (c)) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456789 1000 2"))
	f.Add([]byte("1 () Z"))
	f.Fuzz(func(t *testing.T, line []byte) { _, _ = parseStat(line) })
}

func TestMarkOf(t *testing.T) {
	for environ, want := range map[string]marking{
		"":                                    {},
		"A=1\x00BATCHQ_MARK=m\x00B=2\x00":     {mark: "m"},
		"BATCHQ_MARK=m":                       {mark: "m"},
		"XBATCHQ_MARK=m\x00":                  {stranger: true},
		"A=BATCHQ_MARK=m\x00":                 {stranger: true},
		"BATCHQ_MARK=\x00":                    {stranger: true},
		"nginx: worker process\x00\x00\x00":   {},
		"title\x00\x00BATCHQ_MARK=m\x00":      {mark: "m"},
		"A=1\x00BATCHQ_MARK=a\x00PATH=/\x00B": {mark: "a"},
	} {
		if got := markOf([]byte(environ)); got != want {
			t.Errorf("%q: got %+v, want %+v", environ, got, want)
		}
	}
}

func TestIdentityOfThisBoot(t *testing.T) {
	boot, err := BootID()
	if err != nil || len(boot) != 36 {
		t.Errorf("boot id %q, %v", boot, err)
	}
	ns, err := PIDNamespace()
	if err != nil || !strings.HasPrefix(ns, "pid:[") {
		t.Errorf("pid namespace %q, %v", ns, err)
	}
	if start, err := StartTime(os.Getpid()); err != nil || start == 0 {
		t.Errorf("start time %d, %v", start, err)
	}
	if _, err := StartTime(1 << 30); err == nil {
		t.Error("a process that can't exist has a start time")
	}
}
