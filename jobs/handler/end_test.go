package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
)

// sleepers is a number of seconds that no other process sleeps for; what is
// not ended within a test is seen by run as left over.
const sleepers = "sleep 3600"

func TestRun_GroupEndsWithTheLeader(t *testing.T) {
	dir := t.TempDir()
	for _, form := range []string{
		sleepers + " & echo $! >PID; exit 5",
		"{ " + sleepers + "; } & echo $! >PID; exit 5",
		"( " + sleepers + " & echo $! >PID ); exit 5",
		sleepers + " | " + sleepers + " & echo $! >PID; exit 5",
		sleepers + " >/dev/null 2>&1 & echo $! >PID; exit 5",
		"trap '' TERM HUP INT; " + sleepers + " & echo $! >PID; exit 5",
	} {
		pids := dir + "/pid"
		os.Remove(pids)
		r := run(t, shell(strings.ReplaceAll(form, "PID", pids)))
		wantExit(t, r, 5)
		if pid := pidFile(t, pids); alive(pid) {
			t.Errorf("%s: process %d is left", form, pid)
		}
		if r.Duration > patience/2 {
			t.Errorf("%s: took %s", form, r.Duration)
		}
	}
}

func TestRun_TimeoutEndsEveryForm(t *testing.T) {
	for _, form := range []string{
		sleepers + "; true",
		sleepers + " | cat",
		"(" + sleepers + "; true)",
		"{ " + sleepers + "; } & wait",
		"exec " + sleepers,
		"trap '' TERM; " + sleepers + "; " + sleepers,
		"kill -STOP $$; " + sleepers,
		"while :; do sleep 0.001; done",
		"(trap '' TERM; while :; do sleep 0.001; done) & " + sleepers,
	} {
		a := shell(form)
		a.Spec.Policy.Timeout, a.Spec.Policy.KillAfter = 30*time.Millisecond, 30*time.Millisecond
		r := run(t, a)
		if r.Ending != jobs.TimedOut {
			t.Errorf("%s: got %+v", form, r)
		}
		if r.Duration < 30*time.Millisecond || r.Duration > patience/2 {
			t.Errorf("%s: took %s", form, r.Duration)
		}
	}
}

func TestRun_NoTimeout(t *testing.T) {
	a := shell("sleep 0.05")
	a.Spec.Policy.Timeout = 0
	wantExit(t, run(t, a), 0)
}

func TestRun_TimeoutWhateverTheStatus(t *testing.T) {
	a := shell(`trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done`)
	a.Spec.Policy.Timeout, a.Spec.Policy.KillAfter = time.Second, patience
	r := run(t, a)
	if r.Ending != jobs.TimedOut || r.ExitCode != 0 || r.Signal != 0 || !strings.HasSuffix(text(r.Output), "bye\n") {
		t.Errorf("got %+v %q", r, text(r.Output))
	}
}

func TestRun_StoppedProcessHearsTERM(t *testing.T) {
	dir := t.TempDir()
	a := shell(`trap 'echo heard; exit 3' TERM; : >` + dir + `/up; kill -STOP $$`)
	a.Spec.Policy.KillAfter = patience
	ctx, cancel := context.WithCancelCause(t.Context())
	endWhen(t, dir+"/up", cancel, ErrStopped)
	r, _ := newRunner(t).Run(ctx, context.Background(), a)
	if r.Ending != jobs.Stopped || r.ExitCode != 3 || text(r.Output) != "heard\n" {
		t.Errorf("got %+v %q", r, text(r.Output))
	}
}

