package lease

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// River left 5,133 jobs "running" for up to 91 days (riverqueue/river#1258,
// #682, #773); graphile/worker#254 locked the item for good when the crash
// came with its last attempt.
func TestRescue_Killed(t *testing.T) {
	b := setup(t)
	spec := b.spec(holds)
	spec.Policy.MaxAttempts = 1
	b.enqueue("a", "b", "c")
	p := b.process(role{Spec: spec, Claim: 3, Start: 1})
	b.enqueue("newer")
	b.until("a runs", func() bool { return strings.Contains(b.log(), "a start") })
	p.kill()

	r := b.rescuer()
	b.must(r.Rescue(context.Background()))
	b.want("b ready, c ready") // at once, whatever a's processes do
	r.settled()
	b.want("a ready")
	if alive(p.PIDs[0]) {
		t.Error("a is ready while its process runs")
	}
	b.wantCrashes("a", 1)
	if got := r.claims(spec); !slices.Equal(got, []string{"b", "c", "newer", "a"}) {
		t.Errorf("claimed in the order %v", got)
	}
	if strings.Contains(b.log(), "a end") {
		t.Error("a came to its end")
	}
	b.must(r.Rescue(context.Background())) // nothing is left to do
	b.wantCrashes("a", 1)
}

// What a command may leave behind, and what each of them must meet: it is
// gone before the item is ready (rush#69, nub#464: a rerun beside the orphan).
func TestRescue_Survivors(t *testing.T) {
	for name, text := range map[string]string{
		"Plain":       `echo $$ > pid; exec sleep 1000`,
		"Grandchild":  `(sh -c 'echo $$ > pid; exec sleep 1000' & wait); say end`,
		"Background":  `sh -c 'echo $$ > pid; exec sleep 1000' & wait_for go; exit 0`,
		"Setsid":      `setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait`,
		"SetsidAlone": `setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait_for go; kill -9 $$`,
		"IgnoresTERM": `trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done`,
		"Stopped":     `echo $$ > pid; kill -STOP $$; sleep 1000`,
		"ClearedEnv":  `exec env -i sh -c 'echo $$ > pid; while :; do /bin/sleep 1; done'`,
		"ClearedKid":  `env -i sh -c 'echo $$ > pid; while :; do /bin/sleep 1; done' & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.enqueue("a")
			p := b.process(role{Spec: b.spec(text), Claim: 1, Start: 1})
			pid := b.pid("pid")
			p.kill()
			if strings.Contains(text, "wait_for go") { // the leader ends after its run
				b.touch("go")
				b.until("the leader is gone", func() bool { return !alive(p.PIDs[0]) })
			}
			r := b.rescuer()
			b.must(r.Rescue(context.Background()))
			b.until("the item is ready", func() bool {
				was := alive(pid)
				if b.item("a").State != jobs.Ready {
					return false
				}
				if was && alive(pid) {
					t.Errorf("it is ready while process %d runs", pid)
				}
				return true
			})
			r.settled()
			b.wantCrashes("a", 1)
		})
	}
}

func TestRescue_Verdicts(t *testing.T) {
	for name, set := range map[string]func(*jobs.Policy){
		"OnCrashDead": func(p *jobs.Policy) { p.OnCrash = jobs.CrashDead },
		"MaxCrashes":  func(p *jobs.Policy) { p.MaxCrashes = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			spec := b.spec(holds)
			set(&spec.Policy)
			b.enqueue("a", "b")
			p := b.process(role{Spec: spec, Claim: 2, Start: 1})
			p.kill()
			r := b.rescuer()
			r.rescue()
			b.want("a dead, b ready")
			b.wantCrashes("a", 1)
			if got := b.item("a"); got.Class != jobs.ClassCrash || !strings.Contains(got.Reason, "its run died") {
				t.Errorf("set aside as %s: %q", got.Class, got.Reason)
			}
			if got := r.Buried(); len(got) != 1 || got[0].Job != "j" {
				t.Errorf("buried: %v", got)
			}
		})
	}
}

// Nothing survives a boot: the numbers on record are strangers' by now.
func TestRescue_AnotherBoot(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(holds), Claim: 1, Start: 1})
	b.exec("UPDATE run SET boot = 'another'")
	b.rescuer().rescue()
	b.want("a ready")
	b.wantCrashes("a", 1)
	if !alive(p.PIDs[0]) || p.hasEnded() {
		t.Error("a process of this boot was ended for one of another boot")
	}
}

// In another pid namespace nobody can be asked: a started item waits for what
// its timeout would have done, and without one for a person.
func TestRescue_AnotherNamespace(t *testing.T) {
	for _, timeout := range []time.Duration{time.Hour, 0} {
		t.Run(timeout.String(), func(t *testing.T) {
			b := setup(t)
			spec := b.spec(holds)
			spec.Policy.Timeout, spec.Policy.KillAfter = timeout, time.Minute
			b.enqueue("a", "b")
			p := b.process(role{Spec: spec, Claim: 2, Start: 1})
			p.kill()
			b.exec("UPDATE run SET pid_ns = 'pid:[1]'")
			r := b.rescuer()
			r.rescue()
			b.want("a running, b ready")
			if orphans, stuck := r.Pending(); orphans != 1 || !stuck {
				t.Errorf("%d pending, stuck: %v", orphans, stuck)
			}
			b.clock.step(timeout + 30*time.Second)
			r.rescue()
			b.want("a running")
			if n := len(r.said("stays held")); n != 1 {
				t.Errorf("said %d times that it stays held", n)
			}
			b.clock.step(31 * time.Second)
			if timeout == 0 {
				b.clock.step(1000 * time.Hour)
			}
			r.rescue()
			if timeout == 0 {
				b.want("a running")
				return
			}
			b.want("a ready")
			b.wantCrashes("a", 1)
			if !alive(p.PIDs[0]) {
				t.Error("what bears this number here was ended")
			}
		})
	}
}

// A missing lock file says nothing: only the lease counts, and it gets a
// second look.
func TestRescue_NoLockFile(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1})
	p.kill()
	b.must(os.Remove(lockPath(b.path, p.Token)))
	r := b.rescuer()
	for _, step := range []time.Duration{0, 50 * time.Second, 11 * time.Second, 20 * time.Second} {
		b.clock.step(step)
		r.rescue()
		b.want("a running, b claimed")
	}
	b.clock.step(11 * time.Second)
	r.rescue()
	b.want("a ready, b ready")
	if c := b.counters(); c.Lapses != 1 {
		t.Errorf("%d lapses are counted", c.Lapses)
	}
}

// A run that holds nothing and whose process is gone leaves only its row.
func TestRescue_NothingHeld(t *testing.T) {
	b := setup(t)
	p := b.process(role{})
	p.kill()
	b.must(os.Remove(lockPath(b.path, p.Token)))
	b.rescuer().rescue()
	var open int
	b.sqlRow(&open, "SELECT count(*) FROM run WHERE ended IS NULL AND id = ?", p.Run)
	if open != 0 {
		t.Error("its row is still open")
	}
}

// A run that holds its lock and does not renew hangs, or is stopped. It gets
// a second look half a lease later, also by another short run; then it is
// ended, and only then is anything of it given away.
func TestRescue_Stopped(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1})
	p.stop()
	short := func(want string) {
		t.Helper()
		r := b.register()
		r.rescue()
		b.must(r.Close(context.Background(), store.RunEnd{}))
		b.want(want)
	}
	short("a running, b claimed")
	b.clock.step(61 * time.Second)
	short("a running, b claimed") // the first look
	b.clock.step(29 * time.Second)
	short("a running, b claimed")
	if p.hasEnded() {
		t.Fatal("it was ended before the second look")
	}
	b.clock.step(2 * time.Second)
	short("a ready, b ready")
	b.until("it is dead", p.hasEnded)
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended by %v", p.cmd.ProcessState)
	}
	if alive(p.PIDs[0]) {
		t.Error("its command lives")
	}
	b.wantCrashes("a", 1)
	if c := b.counters(); c.Lapses != 1 {
		t.Errorf("%d lapses are counted", c.Lapses)
	}
}

// A clock that steps, either way, is not a death: a run that lives renews
// before the second look.
func TestRescue_ClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			b := setup(t)
			b.enqueue("a")
			holder, r := b.rescuer(), b.rescuer()
			holder.claims(b.spec(holds))
			b.clock.step(step)
			r.rescue() // the first look finds it lapsed
			b.want("a claimed")
			b.must(holder.renew(context.Background()))
			b.clock.step(45 * time.Second)
			r.rescue()
			b.want("a claimed")
			// It lapses again: that is a first look again.
			b.clock.step(20 * time.Second)
			r.rescue()
			b.want("a claimed")
		})
	}
}

// A run that was taken for dead, lives, and claims again before it knows: that
// is not taken from it (and charged as a crash) as long as it renews.
func TestRescue_TakenForDeadAndBack(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	spec, holder, r := b.spec(holds), b.register(), b.rescuer()
	holder.claims(spec)
	b.exec("UPDATE run SET pid_ns = 'pid:[1]' WHERE id = ?", holder.Info.ID) // nobody can tell which process it is
	b.clock.step(61 * time.Second)
	r.rescue()
	b.clock.step(31 * time.Second)
	r.rescue()
	b.want("a ready")
	holder.claims(spec)
	r.rescue()
	b.want("a claimed")
	if deposed, err := holder.Deposed(context.Background()); !deposed || err != nil {
		t.Error(err, "it does not know that it was taken for dead")
	}
	b.must(holder.Close(context.Background(), store.RunEnd{}))
	b.want("a ready")
}

// The rescuer itself dies half way: the next one completes it, and the item
// is charged once.
func TestRescue_RescuerDies(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1})
	p.kill()
	q := b.process(role{TakeOver: []int64{p.Run}})
	b.want("a running, b ready")
	q.kill()
	b.rescuer().rescue()
	b.want("a ready")
	if alive(p.PIDs[0]) {
		t.Error("what the first run left behind lives")
	}
	b.wantCrashes("a", 1)
}

// A run that ended while an orphan was still held leaves it to the next.
func TestRescue_EndedRunLeftAnOrphan(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(holds), Claim: 1, Start: 1})
	p.kill()
	r := b.register()
	_, err := r.own.TakeOver(context.Background(), p.Run, r.Info.ID, store.DeathLock, time.Minute)
	b.must(err)
	b.must(r.Close(context.Background(), store.RunEnd{Outcome: "finished"}))
	b.want("a running")
	b.rescuer().rescue()
	b.want("a ready")
	if alive(p.PIDs[0]) {
		t.Error("what the dead run left behind lives")
	}
	b.wantCrashes("a", 1)
	var outcome string
	b.sqlRow(&outcome, "SELECT outcome FROM run WHERE id = ?", r.Info.ID)
	if outcome != "finished" {
		t.Errorf("the run that ended is on record as %q", outcome)
	}
}

// An item that is "active" without a lease record was invisible to the
// recovery of others (asynq#1144, asynq PR#1158).
func TestRescue_Strays(t *testing.T) {
	for name, also := range map[string]string{"Claim": "", "ClaimAndSlot": "DELETE FROM slot"} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.enqueue("a", "b")
			p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1})
			p.kill()
			b.exec("DELETE FROM claim")
			if also != "" {
				b.exec(also)
				endMarked(p.Token) // nothing on record leads to it any more
			}
			b.rescuer().rescue()
			b.want("a ready, b ready")
			b.wantCrashes("a", 1)
			if alive(p.PIDs[0]) {
				t.Error("its process lives")
			}
		})
	}
}

func TestRescue_TwoAtOnce(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b", "c", "d")
	p := b.process(role{Spec: b.spec(holds), Claim: 4, Start: 2})
	p.kill()
	var together sync.WaitGroup
	var rs []*rescuer
	for range 4 {
		r := b.rescuer()
		rs = append(rs, r)
		together.Go(func() { b.check(r.Rescue(context.Background())) })
	}
	together.Wait()
	took := 0
	for _, r := range rs {
		r.settled()
		took += len(r.said("taken back"))
	}
	if took != 1 {
		t.Errorf("%d of them took over", took)
	}
	b.want("a ready, b ready, c ready, d ready")
	if c := b.counters(); c.Crashes != 2 {
		t.Errorf("%d crashes are counted", c.Crashes)
	}
}

// A full page of unexpired rows hid the later, stuck ones (river PR#1318).
func TestRescue_ManyLive(t *testing.T) {
	b := setup(t)
	const live = 10_001
	boot, err := handler.BootID()
	b.must(err)
	b.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO run (id, token, pid, pid_start, boot, pid_ns, host, schema, command, started)
		SELECT i, 'live' || i, 1, 1, ?, 'pid:[1]', 'h', 1, '[]', 0 FROM n`, live, boot)
	b.exec(`INSERT INTO claim (id, run, lane, created, until, lease) SELECT id, id, 'serial', 0, ?, 60000 FROM run WHERE token LIKE 'live%'`,
		b.clock.now().Add(time.Minute).UnixMilli())
	b.enqueue("a", "b", "c", "d", "e")
	p := b.process(role{Spec: b.spec(holds), Claim: 5})
	p.kill()
	b.must(b.rescuer().Rescue(context.Background()))
	b.want("a ready, b ready, c ready, d ready, e ready")
	var left int
	b.sqlRow(&left, "SELECT count(*) FROM run WHERE token LIKE 'live%' AND ended IS NULL")
	if left != live {
		t.Errorf("%d of the %d live runs are left", left, live)
	}
}

