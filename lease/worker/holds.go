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
	for _, t := range out.Throttled {
		if !w.jobs[t.Job].throttled {
			w.jobs[t.Job].throttled = true // each further hold would be one more line
			w.note(jobs.NoteInfo, "job %s: its server says that it is too much (%s): holding it for %s, then going on more slowly", t.Job, t.Reason, t.For.Round(time.Millisecond))
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
			w.sayWaits(wording(h))
		}
	}
}

// sayLeft tells what a run waits for that stays until all of it is settled,
// apart from holds: a lane that others fill, what is due later, what others
// have in hand.
func (w *Worker) sayLeft(c store.Counts) {
	var due time.Time
	for _, l := range w.lanes {
		if l.full != nil {
			w.sayWaits(fullWording(l.full))
		}
		if !l.nextDue.IsZero() && (due.IsZero() || l.nextDue.Before(due)) {
			due = l.nextDue
		}
	}
	if others := c.Claimed + c.Running; others > 0 {
		w.sayWaits("others", jobs.Count(others, "item")+" in hand of other runs")
	}
	// What comes again within seconds is no news: retries would make a line each.
	if c.Delayed > 0 && c.Ready == 0 && time.Until(due) > longWait {
		at := due.Format(time.DateTime)
		w.sayWaits(at, jobs.Count(c.Delayed, "item")+" for later, the first is due at "+at)
	}
}

// longWait is a wait that a person is told of.
const longWait = 30 * time.Second

// fullWording says who fills a lane; what tells them from others.
func fullWording(f *FullLane) (what, text string) {
	text = fmt.Sprintf("lane %s is full: %d of %d", f.Name, f.InUse, f.Slots)
	what = f.Name
	for _, h := range f.Holders {
		what += fmt.Sprint(" ", h.Run)
		text += fmt.Sprintf(", run %d since %s", h.Run, h.Since.Local().Format(time.TimeOnly))
	}
	return what, text
}

// sayWaits tells, once for each what, something that a run waits for.
func (w *Worker) sayWaits(what, text string) {
	if !w.saidHolds[what] {
		w.saidHolds[what] = true
		w.note(jobs.NoteInfo, jobs.Waiting+"%s", text)
	}
}

// wording is what holds something back as a sentence; what tells it from every
// other hold.
func wording(h store.Hold) (what, text string) {
	if b := h.Breaker; b != nil {
		return fmt.Sprint(h.Job, b.Opened.UnixMilli()),
			fmt.Sprintf("job %s is held back, because its items failed in a row, the last with %q; one is tried at %s", h.Job, b.Reason, b.Until.Local().Format(time.TimeOnly))
	}
	if h.Throttle != nil {
		// Once a run: the holds of one night are many.
		return h.Job + " throttled", fmt.Sprintf("job %s is held until %s, because its server says that it is too much: %s",
			h.Job, h.Throttle.Until.Local().Format(time.TimeOnly), h.Throttle.Reason)
	}
	p := h.Pause
	text = fmt.Sprintf("%s is paused by %s", p.Target, p.By)
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return fmt.Sprint(p.Target, p.Since.UnixMilli()), text
}
