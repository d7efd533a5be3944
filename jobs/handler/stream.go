package handler

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"batchq/jobs"
)

// StreamStart is what a stream process needs.
type StreamStart struct {
	Spec *jobs.Spec // its Handler has a Stream
	Mark string     // BATCHQ_MARK: how the process and its children are found again
	// Started is called once, before OpenStream is back. start is the process's
	// start time in clock ticks since boot (0: /proc can't say).
	Started func(pid int, start uint64)
	// Ended is called once, from a goroutine of the process: when it is reaped,
	// its group is gone and every item sent has its result.
	Ended func(StreamEnd)
}

// StreamEnd says how a stream process ended: facts about no item.
type StreamEnd struct {
	Result   jobs.Result // Ending, ExitCode or Signal, Duration, Output (the end of stderr), MaxRSS
	Answered int64       // items that it has answered
	Notes    []string    // as in Printed
}

// StreamProcess is one long-lived handler: items go to its standard input as
// JSON Lines, and each is answered by a line on its standard output. What it
// writes to standard error is kept as output. Its methods may be called from
// many goroutines.
//
// It is trusted as long as it keeps to the protocol. After a line that is no
// answer, an answer to what it was not asked, a timeout, or its death, nobody
// knows what it still does: it is ended, and only then is what was in the air
// reported, so that no item runs again beside it. Only an item that was alone
// in the air is to blame.
type StreamProcess struct {
	x     *execution // the process: how it is started, signalled and reaped
	start StreamStart
	stdin *os.File
	mouth source        // its standard output
	cough source        // its standard error
	told  chan struct{} // attend is to look again
	wrote chan struct{} // closed when nothing is written any more

	mu       sync.Mutex
	air      map[int64]*flight // sent and not answered, by item
	order    []*flight         // the same in the order of sending; answered ones are dropped lazily
	recent   [64]int64         // the last that were answered, to tell a second answer from an unknown one
	answered int64
	lines    lineBuffer
	out      []byte // not yet written
	written  int64  // bytes of all lines that are written
	queued   int64  // bytes of all lines, written or not
	more     *sync.Cond
	words    tail   // of stderr
	closing  bool   // nothing more is sent: stdin is closed once all is written
	fault    string // why it can't be trusted any more
	over     bool   // its answers count no more
	gone     bool   // it is reaped: its outputs are left alone
}

// flight is an item in the air.
type flight struct {
	Attempt
	done     func(jobs.Result, Printed)
	sent     time.Time
	begin    int64 // where its line begins among all bytes queued
	words    int64 // what stderr had written before
	deadline time.Time
	gone     bool // answered
}

// OpenStream starts a stream process. ok is false where it could not be
// started: the result says why, and nothing is left of it.
//
// Cancelling ctx ends it gently (TERM, then KILL after Policy.KillAfter) and
// all that is in the air is Stopped or Lost, by the context's cause; cancelling
// kill means KILL now. Both as in Run.
func (r *Runner) OpenStream(ctx, kill context.Context, s StreamStart) (_ *StreamProcess, failed jobs.Result, ok bool) {
	x := &execution{Runner: r, Attempt: &Attempt{Spec: s.Spec, Mark: s.Mark, Item: &jobs.Item{}}, pipes: [2]pipe{noPipe, noPipe}}
	x.argv, x.shared = s.Spec.Handler.Stream, r.specEnv(s.Spec)
	p := &StreamProcess{x: x, start: s, told: make(chan struct{}, 1), wrote: make(chan struct{}), air: map[int64]*flight{}}
	p.more = sync.NewCond(&p.mu)
	if !x.launch(ctx, kill, p.open) {
		return nil, x.result, false
	}
	x.result.Ending, x.result.Error = jobs.Exited, ""
	x.born, _ = StartTime(x.proc.Pid)
	if s.Started != nil {
		s.Started(x.proc.Pid, x.born)
	}
	go p.attend(ctx, kill)
	return p, jobs.Result{}, true
}