// While one orphan takes its time to end, the next dead run's are not
// forgotten: they too are waited for.
func TestRescue_OneAfterAnother(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	slow := b.spec(`trap '' TERM; say start; while :; do sleep 0.05; done`)
	slow.Policy.KillAfter = 700 * time.Millisecond
	p := b.process(role{Spec: slow, Claim: 1, Start: 1})
	b.until("a ignores TERM", func() bool { return strings.Contains(b.log(), "a start") })
	p.kill()
	r := b.rescuer()
	b.must(r.Rescue(context.Background()))
	b.enqueue("b")
	q := b.process(role{Spec: b.spec(holds), Claim: 1, Start: 1})
	q.kill()
	b.must(r.Rescue(context.Background()))
	r.settled()
	b.want("a ready, b ready")
}

// A `batchq work` that is itself an item's command, and whose runner is dead,
// must not end itself, nor give the item away that it is a part of.
func TestRescue_InsideAnItem(t *testing.T) {
	for name, cleared := range map[string]string{"Marked": "", "ClearedEnv": "env -i "} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			cmd := b.self(role{Rescue: true})
			b.write("role", strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], roleVar+"="))
			b.enqueue("a", "b")
			spec := b.spec(fmt.Sprintf(`wait_for go; %s/usr/bin/env %s="$(cat role)" TMPDIR=. %s > inner 2>&1; echo $? > status; wait_for leave; say end`,
				cleared, roleVar, cmd.Path))
			p := b.process(role{Spec: spec, Claim: 2, Start: 1})
			p.kill()
			b.touch("go")
			if status := b.pid("status"); status != 0 {
				t.Errorf("the inner run ended with %d: %s", status, b.file("inner"))
			}
			b.want("a running, b ready")
			if !alive(p.PIDs[0]) {
				t.Error("it has ended the item that it is a part of")
			}
			b.touch("leave")
			b.until("the item has come to its end", func() bool { return strings.Contains(b.log(), "a end") })
			b.until("its process is gone", func() bool { return !alive(p.PIDs[0]) })
			b.rescuer().rescue()
			b.want("a ready")
			b.wantCrashes("a", 1)
		})
	}
}

