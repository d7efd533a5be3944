package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/jobs/handler"
	"batchq/store"
)

// Rescue takes over from every run that is dead. What it had not started is
// ready when Rescue returns; what it had started is ready as soon as its
// processes have been ended, which goes on in the background: Woken tells,
// and Pending counts.
func (r *Run) Rescue(ctx context.Context) error {
	others, err := r.own.OtherRuns(ctx, r.Info.ID)
	if err != nil {
		return err
	}
	known := map[string]bool{r.Info.Token: true}
	for _, o := range others {
		if !o.Ended {
			known[o.Token] = true
		}
	}
	for _, o := range others {
		why, dead, err := r.dead(ctx, o)
		if err != nil {
			return err
		}
		if !dead {
			continue
		}
		if err := r.takeOver(ctx, o, why); err != nil {
			return err
		}
	}
	if err := r.clearLocks(ctx, known); err != nil {
		return fmt.Errorf("clearing lock files: %w", err)
	}
	return r.tendOrphans(ctx)
}

// clearLocks removes lock files that belong to no run in the book and that
// nobody holds: a run was killed between making its file and writing its row.
func (r *Run) clearLocks(ctx context.Context, known map[string]bool) (err error) {
	free, err := freeLocks(r.database, known)
	defer func() {
		for _, f := range free {
			err = errors.Join(err, f.Close())
		}
	}()
	if err != nil || len(free) == 0 {
		return err
	}
	// Asked with the locks in hand: a run that came into the book and died
	// since known was read must keep its file, which says that it is dead.
	others, err := r.own.OtherRuns(ctx, r.Info.ID)
	if err != nil {
		return err
	}
	for _, o := range others {
		if f := free[o.Token]; f != nil && !o.Ended {
			delete(free, o.Token)
			err = errors.Join(err, f.Close())
		}
	}
	for token := range free {
		_ = os.Remove(lockPath(r.database, token)) // somebody else may have been faster
		fault.Here("rescue", "cleared")
	}
	return err
}

// dead says whether another run has died, and how that was found.
func (r *Run) dead(ctx context.Context, o store.OtherRun) (why store.Death, dead bool, err error) {
	if o.BootID != r.Info.BootID || o.Foreign {
		// Nothing survives a boot. And what another file's run still does, it
		// does for that file: here it is as dead as can be.
		return store.DeathLock, true, nil
	}
	s := r.askAgain(ctx, o.RunInfo)
	// One that has ended and still holds its lock was taken for dead, lives,
	// and has claimed again before it knew: it will leave what it holds itself.
	if s == died || o.Ended && s != lives {
		return store.DeathLock, true, nil
	}
	if s == unknown && o.Held == 0 && r.sameProcesses(o.RunInfo) && !runs(o.RunInfo) {
		return store.DeathLock, true, nil // it holds nothing; its row alone is left
	}
	if !o.Lapsed || r.sameProcesses(o.RunInfo) && descends(o.PID, o.PIDStart) {
		return "", false, nil // it may hang, but we are a part of an item of it
	}
	// A clock step or a resumed laptop is not a death: a run that lives renews
	// before the second look, half a lease after the first.
	since, length, err := r.own.NoteLapse(ctx, o.ID)
	if errors.Is(err, store.ErrBusy) && r.holdsUp(o) {
		err, since = nil, length // it kept the look from being stored
	} else if err == nil && length == 0 {
		return "", false, nil
	}
	if err != nil || since < length/2 {
		return "", false, err
	}
	r.end(ctx, o.RunInfo)
	return store.DeathLease, true, nil
}

