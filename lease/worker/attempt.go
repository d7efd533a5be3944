package worker

import (
	"context"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// attempt is one execution in flight.
type attempt struct {
	*held
	number  int
	cancel  context.CancelCauseFunc
	process chan store.Process // its pid, once
	noted   bool               // the pid is recorded
	pid     store.Process

	// set when it has ended
	ended   bool
	result  jobs.Result
	printed handler.Printed
	verdict jobs.Verdict
}

// launch executes an item whose start is recorded.
func (w *Worker) launch(h *held, st store.Started) {
	h.Held, h.item.Attempt, h.item.Payload, h.item.State = st.Held, st.Attempt, st.Payload, jobs.Running
	ctx, cancel := context.WithCancelCause(w.attempts)
	a := &attempt{held: h, number: st.Attempt, cancel: cancel, process: make(chan store.Process, 1)}
	a.noted = h.spec.Handler.HTTP != nil // a request has no process
	w.inFlight[h.Item] = a
	h.lane.running++
	w.progress.Started(h.item)
	in := handler.Attempt{
		Item: h.item, Spec: h.spec, Claim: h.Claim,
		IdempotencyKey: h.item.IdempotencyKey(w.identity),
		Mark:           w.run.Mark(h.Item, st.Attempt),
		Print:          w.plan.Print != nil,
		LogDir:         w.plan.LogDir,
		Started: func(pid int, start uint64) {
			a.process <- store.Process{Held: st.Held, PID: pid, Start: start}
		},
	}
	if !a.noted {
		w.pidsSoon()
	}
	go func() {
		a.result, a.printed = w.runner.Run(ctx, w.hard, in)
		w.ended <- a
	}()
}

// collect takes what has ended without waiting.
func (w *Worker) collect() {
	for {
		select {
		case a := <-w.ended:
			w.end(a)
		default:
			return
		}
	}
}

// end judges an attempt that has ended; write records it.
func (w *Worker) end(a *attempt) {
	a.cancel(nil)
	a.ended = true
	j := w.jobs[a.item.Job]
	a.verdict = j.judge(a.item, a.result, random)
	known := j.out
	w.giveUp(j, a.verdict)
	if known != j.out && a.result.Searched != "" {
		w.note(jobs.NoteDetail, "it was looked for in PATH=%s", a.result.Searched)
	}
	if a.result.AnswerError != "" && a.verdict.To == jobs.Done && !j.misread {
		// Once a job: what the command wanted to say is lost in every item alike.
		j.misread = true
		w.note(jobs.NoteMust, "job %s, item %d: %s; its exit status 0 was taken for done", a.item.Job, a.Item, a.result.AnswerError)
	}
	for _, text := range a.printed.Notes {
		w.note(jobs.NoteInfo, "item %d: %s", a.Item, text)
	}
	w.summary.PeakBytes = max(w.summary.PeakBytes, a.result.MaxRSS)
	w.pending = append(w.pending, a)
}
