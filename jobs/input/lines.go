package input

import (
	"bufio"
	"bytes"
	"io"
)

// lineScanner cuts a source at an end byte.
type lineScanner struct {
	*source
	end  byte
	long []byte // a line that did not fit bufio's buffer
}

// next returns a line without its end, and its number. The slice is valid
// until the next call. A line longer than the source's max is read to its end
// without being kept, and rejected.
func (s *lineScanner) next() ([]byte, int64, error) {
	number := s.line
	line, err := s.in.ReadSlice(s.end)
	if err == bufio.ErrBufferFull {
		line, err = s.nextLong(line)
	}
	switch {
	case err == io.EOF && len(line) > 0: // the last line needs no end
	case err != nil:
		return nil, number, err
	default:
		line = line[:len(line)-1]
	}
	s.line++
	if len(line) > s.max {
		return nil, number, s.tooLong(number, int64(len(line)))
	}
	return line, number, nil
}

// nextLong reads on where ReadSlice gave up. The line that it returns has its
// end, like ReadSlice's.
func (s *lineScanner) nextLong(head []byte) ([]byte, error) {
	if cap(s.long) > keptBuffer {
		s.long = nil
	}
	s.long = append(s.long[:0], head...)
	for {
		more, err := s.in.ReadSlice(s.end)
		// One byte above max is the end.
		if len(s.long)+len(more) > s.max+1 {
			return nil, s.skip(int64(len(s.long)+len(more)), err)
		}
		s.long = append(s.long, more...)
		if err != bufio.ErrBufferFull {
			return s.long, err
		}
	}
}

// skip reads to the end of a line of which size bytes have been seen, the
// last of them with err.
func (s *lineScanner) skip(size int64, err error) error {
	s.long = nil
	for err == bufio.ErrBufferFull {
		var more []byte
		more, err = s.in.ReadSlice(s.end)
		size += int64(len(more))
	}
	if err != nil && err != io.EOF {
		return err
	}
	if err == nil {
		size--
	}
	number := s.line
	s.line++
	return s.tooLong(number, size)
}

// lineRecords makes a key of every line that is not blank.
type lineRecords struct {
	lines lineScanner
}

func (l *lineRecords) next() (Record, error) {
	for {
		line, number, err := l.lines.next()
		if err != nil {
			return Record{}, err
		}
		line = withoutCR(line)
		if blank(line) {
			continue
		}
		if bytes.IndexByte(line, 0) >= 0 {
			return Record{}, l.lines.reject(number, "the line holds a NUL, which no command can be given; a NUL-separated list is read with -0")
		}
		return Record{Key: line, Line: number}, nil
	}
}

// nulRecords makes a key of every string that is not empty.
type nulRecords struct {
	strings lineScanner
}

func (n *nulRecords) next() (Record, error) {
	for {
		key, number, err := n.strings.next()
		if err != nil {
			return Record{}, err
		}
		if len(key) > 0 {
			return Record{Key: key, Line: number}, nil
		}
	}
}

// withoutCR takes one carriage return off the end, as a CRLF file has it.
func withoutCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// blank says whether there is nothing on the line but space.
func blank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
