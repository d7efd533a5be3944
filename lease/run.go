// Package lease is how a run comes to own what it works on, keeps it, and
// takes over from runs that died: register, lock, heartbeat, rescue. It says
// nothing about what is worked or how; that is lease/worker.
//
// Three things tell that a run lives, each for a case that the others miss:
// its lock file (freed by the kernel at any death), its lease (which ends
// also when the lock can't be asked), and its process (pid, start time, boot
// and pid namespace), which is ended before anything of it is given away.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/jobs/handler"
	"batchq/store"
)

// Run is one registered run of this process.
type Run struct {
	Info     store.RunInfo
	own      store.Ownership
	database string
	lease    time.Duration
	lock     *os.File
	note     func(jobs.Note)

	mu      sync.Mutex
	claims  map[int64]bool // those that the worker believes to hold
	ending  sync.WaitGroup // orphans being ended
	orphans int            // held and not yet settled
	busy    bool           // a goroutine is at work on them
	again   bool           // there are more for it since it began
	stuck   bool           // the last look could not end some of them
	said    map[int64]bool // items of which it was said that they stay held
	halted  map[int64]bool // runs that were found stopped while nobody could write
	buried  []Buried

	lost chan []int64
	wake chan struct{}
}

// Options say how a run keeps what it owns.
type Options struct {
	Database string // absolute path
	Lease    time.Duration
	Command  []string // the command line, for who looks at the book
	// Note is told what a person may want to know; from several goroutines.
	Note func(jobs.Note)
}

// Register locks a file of the run's own, then writes the run into the book:
// in this order, so that a row without a lock is always a dead run.
func Register(ctx context.Context, own store.Ownership, o Options) (*Run, error) {
	info, err := whoAmI(o.Command)
	if err != nil {
		return nil, err
	}
	r := &Run{Info: info, own: own, database: o.Database, lease: o.Lease, note: o.Note,
		claims: map[int64]bool{}, said: map[int64]bool{}, halted: map[int64]bool{}, lost: make(chan []int64, 1), wake: make(chan struct{}, 1)}
	for {
		r.Info.Token = strings.ToLower(rand.Text())
		r.lock, err = acquire(o.Database, r.Info.Token)
		if err == nil {
			break
		}
		if !errors.Is(err, errLockGone) {
			return nil, err
		}
	}
	if err := r.register(ctx); err != nil {
		return nil, errors.Join(err, r.unlock())
	}
	return r, nil
}

// register writes the run into the book. Where that is waited for in vain, and
// a stopped run may be why, it is tried again.
func (r *Run) register(ctx context.Context) (err error) {
	for {
		r.Info.ID, err = r.own.Register(ctx, r.Info)
		if !errors.Is(err, store.ErrBusy) || !r.unblock(ctx) {
			return err
		}
	}
}

// whoAmI tells this process from every other, on this boot and on later ones.
func whoAmI(command []string) (store.RunInfo, error) {
	pid := os.Getpid()
	start, err := handler.StartTime(pid)
	if err != nil {
		return store.RunInfo{}, fmt.Errorf("identifying this process: %w", err)
	}
	boot, err := handler.BootID()
	if err != nil {
		return store.RunInfo{}, fmt.Errorf("identifying this boot: %w", err)
	}
	ns, err := handler.PIDNamespace()
	if err != nil {
		return store.RunInfo{}, fmt.Errorf("identifying this pid namespace: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return store.RunInfo{}, fmt.Errorf("identifying this host: %w", err)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return store.RunInfo{}, fmt.Errorf("identifying this session: %w", err)
	}
	return store.RunInfo{PID: pid, PIDStart: start, BootID: boot, PIDNS: ns, Session: session, Host: host, Command: command}, nil
}

// Mark is the BATCHQ_MARK of one attempt: by it the processes of a dead run
// are found again.
func (r *Run) Mark(item int64, attempt int) string { return mark(r.Info.Token, item, attempt) }

func mark(token string, item int64, attempt int) string {
	return fmt.Sprintf("%s-%d-%d", token, item, attempt)
}

// Hold notes a claim that the worker has, so that the heartbeat tells when it
// is lost.
func (r *Run) Hold(claim int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims[claim] = true
}

// LetGo forgets claims of which nothing is held any more.
func (r *Run) LetGo(claims ...int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range claims {
		delete(r.claims, id)
	}
}

// Lost delivers claims that turned out not to be ours any more.
func (r *Run) Lost() <-chan []int64 { return r.lost }

// Woken says that a rescue has changed something: items may be ready.
func (r *Run) Woken() <-chan struct{} { return r.wake }

// Buried is an item that went to the dead-letter list because its run died.
type Buried struct{ Job, Scope string }

// Buried lists what this run's rescues had to set aside.
func (r *Run) Buried() []Buried {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.buried)
}

