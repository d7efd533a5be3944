// Package input turns a stream of bytes into the records that enqueue adds:
// lines, NUL-separated strings, CSV, TSV, JSON Lines or what was exported in,
// one key and one payload at a time out.
//
// It holds one record at a time, however long the input is. It never opens a
// file, never guesses a format from content, and never repairs or drops
// anything in silence: what can't be carried byte for byte is rejected with
// its line and a reason, and the rest goes on.
//
// # Keys
//
// The key of a line is the line. In CSV, TSV and JSON Lines it is made of the
// fields that Options.Key names: one field's value is taken as it is; several
// are joined by "/", in which a "/" inside a value is written "%2F" and a "%"
// is written "%25", so that two different tuples never make the same key.
// A number in JSON Lines counts by its text: 1e3 and 1000 are two keys. A record
// of an export brings its key as it is.
package input

import (
	"bufio"
	"fmt"
	"io"
)

// Record is one target read. Its slices are valid until the next call of Next.
type Record struct {
	Key     []byte // never empty, never holds a NUL
	Payload []byte // the row as a JSON object; nil for lines and nul; in an export any bytes, or nil
	// Scope and Priority are the record's own; only an export has them, and
	// there Scope is never nil.
	Scope    *string
	Priority int
	// Line is where the record starts, from 1. In the nul format, where a
	// newline is only a character, it is the record's number.
	Line int64
}

// Rejected is a record that can't become an item. The next call of Next goes
// on with the record after it.
type Rejected struct {
	Name   string // of the input
	Line   int64  // where to look, from 1
	Reason string
}

func (e *Rejected) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
}

// Unusable is an input that can't be read at all: compressed, in UTF-16, or
// with a header that does not name the key. It is final.
type Unusable struct {
	Name   string
	Line   int64 // of the header; 0: the input as a whole
	Reason string
}

func (e *Unusable) Error() string {
	if e.Line == 0 {
		return e.Name + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d: %s", e.Name, e.Line, e.Reason)
}

// bufferSize is a pipe's capacity on Linux: one read empties it.
const bufferSize = 64 << 10

// keptBuffer is how large a buffer may be and still be kept for the next
// record: one giant must not weigh on the million that follow.
const keptBuffer = 1 << 20

// Reader reads records from one input. It is not safe for concurrent use.
type Reader struct {
	format  Format
	src     *source
	records interface{ next() (Record, error) }
	begun   bool
	final   error
}

// NewReader returns a Reader over r. It reads nothing yet; its only errors are
// options that make no sense together.
func NewReader(r io.Reader, o Options) (*Reader, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	src := &source{in: bufio.NewReaderSize(r, bufferSize), name: o.Name, max: o.MaxRecord, line: 1}
	reader := &Reader{format: o.Format, src: src}
	switch o.Format {
	case Lines:
		reader.records = &lineRecords{lines: lineScanner{source: src, end: '\n'}}
	case NUL:
		reader.records = &nulRecords{strings: lineScanner{source: src, end: 0}}
	case CSV:
		reader.records = newTable(o, src, &csvRows{source: src})
	case TSV:
		reader.records = newTable(o, src, &tsvRows{lines: lineScanner{source: src, end: '\n'}})
	case JSONL:
		reader.records = newObjects(o, src)
	case Export:
		reader.records = &exported{lines: lineScanner{source: src, end: '\n'}, job: o.Job}
	}
	return reader, nil
}

// Next returns the next record, or io.EOF at the end of the input. A
// *Rejected error stands for one record, and the next call goes on after it.
// Any other error is final: an *Unusable, or what the underlying reader said,
// unchanged; a record that such an error cut short is not returned.
func (r *Reader) Next() (Record, error) {
	if r.final != nil {
		return Record{}, r.final
	}
	if !r.begun {
		r.begun = true
		if err := r.begin(); err != nil {
			r.final = err
			return Record{}, err
		}
	}
	rec, err := r.records.next()
	if err != nil {
		if _, again := err.(*Rejected); !again {
			r.final = err
		}
		return Record{}, err
	}
	return rec, nil
}

// source is what every format reads from.
type source struct {
	in   *bufio.Reader
	name string
	max  int   // bytes of the longest record accepted
	line int64 // the line, from 1, that the next byte belongs to
}

func (s *source) reject(line int64, format string, args ...any) *Rejected {
	return &Rejected{Name: s.name, Line: line, Reason: fmt.Sprintf(format, args...)}
}

func (s *source) unusable(line int64, format string, args ...any) *Unusable {
	return &Unusable{Name: s.name, Line: line, Reason: fmt.Sprintf(format, args...)}
}

func (s *source) tooLong(line, size int64) *Rejected {
	return s.reject(line, "the record is %d bytes long: at most %d are taken", size, s.max)
}
