package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/lease"
	"batchq/store"
)

// Store is what the loop needs of the store.
type Store interface {
	store.Queue
	Sweeper
	Counts(ctx context.Context, jobNames []string, scope *string) (store.Counts, error)
	Identity(ctx context.Context) (string, error)
}

// Worker is one run at work.
type Worker struct {
	plan     Plan
	store    Store
	run      *lease.Run
	runner   *handler.Runner
	progress jobs.Progress
	identity string
	limits   store.Limits

	lanes    []*lane
	jobs     map[string]*job
	inFlight map[int64]*attempt // by item
	claims   map[int64]int      // claim → items of it that are not settled
	skip     map[int64]bool     // items that the run leaves alone
	limit    int                // items that may still be claimed; negative: no bound

	ended   chan *attempt // every attempt ends here; never blocks, see New
	pending []*attempt    // ended, not yet recorded
	empty   []int64       // claims that can be closed with the next write
	offered time.Time     // when it was last looked for what may start

	fatal chan error // the heartbeat's reason to give up

	cancel   context.CancelCauseFunc // ends the running attempts
	attempts context.Context
	// soft and hard are the two stops. A write waits for its lock until last
	// ends, a little after hard; once it has the lock, nothing interrupts it.
	soft, hard, last context.Context

	started     time.Time
	closing     string          // why nothing more is started; "" while it is
	graceEnd    time.Time       // when running commands are told to end; zero: no stop was seen
	killed      bool            // the hard stop was seen
	failing     bool            // the last write failed and a person was told
	retryAt     time.Time       // when to try it again; zero: now
	taken       bool            // a claim of this turn brought something that has not been offered a slot
	rescued     bool            // dead runs were looked for since a lane was found full
	pidsAt      time.Time       // when pids that nothing else carried are written
	reloading   bool            // the configuration is to be read again
	saidHolds   map[string]bool // of which it was said that the run waits for them
	saidCrashed bool            // that items under which a run has died go one at a time
	unforked    []int64         // items skipped because no process could be made for them
	forkAt      time.Time       // when these are tried again; zero: there are none
	sweepAt     time.Time       // when a run that follows sweeps again
	summary     Summary
}

// lastWrite is how long what was killed by a hard stop may wait for the lock
// to be recorded. A moment of contention must not turn a stop into a crash;
// a person who insists must not wait long either.
const lastWrite = 5 * time.Second

// unbounded is the limit of what has none.
const unbounded = -1

// New makes the loop of a registered run.
func New(ctx context.Context, plan Plan, s Store, run *lease.Run, runner *handler.Runner, progress jobs.Progress) (*Worker, error) {
	identity, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	w := &Worker{plan: plan, store: s, run: run, runner: runner, progress: progress, identity: identity, limits: plan.limits(),
		jobs: map[string]*job{}, inFlight: map[int64]*attempt{}, claims: map[int64]int{}, skip: map[int64]bool{}, limit: unbounded, fatal: make(chan error, 1), saidHolds: map[string]bool{},
		summary: Summary{Broken: map[string]string{}, Halted: map[string]string{}, NoRoom: map[string]string{}}}
	if plan.Limit > 0 {
		w.limit = plan.Limit
	}
	slots := 0
	for _, l := range plan.Lanes {
		slots += l.Slots
		w.open(l)
	}
	// As many as can be in flight, so that an attempt hardly ever waits to
	// report its end: only a reload can make them more.
	w.ended = make(chan *attempt, slots)
	runner.Connections(slots)
	return w, nil
}

// open makes a lane of the plan ready to be worked.
func (w *Worker) open(l Lane) {
	state := &lane{Lane: l, look: true, allow: unbounded}
	if w.plan.Once {
		state.allow = w.plan.Batch
	}
	w.lanes = append(w.lanes, state)
	for _, spec := range l.Jobs {
		w.jobs[spec.Name] = &job{spec: spec, lane: state, suspects: map[int64]string{}, failed: map[int64]bool{}}
	}
}

