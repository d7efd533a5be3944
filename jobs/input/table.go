package input

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"batchq/jobs"
)

// rows cuts a table into rows.
type rows interface {
	// next returns a row's fields, at most maxColumns of them, how many there
	// were, and the row's line. Blank lines are passed over. The slices are
	// valid until the next call.
	next() (fields [][]byte, count int, line int64, err error)
}

// table makes records of rows: the header names the columns, the key's
// columns make the key, and the row is the payload.
type table struct {
	*source
	rows    rows
	keys    keyMaker
	columns []string
	labels  [][]byte // what stands before each value in the payload: {"id":
	keyAt   []int    // the key's columns
	values  [][]byte
	payload []byte
}

func newTable(o Options, src *source, r rows) *table {
	t := &table{source: src, rows: r, keys: keyMaker{fields: o.Key}, values: make([][]byte, len(o.Key))}
	if len(o.Columns) > 0 {
		// validate has looked at them already.
		_ = t.setColumns(o.Columns)
	}
	return t
}

func (t *table) next() (Record, error) {
	if t.columns == nil {
		if err := t.readHeader(); err != nil {
			return Record{}, err
		}
	}
	fields, count, line, err := t.rows.next()
	if err != nil {
		return Record{}, err
	}
	if count != len(t.columns) {
		return Record{}, t.reject(line, "got %s, want %d%s", jobs.Count(count, "field"), len(t.columns), t.tooManyHint(count))
	}
	for i, at := range t.keyAt {
		t.values[i] = fields[at]
	}
	key, reason := t.keys.key(t.values)
	if reason != "" {
		return Record{}, t.reject(line, "%s", reason)
	}
	// JSON can carry text only. A replacement character in place of a byte
	// would be a loss that nobody sees, so the row is refused instead.
	if cap(t.payload) > keptBuffer {
		t.payload = nil
	}
	t.payload = t.payload[:0]
	for i, field := range fields {
		if !utf8.Valid(field) {
			return Record{}, t.reject(line, "column %q is not UTF-8 (byte %d of it): convert the input with iconv", t.columns[i], firstInvalid(field)+1)
		}
		t.payload = append(t.payload, t.labels[i]...)
		t.payload = appendString(t.payload, field)
	}
	t.payload = append(t.payload, '}')
	return Record{Key: key, Payload: t.payload, Line: line}, nil
}

// tooManyHint says what most often makes a row too long: an exporter that
// does not quote. Which comma is one too many, nobody can know.
func (t *table) tooManyHint(count int) string {
	if _, quoting := t.rows.(*csvRows); quoting && count > len(t.columns) {
		return ": a value that holds a comma must be quoted"
	}
	return ""
}

// readHeader takes the first row for the names of the columns. An input
// without any row has no records and is no fault: some exporters write
// nothing at all when they have no rows, and --min is there for those who
// want to be told.
func (t *table) readHeader() error {
	fields, count, line, err := t.rows.next()
	var bad *Rejected
	if errors.As(err, &bad) {
		return t.unusable(bad.Line, "in the header: %s", bad.Reason)
	}
	if err != nil {
		return err
	}
	if count > maxColumns {
		return t.unusable(line, "the header has %d columns: at most %d are taken", count, maxColumns)
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = string(field)
	}
	if err := allUTF8(names); err != nil {
		return t.unusable(line, "in the header: %v: convert the input with iconv", err)
	}
	if err := distinct(names); err != nil {
		return t.unusable(line, "in the header: %v", err)
	}
	if err := t.setColumns(names); err != nil {
		return t.unusable(line, "in the header: %v", err)
	}
	return nil
}

func (t *table) setColumns(names []string) error {
	keyAt, err := positions(t.keys.fields, names)
	if err != nil {
		return err
	}
	t.columns, t.keyAt = names, keyAt
	t.labels = make([][]byte, len(names))
	for i, name := range names {
		before := byte(',')
		if i == 0 {
			before = '{'
		}
		t.labels[i] = append(appendString([]byte{before}, []byte(name)), ':')
	}
	return nil
}

func allUTF8(names []string) error {
	for i, name := range names {
		if !utf8.ValidString(name) {
			return fmt.Errorf("name %d of %d, %q, is not UTF-8", i+1, len(names), name)
		}
	}
	return nil
}

// firstInvalid is the offset of the first byte of b that is not UTF-8.
func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, size := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(b)
}
