package handler

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/fault"
)

// attend sees the process through to its end.
func (p *StreamProcess) attend(ctx, kill context.Context) {
	go p.write()
	go p.mouth.follow(p.hear())
	go p.cough.follow(p.listen())
	exited := make(chan struct{})
	go func() {
		p.x.hasExited(0)
		close(exited)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var farewell time.Time // when a process that was told that there is no more is ended
	ending := jobs.Exited
	for ending == jobs.Exited {
		select {
		case <-exited:
			p.finish(jobs.Exited)
			return
		case <-p.told:
		case <-timer.C:
		case <-ctx.Done():
		case <-kill.Done():
		}
		now := time.Now()
		p.mu.Lock()
		next, late := p.overdue(now)
		if p.closing && len(p.air) == 0 && farewell.IsZero() {
			farewell = now.Add(p.start.Spec.Policy.KillAfter)
		}
		if !farewell.IsZero() && (next.IsZero() || farewell.Before(next)) {
			next = farewell
		}
		stopped, _, told := interrupted(ctx, kill)
		switch {
		case told:
			ending = stopped
		case p.fault != "":
			ending = jobs.Unanswered
		case late:
			ending = jobs.TimedOut
		case !farewell.IsZero() && !now.Before(farewell):
			ending = jobs.Stopped
		}
		p.over = ending != jobs.Exited
		p.mu.Unlock()
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(now)))
		}
	}
	p.end(ctx, kill)
	<-exited
	p.finish(ending)
}

// end ends the process and what belongs to it.
func (p *StreamProcess) end(ctx, kill context.Context) {
	x := p.x
	orphans := []Orphan{{Mark: x.Mark, PID: x.proc.Pid, Start: x.born}}
	gently, hurry := context.WithCancel(context.Background())
	defer hurry()
	defer context.AfterFunc(kill, hurry)()
	var left []Process
	var err error
	if _, atOnce, told := interrupted(ctx, kill); !told || !atOnce {
		left, err = End(gently, orphans, x.Spec.Policy.KillAfter)
	}
	if kill.Err() != nil || context.Cause(ctx) == ErrKill {
		left, err = End(context.Background(), orphans, 0)
	}
	if err != nil {
		x.signalGroup(unix.SIGKILL) // no /proc: the group is all that we can reach
	}
	for _, l := range left {
		x.note("process %d (%s) could not be ended: %s", l.PID, l.Name, l.Reason)
	}
}

// finish reaps the process, whose exit has been seen, and gives every item that
// is still in the air its result.
func (p *StreamProcess) finish(ending jobs.Ending) {
	x := p.x
	fault.Here("exec", "exited")
	// The leader is not reaped yet, so its group's number can't be a stranger's.
	x.signalGroup(unix.SIGKILL)
	x.reap()
	x.awaitGroup()
	// What it has said before its end counts.
	p.mouth.now(p.hear())
	p.cough.now(p.listen())
	p.mu.Lock()
	p.over = true
	if ending == jobs.Exited && p.fault != "" {
		ending = jobs.Unanswered
	}
	p.mu.Unlock()
	p.more.Signal()
	p.stdin.Close()
	<-p.wrote // only now it is known how far the writing came
	p.mu.Lock()
	all := p.landAll(ending)
	p.gone = true
	p.mu.Unlock()
	p.closeOurs()
	deliver(all)
	x.result.Ending, x.result.Error, x.result.Duration = ending, p.fault, time.Since(x.begin)
	x.result.Output = p.words.since(0)
	p.start.Ended(StreamEnd{Result: x.result, Answered: p.answered, Notes: x.printed.Notes})
}

const unsentReason = "its stream ended before it was sent"

// landUnsent takes out of the air what was never sent. The lock is held.
func (p *StreamProcess) landUnsent() (all []settled) {
	for _, f := range p.order {
		if !f.gone && f.begin >= p.written {
			all = append(all, settled{f: f, result: jobs.Result{Ending: jobs.Undelivered, Error: unsentReason}})
		}
	}
	for _, s := range all {
		p.land(s.f)
	}
	return all
}

// landAll gives what is in the air the result that the end of the process means
// for it. The lock is held.
func (p *StreamProcess) landAll(ending jobs.Ending) (all []settled) {
	x := p.x
	reached := 0 // of the process, for all we know
	for _, f := range p.air {
		if f.begin < p.written {
			reached++
		}
	}
	for _, f := range p.order {
		if f.gone {
			continue
		}
		s := settled{f: f, result: jobs.Result{Ending: ending, Duration: time.Since(f.sent)}}
		r := &s.result
		switch {
		case f.begin >= p.written:
			r.Ending, r.Error = jobs.Undelivered, unsentReason
		case ending == jobs.Stopped || ending == jobs.Lost:
		case reached > 1:
			r.Ending, r.Error = jobs.Abandoned, fmt.Sprintf("its stream ended with %d items in the air, %s: each is sent alone next", reached, p.why(ending))
		case ending == jobs.Exited:
			r.Streamed, r.ExitCode, r.Signal, r.SignalName = true, x.result.ExitCode, x.result.Signal, x.result.SignalName
		case ending == jobs.Unanswered:
			r.Error = "its stream was ended: " + p.fault
		case p.answered == 0:
			r.Error = "no answer at all; does it flush its output after each line?"
		}
		p.quote(&s)
		all = append(all, s)
	}
	clear(p.air)
	p.order = nil
	return all
}

// why words the end of the process.
func (p *StreamProcess) why(ending jobs.Ending) string {
	r := &p.x.result
	switch {
	case ending == jobs.Unanswered:
		return "because " + p.fault
	case ending == jobs.TimedOut && p.answered == 0:
		return "because one of them timed out (no answer at all: does it flush its output after each line?)"
	case ending == jobs.TimedOut:
		return "because one of them timed out"
	case r.Signal != 0:
		return "killed by " + r.SignalName
	}
	return fmt.Sprintf("with exit %d", r.ExitCode)
}
