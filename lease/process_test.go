package lease

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
	"batchq/store/sqlite"
)

// roleVar says that this binary is to be a process of a test, and which.
const roleVar = "BATCHQ_LEASE_TEST_ROLE"

// role is what such a process does: it registers a run, takes over from dead
// ones where it should, claims, starts, says that it has, and stays.
type role struct {
	Path  string
	Lease time.Duration
	Spec  *jobs.Spec
	Claim int // items to claim
	Start int // how many of them to start
	Beat  bool
	// TakeOver these runs and do no more about them.
	TakeOver []int64
	// Rescue once, as a run inside an item would, and leave.
	Rescue bool
	// LeaveLock to a child that lives on, as one shares it that has not executed
	// its program yet.
	LeaveLock bool
	// Ahead is how far its clock is set forward.
	Ahead time.Duration
}

// player is such a process as the test sees it.
type player struct {
	b     *bundle
	cmd   *exec.Cmd
	ended chan struct{}
	Run   int64
	Token string
	PIDs  []int // of the commands that it has started
	Left  int   // pid of whom its lock was left to
}

// play is the main function of such a process.
func play(text string) {
	err := func() error {
		var r role
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return err
		}
		return r.play()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (r *role) play() error {
	left := 0
	ctx := context.Background()
	now := func() time.Time { return time.Now().Add(r.Ahead) }
	queue, err := sqlite.Open(ctx, r.Path, sqlite.Options{Now: now})
	if err != nil {
		return err
	}
	own, err := sqlite.Open(ctx, r.Path, sqlite.Options{Now: now})
	if err != nil {
		return err
	}
	run, err := Register(ctx, own, Options{Database: r.Path, Lease: r.Lease, Note: func(n jobs.Note) { fmt.Fprintln(os.Stderr, n.Text) }})
	if err != nil {
		return err
	}
	if r.Rescue {
		if err := run.Rescue(ctx); err != nil {
			return err
		}
		return run.Close(ctx, store.RunEnd{Outcome: "finished"})
	}
	for _, dead := range r.TakeOver {
		if _, err := own.TakeOver(ctx, dead, run.Info.ID, store.DeathLock, r.Lease); err != nil {
			return err
		}
	}
	if r.LeaveLock {
		holder := strangerCommand()
		holder.ExtraFiles = []*os.File{run.lock}
		if err := holder.Start(); err != nil {
			return err
		}
		left = holder.Process.Pid
	}
	pids, err := r.work(ctx, queue, run)
	if err != nil {
		return err
	}
	if r.Beat {
		go func() { _ = run.Heartbeat(ctx, func() bool { return false }) }()
	}
	if err := json.NewEncoder(os.Stdout).Encode(player{Run: run.Info.ID, Token: run.Info.Token, PIDs: pids, Left: left}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until the test has ended, at the latest
	return err
}

// work claims and starts, as a worker does, and records the pids.
func (r *role) work(ctx context.Context, queue *sqlite.DB, run *Run) (pids []int, err error) {
	if r.Claim == 0 {
		return nil, nil
	}
	c, err := queue.Claim(ctx, store.ClaimRequest{Run: run.Info.ID, Lane: r.Spec.Lane, Jobs: []*jobs.Spec{r.Spec}, Max: r.Claim, Lease: r.Lease})
	if err != nil {
		return nil, err
	}
	run.Hold(c.ID)
	start := store.Start{Lane: r.Spec.Lane, Want: r.Start}
	items := map[int64]*jobs.Item{}
	for _, it := range c.Items {
		items[it.ID] = it
		start.Items = append(start.Items, store.StartItem{Held: store.Held{Item: it.ID, Claim: c.ID}, Spec: r.Spec})
	}
	out, err := queue.Advance(ctx, store.Advance{Run: run.Info.ID, Start: []store.Start{start}})
	if err != nil || len(out.Started) == 0 {
		return nil, err
	}
	runner, err := handler.NewRunner(run.Info.Token)
	if err != nil {
		return nil, err
	}
	processes := make(chan store.Process)
	for _, st := range out.Started {
		it := items[st.Item]
		it.Attempt = st.Attempt
		go runner.Run(ctx, ctx, handler.Attempt{Item: it, Spec: r.Spec, Claim: c.ID, Mark: run.Mark(st.Item, st.Attempt),
			Started: func(pid int, start uint64) { processes <- store.Process{Held: st.Held, PID: pid, Start: start} }})
	}
	a := store.Advance{Run: run.Info.ID}
	for range out.Started {
		p := <-processes
		a.Pids, pids = append(a.Pids, p), append(pids, p.PID)
	}
	_, err = queue.Advance(ctx, a)
	return pids, err
}

// self is this binary in the given role.
func (b *bundle) self(r role) *exec.Cmd {
	b.Helper()
	exe, err := os.Executable()
	b.must(err)
	r.Path = b.path
	if r.Lease == 0 {
		r.Lease = time.Minute
	}
	text, err := json.Marshal(r)
	b.must(err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	// A session of its own: what others leave behind in ours is none of its.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// process starts this binary in the given role and waits until it is ready.
// It and all that it has started are gone when the test ends.
func (b *bundle) process(r role) *player {
	b.Helper()
	p := &player{b: b, cmd: b.self(r), ended: make(chan struct{})}
	stderr, err := os.CreateTemp(b.dir, "stderr")
	b.must(err)
	defer stderr.Close()
	p.cmd.Stderr = stderr
	_, err = p.cmd.StdinPipe() // it leaves when this end is closed, at the latest with us
	b.must(err)
	out, err := p.cmd.StdoutPipe()
	b.must(err)
	b.must(p.cmd.Start())
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, p)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed, as a rule
		close(p.ended)
	}()
	b.Cleanup(func() {
		p.kill()
		if p.Token != "" {
			endMarked(p.Token)
		}
		for _, pid := range append(p.PIDs, p.Left) {
			if pid > 0 {
				kill(-pid, syscall.SIGKILL)
			}
		}
	})
	if err != nil {
		said, _ := os.ReadFile(stderr.Name())
		b.Fatalf("the process is not ready: %v\n%s", err, said)
	}
	return p
}

// kill ends the process as kill -9 does, and only it.
func (p *player) kill() {
	kill(p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// stop is SIGSTOP.
func (p *player) stop() {
	p.b.Helper()
	kill(p.cmd.Process.Pid, syscall.SIGSTOP)
	p.b.until("it is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
}

func (p *player) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}
