package worker

import (
	"context"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Sweeper deletes what keep_done no longer keeps: that part of store.Upkeep.
type Sweeper interface {
	Sweep(ctx context.Context, keep map[string]time.Duration) (store.Pruned, error)
	SweepRuns(ctx context.Context, keep map[string]time.Duration) (runs int, err error)
}

// A run sweeps at its end, and while it follows. Neither may be long: what is
// left is the next run's.
const (
	sweepSteps = 5
	sweepTime  = 100 * time.Millisecond

	// Between two looks of a run that follows: when the last one deleted
	// something, when there is more to look at, and when it was at the end.
	sweepOn    = 100 * time.Millisecond
	sweepNext  = 2 * time.Second
	sweepAgain = time.Minute
)

// keeps is how long the run's jobs keep what is settled; one that is not in it
// keeps it for ever.
func (w *Worker) keeps() map[string]time.Duration {
	keep := map[string]time.Duration{}
	for _, l := range w.plan.Lanes {
		for _, s := range l.Jobs {
			if s.KeepDone > 0 {
				keep[s.Name] = s.KeepDone
			}
		}
	}
	return keep
}

// sweepAtEnd sweeps a little, or as much again as the run has done where that
// is more: else what comes in would outrun it. A stop comes first.
func (w *Worker) sweepAtEnd() {
	begun, deleted := time.Now(), int64(0)
	for step := range w.summary.Done + sweepSteps {
		if w.soft.Err() != nil || w.hard.Err() != nil {
			return
		}
		if (step >= sweepSteps || time.Since(begun) > sweepTime) && deleted >= 2*int64(w.summary.Done) {
			break
		}
		p, ok := w.sweep()
		if !ok || !p.More {
			break
		}
		if step >= sweepSteps && p.Done+p.Dropped == 0 {
			break // it looks at what stays
		}
		deleted += p.Done + p.Dropped
		time.Sleep(store.Breath)
	}
	w.sweepRuns()
}

// sweepIfDue is a step of a run that stays.
func (w *Worker) sweepIfDue() {
	now := time.Now()
	if !w.plan.Follow || w.closing != "" || !w.retryAt.IsZero() || now.Before(w.sweepAt) {
		return
	}
	p, ok := w.sweep()
	switch {
	case ok && p.More && p.Done+p.Dropped > 0:
		w.sweepAt = now.Add(sweepOn)
	case ok && p.More:
		w.sweepAt = now.Add(sweepNext)
	default:
		w.sweepAt = now.Add(sweepAgain)
		w.sweepRuns()
	}
}

// sweep is one step; false when there is nothing to be swept, or it failed,
// which is no failure of the run.
func (w *Worker) sweep() (p store.Pruned, ok bool) {
	keep := w.keeps()
	if len(keep) == 0 {
		return p, false
	}
	p, err := w.store.Sweep(w.hard, keep)
	if err != nil {
		w.note(jobs.NoteDetail, "deleting what keep_done no longer keeps: %v", err)
		return p, false
	}
	if n := p.Done + p.Dropped; n > 0 {
		w.note(jobs.NoteDetail, "%d items deleted that were settled longer ago than keep_done", n)
	}
	return p, true
}

// sweepRuns deletes old runs of jobs that keep nothing for ever.
func (w *Worker) sweepRuns() {
	if _, err := w.store.SweepRuns(w.hard, w.keeps()); err != nil {
		w.note(jobs.NoteDetail, "deleting runs of long ago: %v", err)
	}
}
