package lease

import (
	"context"
	"fmt"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// A run that is stopped (SIGSTOP) in the middle of a transaction keeps every
// other from writing, so that not even the first look at its lapsed lease can
// be stored. Then that look is kept here, and what is asked for is more: that
// its lease ran out half of ours ago, and that it was found stopped before and
// after another whole wait for the lock. What is merely slow is never both.

// holdsUp is asked when the lock was waited for in vain. The first time it
// takes note; then it says whether the run is to be ended.
func (r *Run) holdsUp(o store.OtherRun) bool {
	halts := r.halts(o) && o.Since >= r.lease/2
	r.mu.Lock()
	before := r.halted[o.ID]
	r.halted[o.ID] = halts
	r.mu.Unlock()
	if halts && !before {
		r.note(jobs.Note{Level: jobs.NoteMust, Text: fmt.Sprintf("run %d (pid %d) is stopped, its lease has lapsed, and the database can't be written: it is ended unless it goes on (kill -CONT %d)",
			o.ID, o.PID, o.PID)})
	}
	return halts && before
}

// halts says whether a lapsed run of this file is seen to stand still.
func (r *Run) halts(o store.OtherRun) bool {
	return o.Lapsed && !o.Foreign && r.sameProcesses(o.RunInfo) && handler.Stopped(o.PID, o.PIDStart) && !descends(o.PID, o.PIDStart)
}

// unblock looks, after a wait for the lock in vain, for a stopped run that may
// hold it. It returns true when another wait is worth it.
func (r *Run) unblock(ctx context.Context) bool {
	others, err := r.own.OtherRuns(ctx, r.Info.ID) // reading needs no lock
	if err != nil {
		return false
	}
	again := false
	for _, o := range others {
		end, halts := r.holdsUp(o), r.halts(o)
		if end {
			r.end(ctx, o.RunInfo)
			halts = !runs(o.RunInfo)
		}
		again = again || halts
	}
	return again
}
