package worker

import (
	"fmt"
	"time"

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
			what, text := wording(h)
			if !w.saidHolds[what] {
				w.saidHolds[what] = true
				w.note(jobs.NoteInfo, "waiting: %s", text)
			}
		}
	}
}

// wording is what holds something back as a sentence; what tells it from every
// other hold.
func wording(h store.Hold) (what, text string) {
	if b := h.Breaker; b != nil {
		return fmt.Sprint(h.Job, b.Opened.UnixMilli()),
			fmt.Sprintf("job %s is held back, because its items failed in a row, the last with %q; one is tried at %s", h.Job, b.Reason, b.Until.Local().Format(time.TimeOnly))
	}
	p := h.Pause
	text = fmt.Sprintf("%s is paused by %s", p.Target, p.By)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return fmt.Sprint(p.Target, p.Since.UnixMilli()), text
}