// The same with a runner that hangs: an ancestor is never killed.
func TestRescue_InsideAnItemOfAStoppedRun(t *testing.T) {
	b := setup(t)
	var commands []string
	for _, ahead := range []time.Duration{2 * time.Minute, 4 * time.Minute} {
		cmd := b.self(role{Rescue: true, Ahead: ahead})
		name := "role" + ahead.String()
		b.write(name, strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], roleVar+"="))
		commands = append(commands, fmt.Sprintf(`%s="$(cat %s)" %s >> inner 2>&1 &&`, roleVar, name, cmd.Path))
	}
	b.enqueue("a")
	p := b.process(role{Spec: b.spec(`wait_for go; ` + strings.Join(commands, " ") + ` echo 0 > status; wait_for leave`), Claim: 1, Start: 1})
	p.stop()
	b.touch("go")
	b.pid("status")
	if p.hasEnded() || !alive(p.PIDs[0]) {
		t.Errorf("the inner run has ended its outer one: %s", b.file("inner"))
	}
	b.want("a running")
	p.kill()
	b.rescuer().rescue()
	b.want("a ready")
}

// The heart beats on while a dead run's items are looked after, and a claim
// that another one has taken is told to the worker (procrastinate#1408: there
// the rescue waits for a free slot).
func TestHeartbeat(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b", "c")
	r, spec := b.rescuer(), b.spec(holds)
	r.lease = 200 * time.Millisecond
	c, err := b.db.Claim(context.Background(), store.ClaimRequest{Run: r.Info.ID, Lane: "serial", Jobs: []*jobs.Spec{spec}, Max: 1, Lease: r.lease})
	b.must(err)
	r.Hold(c.ID)
	ctx, stop := context.WithCancel(context.Background())
	var beating sync.WaitGroup
	beating.Go(func() { b.check(r.Heartbeat(ctx, func() bool { return false })) })
	p := b.process(role{Spec: spec, Claim: 2, Start: 1})
	p.kill()
	b.becomes("b", jobs.Ready)
	b.becomes("c", jobs.Ready)
	var until int64
	b.sqlRow(&until, "SELECT until FROM claim WHERE id = ?", c.ID)
	b.until("the lease is renewed", func() bool {
		var now int64
		b.sqlRow(&now, "SELECT until FROM claim WHERE id = ?", c.ID)
		return now > until
	})
	if deposed, err := r.Deposed(ctx); deposed || err != nil {
		t.Error(err, "it takes itself for dead")
	}
	other := b.rescuer()
	_, err = other.own.TakeOver(context.Background(), r.Info.ID, other.Info.ID, store.DeathLease, time.Minute)
	b.must(err)
	select {
	case lost := <-r.Lost():
		if !slices.Equal(lost, []int64{c.ID}) {
			t.Errorf("lost %v; want %d", lost, c.ID)
		}
	case <-time.After(patience):
		t.Error("it was not told that its claim is lost")
	}
	if deposed, err := r.Deposed(ctx); !deposed || err != nil {
		t.Error(err, "it does not know that another run took it for dead")
	}
	stop()
	beating.Wait()
}
