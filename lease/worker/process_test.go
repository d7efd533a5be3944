package worker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/lease"
	"batchq/lease/worker"
	"batchq/store"
	"batchq/store/sqlite"
)

// roleVar says that this binary is to be a run of its own, which a test kills.
const roleVar = "BATCHQ_WORKER_TEST_ROLE"

// role is the plan of such a run.
type role struct {
	Path  string
	Lanes []worker.Lane
	Batch int
	Lease time.Duration
	Grace time.Duration
	Wait  bool
}

func play(text string) {
	sum, err := func() (sum worker.Summary, err error) {
		var r role
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return sum, err
		}
		return r.play()
	}()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(sum)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// quiet prints what a person would have to see.
type quiet struct{}

func (quiet) Started(*jobs.Item)                            {}
func (quiet) Settled(*jobs.Item, jobs.Result, jobs.Verdict) {}
func (quiet) Refused(*jobs.Item)                            {}
func (quiet) Note(n jobs.Note)                              { fmt.Fprintln(os.Stderr, n.Text) }

func (r *role) play() (sum worker.Summary, err error) {
	ctx := context.Background()
	soft, softly := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer softly()
	hard, hardly := signal.NotifyContext(ctx, syscall.SIGINT)
	defer hardly()
	queue, err := sqlite.Open(ctx, r.Path, sqlite.Options{})
	if err != nil {
		return sum, err
	}
	own, err := sqlite.Open(ctx, r.Path, sqlite.Options{})
	if err != nil {
		return sum, err
	}
	run, err := lease.Register(ctx, own, lease.Options{Database: r.Path, Lease: r.Lease, Note: quiet{}.Note})
	if err != nil {
		return sum, err
	}
	runner, err := handler.NewRunner(run.Info.Token)
	if err != nil {
		return sum, err
	}
	p := worker.Plan{Lanes: r.Lanes, Batch: r.Batch, Lease: r.Lease, Grace: r.Grace, Wait: r.Wait}
	w, err := worker.New(ctx, p, queue, run, runner, quiet{})
	if err != nil {
		return sum, err
	}
	if _, err := fmt.Printf("{\"Token\":%q}\n", run.Info.Token); err != nil {
		return sum, err
	}
	sum, err = w.Run(soft, hard, queue.Replaced)
	return sum, errors.Join(err, run.Close(ctx, store.RunEnd{Outcome: "finished"}), runner.Close(), own.Close(), queue.Close())
}

// process is such a run as the test sees it.
type process struct {
	b      *bundle
	cmd    *exec.Cmd
	stderr string // a file's name
	done   chan struct{}
	Token  string
	sum    worker.Summary // when it has ended by itself
	err    error
}

// process starts a run in a process of its own and waits until it is
// registered. All of it is gone when the test ends.
func (b *bundle) process(p worker.Plan) *process {
	b.Helper()
	exe, err := os.Executable()
	b.must(err)
	text, err := json.Marshal(role{b.path, p.Lanes, p.Batch, p.Lease, p.Grace, p.Wait})
	b.must(err)
	x := &process{b: b, cmd: exec.Command(exe), done: make(chan struct{})}
	x.cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	// A session of its own: what others leave behind in ours is none of its.
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stderr, err := os.CreateTemp(b.dir, "stderr")
	b.must(err)
	defer stderr.Close()
	x.cmd.Stderr, x.stderr = stderr, stderr.Name()
	out, err := x.cmd.StdoutPipe()
	b.must(err)
	b.must(x.cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, x)
	}
	b.Cleanup(func() {
		x.kill()
		x.endItems()
	})
	go func() {
		x.err = json.NewDecoder(lines).Decode(&x.sum)
		x.err = errors.Join(x.err, x.cmd.Wait())
		close(x.done)
	}()
	if err != nil {
		said, _ := os.ReadFile(x.stderr)
		b.Fatalf("the run is not ready: %v\n%s", err, said)
	}
	return x
}

// kill ends the run as kill -9 does, and only it.
func (x *process) kill() {
	x.signal(syscall.SIGKILL)
	<-x.done
}

func (x *process) signal(sig syscall.Signal) { _ = x.cmd.Process.Signal(sig) }

// endItems kills whatever the run's items have left.
func (x *process) endItems() {
	if x.Token != "" {
		_, _ = handler.End(context.Background(), []handler.Orphan{{Mark: x.Token, Prefix: true}}, 0)
	}
}

func (x *process) hasEnded() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// wait returns when the run has ended by itself.
func (x *process) wait() worker.Summary {
	x.b.Helper()
	select {
	case <-x.done:
	case <-time.After(patience):
		x.b.Fatal("the run does not end")
	}
	if x.err != nil {
		said, _ := os.ReadFile(x.stderr)
		x.b.Fatalf("%v\n%s", x.err, said)
	}
	return x.sum
}