// Heartbeat renews the lease every quarter of it and looks after dead runs,
// until ctx ends. It returns early, with an error, only when the database is
// no longer the file that was opened. A renewal that fails is tried again: the
// token decides who owns an item, not the clock. That is told when it begins and
// when it is over, not at every beat.
func (r *Run) Heartbeat(ctx context.Context, replaced func() bool) error {
	beat := time.NewTicker(max(r.lease/4, time.Millisecond))
	defer beat.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
		}
		if replaced() {
			return r.Displaced()
		}
		err := r.renew(ctx)
		switch {
		case err != nil && ctx.Err() == nil && !failing:
			r.note(jobs.Note{Level: jobs.NoteInfo, Text: "the lease could not be renewed, trying again: " + err.Error()})
		case err == nil && failing:
			r.note(jobs.Note{Level: jobs.NoteInfo, Text: "the lease is renewed again"})
		}
		failing = err != nil
		fault.Here("heartbeat", "renewed")
		if err := r.Rescue(ctx); err != nil && ctx.Err() == nil {
			r.note(jobs.Note{Level: jobs.NoteDetail, Text: "looking for dead runs: " + err.Error()})
		}
	}
}

// Displaced is why a run whose file was replaced can't go on: what it records
// is in a file that nobody finds at the path.
func (r *Run) Displaced() error {
	return fmt.Errorf("%s is no longer the file that this run opened: it was moved, removed or restored under it", r.database)
}

func (r *Run) renew(ctx context.Context) error {
	r.mu.Lock()
	before := make([]int64, 0, len(r.claims))
	for id := range r.claims {
		before = append(before, id)
	}
	r.mu.Unlock()
	have, err := r.own.Renew(ctx, r.Info.ID, r.lease)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(before, func(id int64) bool { return slices.Contains(have, id) })
	if len(gone) == 0 {
		return nil
	}
	select {
	case r.lost <- gone:
	default: // not heard yet: told again at the next beat, which must not wait for it
	}
	return nil
}

// Deposed says whether another run has taken this one for dead (its lease had
// lapsed twice, and it could not be asked): then what it claims from now on
// would be taken from it too.
func (r *Run) Deposed(ctx context.Context) (bool, error) {
	const nobody = 0
	runs, err := r.own.OtherRuns(ctx, nobody)
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(runs, func(o store.OtherRun) bool { return o.ID == r.Info.ID && !o.Ended }), nil
}

// Close writes the run's end and gives the lock back.
func (r *Run) Close(ctx context.Context, end store.RunEnd) error {
	r.ending.Wait()
	if err := r.own.EndRun(ctx, r.Info.ID, end); err != nil {
		// For the book it lives on. Its file stays, without a lock: that tells
		// the next run at once that it is dead; without a file only the lease would.
		return errors.Join(err, r.lock.Close())
	}
	return r.unlock()
}

// unlock removes the file before the lock is gone: no other run ever sees it
// free. That it is gone already, by a hand or a rescuer's, is no fault.
func (r *Run) unlock() error {
	err := os.Remove(lockPath(r.database, r.Info.Token))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	fault.Here("lock", "removed")
	return errors.Join(err, r.lock.Close())
}
