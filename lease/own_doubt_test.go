package lease

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"batchq/jobs/handler"
)

// clears is a command that clears its environment but for PATH, so that it can
// be read and bears no mark, and says that it is there.
const clears = `env -i PATH="$PATH" sh -c 'trap "" TERM; echo $$ > pid; while :; do sleep 0.05; done'`

// What a dead run may have left, and a stranger may as well have started, is
// not ended; but its item is not run again beside it either.
func TestOwn_Doubtful(t *testing.T) {
	for name, c := range map[string]struct{ text, sql string }{
		// Its leader was killed with the run: the group alone tells of it.
		"LeaderGone": {clears + ` & wait_for go; kill -9 $$`, ""},
		// The run died before it could record the pid.
		"NoPID": {`exec ` + clears, "UPDATE slot SET pid = 0, pid_start = 0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.enqueue("a", "b")
			p := b.process(role{Spec: b.spec(c.text), Claim: 2, Start: 1})
			pid := b.pid("pid")
			b.Cleanup(func() { kill(pid, syscall.SIGKILL) })
			p.kill()
			b.touch("go")
			if name == "LeaderGone" {
				// As a zombie it would still prove the group.
				b.until("the leader is reaped", func() bool { _, err := handler.StartTime(p.PIDs[0]); return err != nil })
			}
			if c.sql != "" {
				b.exec(c.sql)
			}
			r := b.rescuer()
			for range 3 {
				r.rescue()
				b.want("a running, b ready")
			}
			if orphans, stuck := r.Pending(); orphans != 1 || !stuck {
				t.Errorf("%d pending, stuck: %v", orphans, stuck)
			}
			said := r.said("which the dead run")
			if len(said) != 1 || !strings.Contains(said[0], "item 1 stays held: process ") || !strings.HasSuffix(said[0], "may have left, is not ended: it may be another's: end it yourself if it belongs to the item") {
				t.Errorf("said %q", said)
			}
			if !alive(pid) {
				t.Fatal("it was ended")
			}
			kill(pid, syscall.SIGKILL)
			b.until("the item is ready", func() bool {
				r.rescue()
				return b.item("a").State.String() == "ready"
			})
			if alive(pid) {
				t.Error("the item is ready while its process runs")
			}
			b.wantCrashes("a", 1)
		})
	}
}

// The pid on record is a living stranger's by now: started by nobody of ours,
// or given to the number since. It is not touched, and keeps nothing waiting.
func TestOwn_PIDReused(t *testing.T) {
	for name, sql := range map[string]string{
		"OtherStart": "UPDATE slot SET pid = ?1, pid_start = 1",
		"NoStart":    "UPDATE slot SET pid = ?1, pid_start = 0",
		"RunsToo":    "UPDATE run SET pid = ?1, pid_start = 1",
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			stranger := b.other(t)
			b.enqueue("a")
			p := b.process(role{Spec: b.spec(holds), Claim: 1, Start: 1})
			p.kill()
			b.exec(sql, stranger)
			b.exec("UPDATE claim SET until = 1, lapsed = 1")
			b.rescuer().rescue()
			b.want("a ready")
			b.wantCrashes("a", 1)
			if !alive(stranger) {
				t.Error("a stranger was ended")
			}
			if alive(p.PIDs[0]) {
				t.Error("what bears the mark lives")
			}
		})
	}
}

// other starts a process that has nothing to do with any run.
func (b *bundle) other(t *testing.T) (pid int) {
	t.Helper()
	cmd := strangerCommand()
	b.must(cmd.Start())
	t.Cleanup(func() { kill(cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// A run whose pid is on record and whose lock can't be asked has lapsed twice:
// it is not the process that bears its number now.
func TestOwn_LapsedPIDReused(t *testing.T) {
	b := setup(t)
	stranger := b.other(t)
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(holds), Claim: 1, Start: 1})
	p.stop()
	b.exec("UPDATE run SET pid = ?, pid_start = 1", stranger)
	b.exec("UPDATE claim SET until = 1, lapsed = 1")
	b.rescuer().rescue()
	b.want("a ready")
	if !alive(stranger) || p.hasEnded() {
		t.Error("a stranger, or a run that could not be told, was ended")
	}
	if s := probe(lockPath(b.path, p.Token)); s != lives {
		t.Errorf("its lock says %d", s)
	}
	// It goes on: it is told that its claim is lost, whatever it does next.
	kill(p.cmd.Process.Pid, syscall.SIGCONT)
	claims, err := b.db.Renew(context.Background(), p.Run, 1)
	if err != nil || len(claims) != 0 {
		t.Errorf("it still has %v: %v", claims, err)
	}
}
