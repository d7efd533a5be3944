// Package handler runs one attempt of a job, its command or its HTTP request, and
// reports what happened as facts (jobs.Result). It never decides what they mean: that is
// jobs.Policy.Judge. It knows no store, no lease and no other attempt.
//
// One attempt is one process in a process group of its own. Whatever ends
// first (the command, its timeout, the run), Run comes back only when the
// command is reaped and its group is gone. What left the group (a child that
// called setsid) is left alone after an exit of the command's own accord, and
// is found by its BATCHQ_MARK and ended where we end the attempt.
//
// A StreamProcess is the exception: one process that many attempts share, by
// lines on its standard input and output.
//
// The second half of the package (Survivors, End) finds and ends what a run
// that died has left behind, by the same means.
package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
)

// The causes with which the context of an attempt is cancelled. Any other
// cause counts as ErrStopped.
var (
	// ErrStopped: the run was told to stop.
	ErrStopped = errors.New("the run was stopped")
	// ErrLost: the item is no longer held under the claim that started it.
	ErrLost = errors.New("the claim is no longer this run's")
	// ErrKill: as ErrStopped, but with KILL at once.
	ErrKill = errors.New("the run was told to kill")
)

// Attempt is what one execution needs. Nothing in it is changed, and Item and
// Spec must not be changed by others while it runs.
type Attempt struct {
	Item           *jobs.Item // with its payload; Item.Attempt is this attempt's number
	Spec           *jobs.Spec // immutable: what is worked out from it is kept by its address
	Claim          int64      // the fencing token
	IdempotencyKey string
	Mark           string // BATCHQ_MARK: how the attempt's processes are found again
	// Print keeps all of stdout and stderr, apart from each other, in Printed.
	Print bool
	// LogDir is where the attempt's whole output is written as
	// JOB/ITEM-ATTEMPT.log; "" for nowhere.
	LogDir string
	// Started is called once, from Run's goroutine, when the process exists.
	// start is its start time in clock ticks since boot (0: /proc can't say).
	// The command waits for nobody: its output is read when Started is back.
	Started func(pid int, start uint64)
}

// Printed is what an attempt leaves besides its result. The zero value is an
// attempt that printed nothing. Close it.
type Printed struct {
	Stdout, Stderr Stream // with Attempt.Print
	// Notes are sentences about what is no fault of the item: a log that could
	// not be written, a process that could not be ended.
	Notes []string
}

// Close gives back the temporary files behind the streams.
func (p *Printed) Close() {
	p.Stdout.close()
	p.Stderr.close()
}

// Runner holds what the attempts of one run share. Its methods may be called
// from many goroutines.
type Runner struct {
	null *os.File
	base []string // the run's own environment without an outer attempt's variables
	path string   // its PATH
	temp *tempDir

	mu    sync.Mutex
	envs  map[*jobs.Spec]*specEnv
	paths map[lookup]string
	slots []*slot
	// width is how many connections a host gets at most; 0: any number
	width   int
	clients clients

	serial  atomic.Uint64 // names result files
	noPidfd bool          // for tests: behave as on a kernel without pidfds
}

// NewRunner makes the private directory in which commands may leave their
// results. token is the run's own random word: it names the directory, so
// that Clean can remove what a dead run has left. The environment of this
// process is read now, once.
func NewRunner(token string) (*Runner, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	temp, err := newTempDir(token)
	if err != nil {
		null.Close()
		return nil, fmt.Errorf("no place for result files: %w", err)
	}
	r := &Runner{null: null, temp: temp, envs: map[*jobs.Spec]*specEnv{}, paths: map[lookup]string{}}
	r.base, r.path = baseEnv(os.Environ())
	return r, nil
}

// Close removes the directory and closes what the Runner keeps open. No
// attempt may be running.
func (r *Runner) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.slots {
		s.close()
	}
	r.slots = nil
	r.clients.close()
	fault.Here("results", "leaving")
	return errors.Join(r.null.Close(), r.temp.remove())
}

// Run executes one attempt and returns when its process and its group are gone.
//
// Cancelling ctx ends it gently: TERM, and KILL after Policy.KillAfter; the
// context's cause says why (ErrStopped, ErrLost, or ErrKill for KILL at
// once). Cancelling kill means KILL now, whatever went before. The attempt's
// timeout is applied here.
//
// What Run reports first in time wins: an attempt that ended before it was
// told to has Exited, and one that was told to end was Stopped, Lost or
// TimedOut whatever its exit status.
func (r *Runner) Run(ctx, kill context.Context, a Attempt) (jobs.Result, Printed) {
	if ending, _, told := interrupted(ctx, kill); told {
		return jobs.Result{Ending: ending, Unsent: a.Spec.Handler.HTTP != nil}, Printed{}
	}
	if a.Spec.Handler.HTTP != nil {
		return r.request(ctx, kill, a)
	}
	x := execution{Runner: r, Attempt: &a, begin: time.Now(), pipes: [2]pipe{noPipe, noPipe}}
	if x.prepare() && x.launch(ctx, kill, x.start) {
		x.attend(ctx, kill)
	}
	x.close()
	x.result.Duration = time.Since(x.begin)
	return x.result, x.printed
}

// interrupted says whether an attempt is to be ended, as what, and whether at once.
func interrupted(ctx, kill context.Context) (ending jobs.Ending, now, told bool) {
	if ctx.Err() == nil && kill.Err() == nil {
		return 0, false, false
	}
	now = kill.Err() != nil || errors.Is(context.Cause(ctx), ErrKill)
	if errors.Is(context.Cause(ctx), ErrLost) || errors.Is(context.Cause(kill), ErrLost) {
		return jobs.Lost, now, true
	}
	return jobs.Stopped, now, true
}