// askAgain asks whether a run lives. One that is just dying is given the time
// to be dead: who types kill -9 and the same line again must find it so.
func (r *Run) askAgain(ctx context.Context, o store.RunInfo) sign {
	deadline := time.Now().Add(500 * time.Millisecond)
	for {
		s := ask(r.database, r.Info, o)
		if s == died || !r.sameProcesses(o) || !handler.Dying(o.PID, o.PIDStart) || time.Now().After(deadline) {
			return s
		}
		select {
		case <-ctx.Done():
			return s
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// sameProcesses says whether this process can ask the kernel about o's.
func (r *Run) sameProcesses(o store.RunInfo) bool { return sameProcesses(r.Info, o) }

func sameProcesses(me, o store.RunInfo) bool { return o.BootID == me.BootID && o.PIDNS == me.PIDNS }

// runs says whether the very process that a run was is still at work.
func runs(o store.RunInfo) bool { return handler.Alive(o.PID, o.PIDStart) }

// end kills a run that has not renewed its lease for one and a half of them
// (it hangs, or is stopped), if it can be told from a stranger with its pid.
func (r *Run) end(ctx context.Context, o store.RunInfo) {
	if !r.sameProcesses(o) || o.PID == os.Getpid() || !runs(o) {
		return
	}
	r.note(jobs.Note{Level: jobs.NoteMust, Text: fmt.Sprintf("run %d (pid %d) let its lease lapse twice: ending it", o.ID, o.PID)})
	if err := syscall.Kill(o.PID, syscall.SIGKILL); err != nil {
		r.note(jobs.Note{Level: jobs.NoteMust, Text: fmt.Sprintf("run %d (pid %d) can't be ended: %v", o.ID, o.PID, err)})
		return
	}
	fault.Here("rescue", "killed")
	for deadline := time.Now().Add(2 * time.Second); runs(o) && time.Now().Before(deadline); {
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (r *Run) takeOver(ctx context.Context, o store.OtherRun, why store.Death) error {
	// First, because once its row is closed nobody asks for it any more: a
	// rescuer that is killed in between would leave the directory for ever.
	fault.Here("rescue", "found")
	r.clean(o.RunInfo)
	fault.Here("rescue", "cleaned")
	var sum store.Taken
	for {
		t, err := r.own.TakeOver(ctx, o.ID, r.Info.ID, why, r.lease)
		if err != nil {
			return err
		}
		sum.Freed, sum.Orphans = sum.Freed+t.Freed, sum.Orphans+t.Orphans
		if !t.More {
			break
		}
	}
	fault.Here("rescue", "taken over")
	if path := lockPath(r.database, o.Token); o.Token != "" && ask(r.database, r.Info, o.RunInfo) == died {
		// Its row is closed: the file means nothing any more, and another
		// rescuer may have been faster with it.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.note(jobs.Note{Level: jobs.NoteDetail, Text: fmt.Sprintf("the lock file of run %d can't be removed: %v", o.ID, err)})
		}
	}
	fault.Here("rescue", "unlocked")
	if sum.Freed+sum.Orphans > 0 {
		r.note(jobs.Note{Level: jobs.NoteInfo, Text: takenOver(o, sum)})
		r.wakeUp()
	}
	return nil
}

func (r *Run) wakeUp() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// Pending is how many started items of dead runs wait under this run for
// their processes to end, and whether that was tried and failed: then waiting
// for it does not help.
func (r *Run) Pending() (orphans int, stuck bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.orphans, r.stuck && !r.busy
}

// tendOrphans sees to it that what dead runs left behind is being ended.
func (r *Run) tendOrphans(ctx context.Context) error {
	orphans, err := r.own.Orphans(ctx, r.Info.ID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		r.again = true // who is at work looks once more
		return nil
	}
	r.orphans, r.busy = len(orphans), len(orphans) > 0
	if !r.busy {
		r.stuck = false
		return nil
	}
	r.ending.Go(func() { r.tend(ctx, orphans) })
	return nil
}

// tend settles orphans, and those that have come meanwhile.
func (r *Run) tend(ctx context.Context, orphans []store.Orphan) {
	defer r.wakeUp()
	for {
		left := r.settleOrphans(ctx, orphans)
		r.mu.Lock()
		if !r.again || ctx.Err() != nil {
			r.orphans, r.busy, r.again, r.stuck = left, false, false, left > 0
			r.mu.Unlock()
			return
		}
		r.again = false
		r.mu.Unlock()
		more, err := r.own.Orphans(ctx, r.Info.ID)
		if err != nil {
			continue // with those that are known; a look at what is settled costs little
		}
		orphans = more
	}
}

// settleOrphans ends what is left of each orphan and moves its item on. It
// returns how many must stay held.
func (r *Run) settleOrphans(ctx context.Context, orphans []store.Orphan) (left int) {
	var here []store.Orphan
	for _, o := range orphans {
		switch {
		case o.Owner.BootID != r.Info.BootID:
			left += r.settle(ctx, o) // nothing survives a boot
		case o.HTTP, o.Owner.PIDNS != r.Info.PIDNS:
			left += r.outlast(ctx, o)
		default:
			here = append(here, o)
		}
	}
	return left + r.endProcesses(ctx, here)
}

// outlast handles an orphan of which nobody can be asked from here, a process in
// another pid namespace or a server: it is over when its timeout would have ended
// it.
func (r *Run) outlast(ctx context.Context, o store.Orphan) (left int) {
	bound, where := o.Policy.Timeout+o.Policy.KillAfter, "was started in another pid namespace"
	if o.HTTP {
		bound, where = o.Policy.Timeout, "is a request that a server may be at work on still"
	}
	if o.Policy.Timeout > 0 && o.Age >= bound {
		return r.settle(ctx, o)
	}
	text := fmt.Sprintf("item %d %s: it stays held", o.Item, where)
	if o.Policy.Timeout > 0 {
		text += fmt.Sprintf(" until its timeout is over, in %s", (bound - o.Age).Round(time.Second))
	} else {
		text += "; it has no timeout: drop it when you know that it has ended"
	}
	r.stays(o, jobs.NoteInfo, text)
	return 1
}

// stays says once why an item stays held; the look is repeated at every beat.
func (r *Run) stays(o store.Orphan, level jobs.NoteLevel, text string) {
	r.mu.Lock()
	said := r.said[o.Item]
	r.said[o.Item] = true
	r.mu.Unlock()
	if !said {
		r.note(jobs.Note{Level: level, Text: text})
	}
}

// traces is all by which the processes of an orphan are found.
func traces(o store.Orphan) handler.Orphan {
	// The second is for what the clock was corrected by meanwhile.
	begun := max(o.Owner.PIDStart, handler.StartedAgo(o.Age+time.Second))
	traces := handler.Orphan{Mark: mark(o.Owner.Token, o.Item, o.Attempt), PID: o.PID, Start: o.PIDStart}
	if o.Owner.Session >= 0 {
		traces.Run = &handler.RunProcess{PID: o.Owner.PID, Session: o.Owner.Session, Begun: begun}
	}
	return traces
}

// endProcesses ends what the orphans left on this host. Those of which
// nothing is left are settled first, and each of the others by itself: one
// that ignores TERM keeps no other waiting.
func (r *Run) endProcesses(ctx context.Context, orphans []store.Orphan) (left int) {
	if len(orphans) == 0 {
		return 0
	}
	marks := make([]handler.Orphan, len(orphans))
	for i, o := range orphans {
		marks[i] = traces(o)
	}
	alive, err := seen(ctx, marks)
	if ctx.Err() != nil {
		return len(orphans)
	}
	if err != nil {
		r.stays(orphans[0], jobs.NoteMust, "what a dead run left behind can't be looked for: "+err.Error())
		return len(orphans)
	}
	var stay atomic.Int64
	var ending sync.WaitGroup
	for i, o := range orphans {
		if within(marks[i]) {
			// Never ourselves or an ancestor: it lives, and so it stays held.
			r.stays(o, jobs.NoteMust, fmt.Sprintf("job %s, item %d stays held: its run %d is dead, and this run is a part of it", o.It.Job, o.Item, o.Owner.ID))
			stay.Add(1)
			continue
		}
		p, lives := alive[i]
		if !lives {
			stay.Add(int64(r.settle(ctx, o)))
			continue
		}
		if o.Owner.Foreign {
			r.stays(o, jobs.NoteMust, fmt.Sprintf("job %s, item %d stays held: process %d (%s) is at work on it for another copy of this database: drop it, or wait",
				o.It.Job, o.Item, p.PID, p.Name))
			stay.Add(1)
			continue
		}
		ending.Go(func() { stay.Add(int64(r.endOne(ctx, o, marks[i]))) })
	}
	ending.Wait()
	return int(stay.Load())
}

// seen returns a process of each orphan that has any. It looks twice, because what is
// executing a new program at the moment of one look bears no mark.
func seen(ctx context.Context, marks []handler.Orphan) (alive map[int]handler.Process, err error) {
	alive = map[int]handler.Process{}
	for range 2 {
		found, err := handler.Survivors(marks)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			alive[p.Orphan] = p
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return alive, nil
}

func (r *Run) endOne(ctx context.Context, o store.Orphan, m handler.Orphan) (left int) {
	still, err := handler.End(ctx, []handler.Orphan{m}, o.Policy.KillAfter)
	if ctx.Err() != nil {
		return 1
	}
	if err != nil {
		r.stays(o, jobs.NoteMust, fmt.Sprintf("item %d: what its dead run left behind can't be ended: %v", o.Item, err))
		return 1
	}
	for _, p := range still {
		what := fmt.Sprintf("left by the dead run %d, can't be ended", o.Owner.ID)
		if p.Doubtful {
			what = fmt.Sprintf("which the dead run %d may have left, is not ended", o.Owner.ID)
		}
		r.stays(o, jobs.NoteMust, fmt.Sprintf("job %s, item %d stays held: process %d (%s), %s: %s", o.It.Job, o.Item, p.PID, p.Name, what, p.Reason))
	}
	if len(still) > 0 {
		return 1
	}
	return r.settle(ctx, o)
}

// settle charges the crash. It returns 1 when the item stays held.
func (r *Run) settle(ctx context.Context, o store.Orphan) (left int) {
	fault.Here("rescue", "ended")
	v := o.Policy.AfterCrash(o.It)
	err := r.own.SettleOrphan(context.WithoutCancel(ctx), r.Info.ID, o, v)
	switch {
	case errors.Is(err, store.ErrStale):
		return 0 // it has changed hands: no longer ours to settle
	case err != nil:
		r.note(jobs.Note{Level: jobs.NoteInfo, Text: fmt.Sprintf("item %d: %v; trying again", o.Item, err)})
		return 1
	}
	fault.Here("rescue", "settled")
	r.clean(o.Owner) // again: who took over from its run may have died before it did
	r.tell(o, v)
	r.wakeUp()
	return 0
}

// clean removes the private directory of a dead run of this file.
func (r *Run) clean(o store.RunInfo) {
	if o.Foreign {
		return // it may live, and use it
	}
	if err := handler.Clean(o.Token); err != nil {
		r.note(jobs.Note{Level: jobs.NoteDetail, Text: err.Error()})
	}
}

// tell says what became of an orphan, and counts those that it cost for good.
func (r *Run) tell(o store.Orphan, v jobs.Verdict) {
	level, text := jobs.NoteInfo, fmt.Sprintf("job %s, item %d, key %.80s: %s", o.It.Job, o.Item, o.It.Key, v.Reason)
	if v.To == jobs.Dead {
		level = jobs.NoteMust
		text += ": set aside in the dead-letter list"
		r.mu.Lock()
		r.buried = append(r.buried, Buried{o.It.Job, o.It.Scope})
		r.mu.Unlock()
	}
	r.note(jobs.Note{Level: level, Text: text})
}