// Run works until nothing that was asked for is left, or soft ends (start
// nothing more, release, give running commands their grace), or hard ends
// (kill them now). The error is about the run itself, never about an item.
// replaced says whether the database's path leads to another file by now.
func (w *Worker) Run(soft, hard context.Context, replaced func() bool) (Summary, error) {
	last, enough := context.WithCancel(context.WithoutCancel(hard))
	defer enough()
	defer context.AfterFunc(hard, func() {
		select {
		case <-time.After(lastWrite):
			enough()
		case <-last.Done():
		}
	})()
	w.started, w.soft, w.hard, w.last = time.Now(), soft, hard, last
	w.attempts, w.cancel = context.WithCancelCause(context.Background())
	defer w.cancel(handler.ErrStopped)
	if err := w.run.Rescue(soft); err != nil && soft.Err() == nil {
		return w.summary, err
	}
	before, err := w.store.Counts(soft, w.plan.JobNames(), w.plan.Scope)
	if err != nil && soft.Err() == nil {
		return w.summary, err
	}
	w.summary.DeadBefore = before.Dead
	// The heart beats until the last result is recorded, also while stopping.
	beat, still := context.WithCancel(context.WithoutCancel(soft))
	var beating sync.WaitGroup
	beating.Go(func() {
		if err := w.run.Heartbeat(beat, replaced); err != nil {
			w.fatal <- err
		}
	})
	err = w.loop()
	if err == nil {
		w.sweepAtEnd()
	}
	still()
	beating.Wait()
	if err == nil && replaced() {
		return w.summary, w.run.Displaced() // a short run ends before the first beat
	}
	if err != nil {
		// The database is beyond our reach. What runs is ended, because its
		// result could not be recorded.
		w.cancel(handler.ErrKill)
		for range len(w.inFlight) - len(w.pending) {
			(<-w.ended).printed.Close()
		}
		return w.summary, err
	}
	for _, b := range w.run.Buried() {
		if w.jobs[b.Job] != nil && (w.plan.Scope == nil || *w.plan.Scope == b.Scope) {
			w.summary.Dead++
		}
	}
	w.summary.Books, err = w.store.Counts(context.WithoutCancel(soft), w.plan.JobNames(), w.plan.Scope)
	return w.summary, err
}

func (w *Worker) loop() error {
	for {
		w.taken = false
		w.collect()
		w.checkClock()
		if err := w.write(); err != nil {
			return err
		}
		if w.reloading {
			if err := w.reload(); err != nil {
				return err
			}
		}
		took, err := w.claim()
		if err != nil {
			return err
		}
		if took {
			continue
		}
		over, err := w.over()
		if err != nil || over {
			return err
		}
		if w.taken {
			continue // the last look took something: it starts now
		}
		if err := w.rest(); err != nil {
			return err
		}
	}
}

// checkClock lets the reasons to stop take effect.
func (w *Worker) checkClock() {
	now := time.Now()
	asked := w.soft.Err() != nil // read first: who insists at once has insisted before he asks
	w.killed = w.hard.Err() != nil
	if (asked || w.killed) && w.graceEnd.IsZero() {
		w.closing, w.summary.Stopped = "stopped", true
		w.graceEnd = now.Add(w.plan.Grace)
		if n := len(w.inFlight) - len(w.pending); n > 0 && !w.killed {
			w.note(jobs.NoteInfo, "stopping: %d at work may take %s more; a second signal ends them now", n, w.plan.Grace)
		}
	}
	if w.plan.MaxRuntime > 0 && now.Sub(w.started) >= w.plan.MaxRuntime && w.closing == "" {
		w.closing = "its time is over (--max-runtime)"
		w.note(jobs.NoteInfo, "%s is over: starting nothing more", w.plan.MaxRuntime)
	}
	if !w.graceEnd.IsZero() && !now.Before(w.graceEnd) && w.attempts.Err() == nil {
		w.cancel(handler.ErrStopped)
	}
}

func (w *Worker) note(level jobs.NoteLevel, format string, args ...any) {
	w.progress.Note(jobs.Note{Level: level, Text: fmt.Sprintf(format, args...)})
}

// patient says whether a failed write may succeed later, and if so puts it
// off. A result that is known is never given up while the run lives.
func (w *Worker) patient(err error) bool {
	temporary := errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrReadOnly)
	if !temporary || w.hard.Err() != nil {
		return false
	}
	if !w.failing {
		w.note(jobs.NoteMust, "%v: trying again until it can be recorded", err)
	}
	w.failing, w.retryAt = true, time.Now().Add(time.Second)
	return true
}

func random() float64 { return rand.Float64() }
