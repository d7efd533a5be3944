package handler

import (
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

// source is one of the process's outputs. It is read as soon as there is
// something, and once more, without waiting, when that matters.
type source struct {
	file *os.File
	raw  syscall.RawConn
}

func (s *source) open() (err error) {
	s.raw, err = s.file.SyscallConn()
	return err
}

// take reads one buffer from fd and does something with it. more: there may be
// more at once. ended: there never will be.
type take func(fd int) (more, ended bool)

// follow takes whatever comes, until there will be no more or the file is closed.
func (s *source) follow(f take) {
	_ = s.raw.Read(func(fd uintptr) bool {
		for {
			if more, ended := f(int(fd)); !more {
				return ended
			}
		}
	})
}

// now takes what is there, in bounds: who holds the other end may write for ever.
func (s *source) now(f take) {
	_ = s.raw.Control(func(fd uintptr) {
		for range lastWords / pieces {
			if more, _ := f(int(fd)); !more {
				return
			}
		}
	})
}

// pieces is how much is read at a time, with the lock held.
const pieces = 32 << 10

// piece reads once, without waiting.
func piece(fd int, buf []byte, use func([]byte)) (more, ended bool) {
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false, false
		case err != nil || n == 0:
			return false, true
		}
		use(buf[:n])
		return true, false
	}
}

// settled is a result on its way to who asked for it.
type settled struct {
	f       *flight
	result  jobs.Result
	printed Printed
}

func deliver(all []settled) {
	for _, s := range all {
		s.f.done(s.result, s.printed)
	}
}

// hear takes what the process says, and delivers the answers in it.
func (p *StreamProcess) hear() take {
	buf := make([]byte, pieces)
	return func(fd int) (more, ended bool) {
		var all []settled
		p.mu.Lock()
		if p.gone {
			p.mu.Unlock()
			return false, true
		}
		more, ended = piece(fd, buf, func(b []byte) {
			if p.over || p.fault != "" {
				return
			}
			whole := p.lines.take(b, func(line []byte) bool {
				if s, ok := p.reply(line); ok {
					all = append(all, s)
				}
				return p.fault == ""
			})
			if !whole {
				p.broken(fmt.Sprintf("it printed a line of more than %d bytes", maxAnswer))
			}
		})
		if len(all) > 0 {
			p.progressed()
		}
		idle := len(all) > 0 && len(p.air) == 0
		p.mu.Unlock()
		deliver(all)
		if idle {
			p.rouse()
		}
		return more, ended
	}
}

// listen takes what the process writes to stderr.
func (p *StreamProcess) listen() take {
	buf := make([]byte, pieces)
	return func(fd int) (more, ended bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.gone {
			return false, true
		}
		return piece(fd, buf, p.words.write)
	}
}

// reply settles the item that a line answers. The lock is held.
func (p *StreamProcess) reply(line []byte) (s settled, ok bool) {
	id, answer, wrong, err := parseReply(line)
	if err != nil {
		p.broken(err.Error())
		return s, false
	}
	f := p.air[id]
	switch {
	case f == nil && slices.Contains(p.recent[:], id):
		p.broken(fmt.Sprintf("it answered twice to id %d", id))
		return s, false
	case f == nil:
		p.broken(fmt.Sprintf("it answered to id %d, which it was not asked", id))
		return s, false
	}
	p.land(f)
	p.recent[p.answered%int64(len(p.recent))] = id
	p.answered++
	s = settled{f: f, result: jobs.Result{Ending: jobs.Exited, Answer: answer, Duration: time.Since(f.sent)}}
	if wrong != nil {
		s.result.Ending, s.result.Error = jobs.Unanswered, "its stream's answer: "+wrong.Error()
	}
	if wrong != nil || answer.Class != jobs.ClassDone || f.Print {
		p.quote(&s)
	}
	return s, true
}

// quote adds what the process has written to stderr while the item was in the
// air. The lock is held.
func (p *StreamProcess) quote(s *settled) {
	var buf [4 << 10]byte
	// What was written before the answer is in the pipe at the latest.
	p.cough.now(func(fd int) (more, ended bool) { return piece(fd, buf[:], p.words.write) })
	output := p.words.since(s.f.words)
	if s.f.Print {
		s.printed.Stderr.mem = output.Tail
	}
	s.result.Output = output
}

// land takes an item out of the air. The lock is held.
func (p *StreamProcess) land(f *flight) {
	delete(p.air, f.Item.ID)
	f.gone = true
	for len(p.order) > 0 && p.order[0].gone {
		p.order[0] = nil
		p.order = p.order[1:]
	}
	if len(p.order) > 2*len(p.air)+64 {
		p.order = slices.DeleteFunc(p.order, func(f *flight) bool { return f.gone })
	}
}

// progressed moves the deadlines after an answer. A handler that works one at a
// time has reached the item that was sent n-th when the n-1 before it are
// answered, so it may take n timeouts from now; it may never take longer than
// was said before. The lock is held.
func (p *StreamProcess) progressed() {
	timeout := p.start.Spec.Policy.Timeout
	if timeout == 0 {
		return
	}
	now, n := time.Now(), 0
	for _, f := range p.order {
		if f.gone {
			continue
		}
		n++
		if d := now.Add(times(timeout, n)); d.Before(f.deadline) {
			f.deadline = d
		}
	}
}

// overdue returns the first deadline (zero: none), and whether it has passed.
// The lock is held.
func (p *StreamProcess) overdue(now time.Time) (next time.Time, late bool) {
	for _, f := range p.air {
		if !f.deadline.IsZero() && (next.IsZero() || f.deadline.Before(next)) {
			next = f.deadline
		}
	}
	return next, !next.IsZero() && !now.Before(next)
}
