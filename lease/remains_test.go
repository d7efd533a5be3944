package lease

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs/handler"
	"batchq/store"
)

// looked is what LookAt says of the only orphan of a run.
func (b *bundle) looked(r *rescuer) Remains {
	b.Helper()
	orphans, err := b.db.Orphans(context.Background(), r.Info.ID)
	b.must(err)
	if len(orphans) != 1 {
		b.Fatalf("%d orphans", len(orphans))
	}
	left, err := LookAt(context.Background(), orphans[0])
	b.must(err)
	return left
}

// A look names what lives of a dead run's item, and touches nothing of it.
func TestLookAt(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(`sh -c 'sleep 1000' & ` + holds), Claim: 1, Start: 1})
	b.until("it runs", func() bool { return strings.Contains(b.log(), "start") })
	p.kill()
	r := b.register()
	_, err := r.own.TakeOver(context.Background(), p.Run, r.Info.ID, store.DeathLock, time.Minute)
	b.must(err)
	for range 2 {
		left := b.looked(r)
		if left.Booted || left.Elsewhere || left.Within || !slices.ContainsFunc(left.Processes, func(q handler.Process) bool { return q.PID == p.PIDs[0] }) {
			t.Fatalf("%+v", left)
		}
		for _, q := range left.Processes {
			if q.Reason != "" || q.Doubtful {
				t.Errorf("%+v: it can be ended", q)
			}
		}
	}
	if !alive(p.PIDs[0]) {
		t.Error("a look has ended it")
	}
	b.want("a running")

	b.exec("UPDATE run SET file = 'another' WHERE id = ?", p.Run)
	if left := b.looked(r); len(left.Processes) == 0 || left.Processes[0].Reason != "it is at work for another copy of this database" {
		t.Errorf("of a copy: %+v", left)
	}
	b.exec("UPDATE run SET pid_ns = 'pid:[1]' WHERE id = ?", p.Run)
	if left := b.looked(r); !left.Elsewhere || left.Processes != nil {
		t.Errorf("of another namespace: %+v", left)
	}
	b.exec("UPDATE run SET boot = 'another' WHERE id = ?", p.Run)
	if left := b.looked(r); !left.Booted || left.Elsewhere || left.Processes != nil {
		t.Errorf("of another boot: %+v", left)
	}
	b.exec("UPDATE run SET file = '', pid_ns = ?, boot = ? WHERE id = ?", r.Info.PIDNS, r.Info.BootID, p.Run)

	r.rescue()
	b.want("a ready")
}

// Nothing is left where all has ended; what only may be its own says so.
func TestLookAt_Doubtful(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(clears + ` & wait_for go; kill -9 $$`), Claim: 1, Start: 1})
	pid := b.pid("pid")
	b.Cleanup(func() { kill(pid, syscall.SIGKILL) })
	p.kill()
	b.touch("go")
	b.until("the leader is reaped", func() bool { _, err := handler.StartTime(p.PIDs[0]); return err != nil })
	r := b.rescuer()
	r.rescue()
	b.want("a running")
	left := b.looked(r)
	if !slices.ContainsFunc(left.Processes, func(q handler.Process) bool {
		return q.PID == pid && q.Doubtful && strings.HasPrefix(q.Reason, "it may be another's")
	}) {
		t.Errorf("%+v", left)
	}
	kill(pid, syscall.SIGKILL)
	b.until("nothing is left", func() bool { return b.looked(r).Processes == nil }) // its sleep outlives it for a moment
	r.rescue()
	b.want("a ready")
}

// Who looks may be root, and the run that is at work somebody else: what counts
// is what that may end.
func TestRemains_AskFor(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	const nobody = 65534
	begin := func(uid uint32) int {
		c := exec.Command("sleep", "1000")
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
		return c.Process.Pid
	}
	other, its, roots := begin(nobody), begin(nobody), begin(0)
	run := func(pid int) store.RunInfo {
		me, err := whoAmI(nil)
		if err != nil {
			t.Fatal(err)
		}
		me.ID, me.PID = 7, pid
		if me.PIDStart, err = handler.StartTime(pid); err != nil {
			t.Fatal(err)
		}
		return me
	}
	gone := run(other)
	gone.PIDStart++
	for _, c := range []struct {
		name string
		run  store.RunInfo
		want []string // of its own process, of root's, of a doubtful one
	}{
		{"Nobody", run(other), []string{"", "run 7 may not: it is another user's", "it may be"}},
		{"Root", run(os.Getpid()), []string{"", "", "it may be"}},
		{"Gone", gone, []string{"", "", "it may be"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			left := Remains{Processes: []handler.Process{{PID: its}, {PID: roots}, {PID: roots, Reason: "it may be"}}}
			left.AskFor(c.run)
			for i, p := range left.Processes {
				if p.Reason != c.want[i] {
					t.Errorf("%d: %q, want %q", i, p.Reason, c.want[i])
				}
			}
		})
	}
}