// A shell dies of TERM at once; what it had started has its time all the same.
func TestRun_GroupHasItsTimeAfterTheLeader(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "careful.sh", `#!/bin/sh
trap 'sleep 0.2; : >clean; exit 0' TERM
: >up
while :; do sleep 0.01; done
`, 0o755)
	a := attempt(jobs.Handler{Shell: "./careful.sh; true", Dir: dir})
	a.Spec.Policy.KillAfter = patience
	ctx, cancel := context.WithCancelCause(t.Context())
	endWhen(t, dir+"/up", cancel, ErrStopped)
	r, _ := newRunner(t).Run(ctx, context.Background(), a)
	if r.Ending != jobs.Stopped || r.Signal != int(syscall.SIGTERM) || !exists(dir+"/clean") {
		t.Errorf("got %+v; cleaned up: %v", r, exists(dir+"/clean"))
	}
}

func TestRun_Interrupted(t *testing.T) {
	for _, c := range []struct {
		cause  error
		ending jobs.Ending
		signal syscall.Signal
	}{
		{ErrStopped, jobs.Stopped, syscall.SIGTERM},
		{ErrLost, jobs.Lost, syscall.SIGTERM},
		{ErrKill, jobs.Stopped, syscall.SIGKILL},
		{nil, jobs.Stopped, syscall.SIGTERM},
		{fmt.Errorf("heartbeat: %w", ErrLost), jobs.Lost, syscall.SIGTERM},
	} {
		dir := t.TempDir()
		a := shell(": >" + dir + "/up; exec " + sleepers)
		a.Spec.Policy.KillAfter = patience
		ctx, cancel := context.WithCancelCause(t.Context())
		endWhen(t, dir+"/up", cancel, c.cause)
		r, printed := newRunner(t).Run(ctx, context.Background(), a)
		if r.Ending != c.ending || r.Signal != int(c.signal) || printed.Notes != nil {
			t.Errorf("%v: got %+v, notes %q", c.cause, r, printed.Notes)
		}
	}
}

func TestRun_KillCutsTheGraceShort(t *testing.T) {
	dir := t.TempDir()
	a := shell("trap ': >" + dir + "/told' TERM; : >" + dir + "/up; while :; do sleep 0.01; done")
	a.Spec.Policy.KillAfter = time.Hour
	ctx, stop := context.WithCancelCause(t.Context())
	kill, killNow := context.WithCancelCause(t.Context())
	endWhen(t, dir+"/up", stop, ErrStopped)
	endWhen(t, dir+"/told", killNow, nil)
	r, _ := newRunner(t).Run(ctx, kill, a)
	if r.Ending != jobs.Stopped || r.Signal != int(syscall.SIGKILL) {
		t.Errorf("got %+v", r)
	}
}

func TestRun_GrandchildHoldsTheOutput(t *testing.T) {
	need(t, "setsid")
	dir := t.TempDir()
	a := shell("setsid sh -c 'echo $$ >" + dir + "/pid; exec " + sleepers + "' & until [ -s " + dir + "/pid ]; do sleep 0.01; done; echo done")
	r, _ := newRunner(t).Run(t.Context(), context.Background(), a)
	wantExit(t, r, 0)
	if text(r.Output) != "done\n" || r.Duration > patience/2 {
		t.Errorf("got %q after %s", text(r.Output), r.Duration)
	}
	// It has left the group of its own accord, and the command ended of its
	// own accord: a daemon. It is still to be found, and can be ended.
	pid := pidFile(t, dir+"/pid")
	if !alive(pid) {
		t.Errorf("the daemon %d did not survive a normal exit", pid)
	}
	left, err := End(t.Context(), []Orphan{{Mark: a.Mark}}, patience)
	if err != nil || len(left) != 0 || alive(pid) {
		t.Errorf("End: %v %v, alive: %v", left, err, alive(pid))
	}
}

func TestRun_EndlessWriterOutsideTheGroup(t *testing.T) {
	need(t, "setsid")
	dir := t.TempDir()
	// It ignores SIGPIPE's cause only until we close the pipe: then it ends.
	a := shell("setsid sh -c 'echo $$ >" + dir + "/pid; exec yes' & until [ -s " + dir + "/pid ]; do sleep 0.01; done")
	r, _ := newRunner(t).Run(t.Context(), context.Background(), a)
	wantExit(t, r, 0)
	pid := pidFile(t, dir+"/pid")
	until(t, "the writer ends when nobody reads", func() bool { return !alive(pid) })
}

