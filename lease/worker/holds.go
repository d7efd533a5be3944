package worker

import (
	"fmt"

	"batchq/jobs"
	"batchq/store"
)

// sayBreakers tells which jobs a result has stopped or set going again.
func (w *Worker) sayBreakers(out store.Advanced) {
	for _, t := range out.Tripped {
		if t.Failures > 0 {
			w.note(jobs.NoteInfo, "job %s: %d different items failed in a row, the last with %q: holding it for %s, then one is tried", t.Job, t.Failures, t.Reason, t.For)
		} else {
			w.note(jobs.NoteInfo, "job %s: the try failed too (%s): holding it for %s", t.Job, t.Reason, t.For)
		}
	}
	for _, job := range out.Mended {
		w.note(jobs.NoteInfo, "job %s: an item succeeded: going on with all of it", job)
		for _, l := range w.lanes {
			l.look = true
		}
	}
}

// sayHolds tells, once, what a run that stays waits for.
func (w *Worker) sayHolds() {
	for _, l := range w.lanes {
		for _, h := range l.holds {
			if h.Pause == nil || w.saidHolds[*h.Pause] {
				continue // that a breaker has opened was said when it did
			}
			w.saidHolds[*h.Pause] = true
			text := fmt.Sprintf("waiting: %s is paused by %s", h.Pause.Target, h.Pause.By)
			if h.Pause.Reason != "" {
				text += ": " + h.Pause.Reason
			}
			w.note(jobs.NoteInfo, "%s", text)
		}
	}
}
