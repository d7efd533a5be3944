package handler

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

const (
	// What is kept of an attempt's output for the database: enough of the
	// beginning to see what it set out to do, more of the end, where the
	// error stands.
	keptHead = 4 << 10
	keptTail = 12 << 10
	// keptInMemory is how much of a stream that is to be printed stays in
	// memory; the rest goes to a file without a name.
	keptInMemory = 64 << 10
)

// ring keeps the last keptTail bytes of what is written to it.
type ring struct {
	kept []byte
	at   int // the oldest byte, once it is full
}

func (r *ring) write(b []byte) {
	if len(b) > keptTail {
		b = b[len(b)-keptTail:]
	}
	if room := keptTail - len(r.kept); room > 0 {
		n := min(room, len(b))
		r.kept = append(r.kept, b[:n]...)
		b = b[n:]
	}
	for len(b) > 0 {
		n := copy(r.kept[r.at:], b)
		r.at = (r.at + n) % keptTail
		b = b[n:]
	}
}

// inOrder returns a copy of what is kept, the oldest first.
func (r *ring) inOrder() []byte {
	return append(append(make([]byte, 0, len(r.kept)), r.kept[r.at:]...), r.kept[:r.at]...)
}

// mixed keeps the first and the last bytes of what is written to it.
type mixed struct {
	head  []byte
	tail  ring
	total int64
}

func (m *mixed) write(b []byte) {
	m.total += int64(len(b))
	if room := keptHead - len(m.head); room > 0 {
		n := min(room, len(b))
		m.head = append(m.head, b[:n]...)
		b = b[n:]
	}
	m.tail.write(b)
}

// output returns what is kept; m must not be written to afterwards.
func (m *mixed) output() jobs.Output {
	o := jobs.Output{Head: m.head, Tail: m.tail.kept, Omitted: m.total - int64(len(m.head)) - int64(len(m.tail.kept))}
	if m.tail.at > 0 {
		o.Tail = m.tail.inOrder()
	}
	return o
}

// Stream is all that an attempt wrote to stdout or to stderr.
type Stream struct {
	mem  []byte
	file *os.File // what came after mem; nil: nothing
	size int64
	err  error // why the rest is missing
}

// Len is how many bytes WriteTo will write.
func (s *Stream) Len() int64 { return int64(len(s.mem)) + s.size }

// WriteTo writes the stream to w. It may be called again.
func (s *Stream) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(s.mem)
	if err != nil || s.file == nil {
		return int64(n), err
	}
	more, err := io.Copy(w, io.NewSectionReader(s.file, 0, s.size))
	return int64(n) + more, err
}

func (s *Stream) close() {
	if s.file != nil {
		s.file.Close()
		s.file, s.size = nil, 0
	}
}

// keep adds b. After the first failure nothing more is kept: a stream with a
// hole in it would look whole.
func (s *Stream) keep(b []byte, spill func() (*os.File, error)) {
	if s.err != nil {
		return
	}
	if s.file == nil && len(s.mem)+len(b) <= keptInMemory {
		s.mem = append(s.mem, b...)
		return
	}
	if s.file == nil {
		if s.file, s.err = spill(); s.err != nil {
			return
		}
	}
	n, err := s.file.Write(b)
	s.size += int64(n)
	s.err = err
}

// pipe carries a child's output to us. The write end stays open on our side
// until the child is gone: so its exit wakes us once, as a process, and not
// once more as a pipe that ended.
type pipe struct {
	read  int // not blocking; -1: closed
	write *os.File
}

var noPipe = pipe{read: -1}

func newPipe() (pipe, error) {
	fds, err := pipeFds(0)
	if err != nil {
		return noPipe, err
	}
	return pipe{fds[0], os.NewFile(uintptr(fds[1]), "output")}, nil
}

func (p *pipe) closeWrite() {
	if p.write != nil {
		p.write.Close()
		p.write = nil
	}
}

// pipeFds makes a pipe of which our end (0 to read, 1 to write) does not block.
// Only ours: a child that finds O_NONBLOCK on its stdout loses output.
func pipeFds(ours int) (fds [2]int, err error) {
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return fds, err
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return fds, err
	}
	return fds, nil
}

// take reads what the pipe holds, at most one buffer full; 0 when there is
// nothing now. ended: there never will be, no writer is left.
func (p *pipe) take(buf []byte) (n int, ended bool) {
	if p.read < 0 {
		return 0, true
	}
	for {
		n, err := unix.Read(p.read, buf)
		switch err {
		case nil:
			return n, n == 0
		case unix.EINTR:
		case unix.EAGAIN:
			return 0, false
		default:
			return 0, true
		}
	}
}