func TestRun_StragglersMayFinish(t *testing.T) {
	need(t, "bash")
	dir := t.TempDir()
	a := attempt(jobs.Handler{Command: []string{"bash", "-c", `exec > >(tee ` + dir + `/log) 2>&1; for i in $(seq 500); do echo line $i; done`}})
	r := run(t, a)
	wantExit(t, r, 0)
	if !strings.HasSuffix(text(r.Output), "line 500\n") {
		t.Errorf("the end of the output is missing: %q", r.Output.Tail)
	}
}

func TestRun_SetsidChildEnds(t *testing.T) {
	need(t, "setsid")
	for _, ignore := range []string{"", "trap \"\" TERM; "} {
		for _, cause := range []error{nil, ErrStopped, ErrLost, ErrKill} {
			dir := t.TempDir()
			a := shell("setsid sh -c '" + ignore + "echo $$ >" + dir + "/new; mv " + dir + "/new " + dir + "/pid; while :; do sleep 0.01; done' & : >" + dir + "/up; " + sleepers)
			a.Spec.Policy.KillAfter = 50 * time.Millisecond
			ctx, cancel := context.WithCancelCause(t.Context())
			if cause == nil {
				a.Spec.Policy.Timeout = 200 * time.Millisecond
			} else {
				endWhen(t, dir+"/pid", cancel, cause)
			}
			r, printed := newRunner(t).Run(ctx, context.Background(), a)
			cancel(nil)
			if r.Ending == jobs.Exited || printed.Notes != nil {
				t.Errorf("%v: got %+v, notes %q", cause, r, printed.Notes)
			}
			if exists(dir+"/pid") && alive(pidFile(t, dir+"/pid")) {
				t.Errorf("%v: the setsid child is left", cause)
			}
		}
	}
}

// A child that hides its mark and leaves the group is found through its parent.
func TestRun_UnmarkedSetsidChildEnds(t *testing.T) {
	need(t, "setsid")
	dir := t.TempDir()
	a := shell("setsid env -i sh -c 'echo $$ >" + dir + "/new; /bin/mv " + dir + "/new " + dir + "/pid; exec /bin/" + sleepers + "' & wait")
	ctx, cancel := context.WithCancelCause(t.Context())
	endWhen(t, dir+"/pid", cancel, ErrStopped)
	r, _ := newRunner(t).Run(ctx, context.Background(), a)
	if r.Ending != jobs.Stopped {
		t.Errorf("got %+v", r)
	}
	if pid := pidFile(t, dir+"/pid"); alive(pid) {
		t.Errorf("process %d is left", pid)
	}
}

func TestRun_ManyAtOnce(t *testing.T) {
	r := newRunner(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	results := make(chan jobs.Result)
	const n = 8
	var up sync.WaitGroup
	up.Add(n)
	for range n {
		go func() {
			a := shell("echo up; " + sleepers + " | " + sleepers)
			a.Started = func(int, uint64) { up.Done() }
			result, printed := r.Run(ctx, context.Background(), a)
			if printed.Notes != nil {
				result.Error = "noted: " + strings.Join(printed.Notes, "; ")
			}
			results <- result
		}()
	}
	for range n {
		go func() {
			results <- func() jobs.Result { x, _ := r.Run(context.Background(), ctx, shell("exit 1")); return x }()
		}()
	}
	for range n {
		wantExit(t, <-results, 1)
	}
	up.Wait()
	cancel(errors.New("the test is over"))
	for range n {
		if got := <-results; got.Ending != jobs.Stopped || got.Error != "" {
			t.Errorf("got %+v", got)
		}
	}
}