// open makes the pipes and the process. After an error nothing is left open.
func (p *StreamProcess) open() (err error) {
	x := p.x
	x.begin = time.Now()
	file, err := x.find(x.program(), false)
	if err != nil {
		return &execError{err}
	}
	var theirs [3]*os.File
	defer func() {
		for _, f := range theirs {
			if f != nil {
				f.Close()
			}
		}
		if err != nil {
			p.closeOurs()
			p.stdin, p.mouth.file, p.cough.file = nil, nil, nil
		}
	}()
	if theirs[0], p.stdin, err = streamPipe(1); err != nil {
		return err
	}
	if p.mouth.file, theirs[1], err = streamPipe(0); err != nil {
		return err
	}
	if p.cough.file, theirs[2], err = streamPipe(0); err != nil {
		return err
	}
	if err = errors.Join(p.mouth.open(), p.cough.open()); err != nil {
		return err
	}
	env := append(append(make([]string, 0, len(x.shared.vars)+1), x.shared.vars...), "BATCHQ_MARK="+x.Mark)
	return x.fork(file, &os.ProcAttr{Dir: x.Spec.Handler.Dir, Env: env, Files: theirs[:]})
}

func (p *StreamProcess) closeOurs() {
	for _, f := range []*os.File{p.stdin, p.mouth.file, p.cough.file} {
		if f != nil {
			f.Close()
		}
	}
}

// streamPipe returns both ends of a pipe; ours (0 to read, 1 to write) does
// not block.
func streamPipe(ours int) (read, write *os.File, err error) {
	fds, err := pipeFds(ours)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "stream"), os.NewFile(uintptr(fds[1]), "stream"), nil
}

// Send puts an item in the air. done is called once, from a goroutine of the
// process, with the result; its Printed holds what the process wrote to stderr
// meanwhile, where the attempt asks for it.
func (p *StreamProcess) Send(a Attempt, done func(jobs.Result, Printed)) {
	f := &flight{Attempt: a, done: done, sent: time.Now()}
	p.mu.Lock()
	if p.over || p.closing {
		p.mu.Unlock()
		done(jobs.Result{Ending: jobs.Undelivered, Error: unsentReason}, Printed{})
		return
	}
	n := len(p.out)
	p.out = appendLine(p.out, &f.Attempt)
	f.begin, f.words = p.queued, p.words.total
	p.queued += int64(len(p.out) - n)
	p.air[a.Item.ID] = f
	p.order = append(p.order, f)
	if timeout := p.start.Spec.Policy.Timeout; timeout > 0 {
		f.deadline = f.sent.Add(times(timeout, len(p.air)))
	}
	alone := len(p.air) == 1
	p.mu.Unlock()
	p.more.Signal()
	if alone {
		p.rouse() // there is a deadline now
	}
}

// Close says that nothing more will be sent. The process finds the end of its
// standard input once it has read everything, and has Policy.KillAfter to end
// when it has answered.
func (p *StreamProcess) Close() {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.more.Signal()
	p.rouse()
}

// InTheAir is how many items are sent and not answered.
func (p *StreamProcess) InTheAir() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.air)
}

// rouse makes attend look again.
func (p *StreamProcess) rouse() {
	select {
	case p.told <- struct{}{}:
	default:
	}
}

// write feeds the process until there will be nothing more, or it is gone.
func (p *StreamProcess) write() {
	defer close(p.wrote)
	var lines []byte
	for {
		p.mu.Lock()
		for len(p.out) == 0 && !p.closing && !p.over {
			p.more.Wait()
		}
		lines, p.out = p.out, lines[:0]
		p.mu.Unlock()
		if len(lines) == 0 {
			p.stdin.Close()
			return
		}
		n, err := p.stdin.Write(lines)
		var unsent []settled
		p.mu.Lock()
		p.written += int64(n)
		if err != nil && !p.over {
			// It has closed its standard input, or has died. What it has read
			// it may still answer.
			p.closing = true
			unsent = p.landUnsent()
		}
		p.mu.Unlock()
		deliver(unsent)
		if err != nil {
			p.rouse()
			return
		}
		if cap(lines) > keptLines {
			lines = nil // one large payload must not stay in memory for ever
		}
	}
}

// keptLines bounds the buffer of lines that is used again.
const keptLines = 256 << 10

// broken notes why the process can't be trusted any more; the first reason
// counts. The lock is held.
func (p *StreamProcess) broken(why string) {
	if p.fault == "" {
		p.fault = why
		p.rouse()
	}
}

// times is n × d without overflow.
func times(d time.Duration, n int) time.Duration {
	if d > 0 && time.Duration(n) > (1<<62)/d {
		return 1 << 62
	}
	return d * time.Duration(n)
}
