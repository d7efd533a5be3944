package input

import (
	"bytes"
	"io"
)

// csvRows cuts CSV into rows by RFC 4180, as encoding/csv reads it (a test
// holds the two against each other), with three differences that a queue
// needs: a row is bounded while it is read, so an unclosed quote can't take
// the whole file into memory; a CRLF inside quotes stays a CRLF; and an
// unclosed quote is reported where it opened.
//
// After a misplaced quote it goes on with the next line, as encoding/csv does.
type csvRows struct {
	*source
	state     csvState
	data      []byte // the fields' contents, one after another
	ends      []int  // where in data each of them ends
	fields    [][]byte
	count     int    // of fields, also of those that are not kept
	size      int64  // of the row so far, in bytes of the input
	quoted    bool   // the row has a quoted field
	quoteLine int64  // where the last quoted field opened
	overLine  int64  // the line to blame for a row that is too long
	fault     string // what is wrong with the row
	faultLine int64  // where that showed
}

type csvState uint8

const (
	fieldStart csvState = iota
	plain               // in a field without quotes
	inQuotes
	afterQuote // a quote inside quotes: the field's end, or half of a double one
	afterCR    // the same and a carriage return: only a newline may follow
	faulty     // in what is left of the line after a misplaced quote
	rowEnd
)

func (c *csvRows) next() ([][]byte, int, int64, error) {
	for {
		start := c.line
		if err := c.scan(); err != nil {
			return nil, 0, start, err
		}
		if err := c.verdict(start); err != nil {
			return nil, 0, start, err
		}
		if c.count == 1 && len(c.data) == 0 && !c.quoted {
			continue // a blank line
		}
		c.fields = c.fields[:0]
		from := 0
		for _, end := range c.ends {
			c.fields = append(c.fields, c.data[from:end])
			from = end
		}
		return c.fields, c.count, start, nil
	}
}

// scan reads one row, io.EOF when there is none.
func (c *csvRows) scan() error {
	c.reset()
	for {
		if _, err := c.in.Peek(1); err == io.EOF {
			return c.end()
		} else if err != nil {
			return err
		}
		chunk, _ := c.in.Peek(c.in.Buffered())
		// What is to blame for a row that is too long is where the limit is
		// passed, and not where a chunk happens to end.
		if room := int64(c.max) + 1 - c.size; c.overLine == 0 && room < int64(len(chunk)) {
			chunk = chunk[:room]
		}
		used, ended := c.step(chunk)
		c.size += int64(used)
		if _, err := c.in.Discard(used); err != nil {
			return err
		}
		if ended {
			c.size-- // the newline is no part of the row
			return nil
		}
		if c.size > int64(c.max) && c.overLine == 0 {
			c.overLine = c.line
			if c.state == inQuotes {
				c.overLine = c.quoteLine
			}
			c.data, c.ends = nil, nil
		}
	}
}

func (c *csvRows) reset() {
	if cap(c.data) > keptBuffer {
		c.data = nil
	}
	c.data, c.ends, c.count, c.size = c.data[:0], c.ends[:0], 0, 0
	c.state, c.quoted, c.overLine, c.fault = fieldStart, false, 0, ""
}

// step reads on in chunk, and says how much of it belongs to the row and
// whether the row ended there.
func (c *csvRows) step(chunk []byte) (used int, ended bool) {
	i := 0
	for i < len(chunk) && c.state != rowEnd {
		switch c.state {
		case fieldStart:
			c.state = plain
			if chunk[i] == '"' {
				c.state, c.quoted, c.quoteLine = inQuotes, true, c.line
				i++
			}
		case plain:
			i += c.stepPlain(chunk[i:])
		case inQuotes:
			i += c.stepQuoted(chunk[i:])
		case afterQuote, afterCR:
			c.stepAfterQuote(chunk[i])
			i++
		case faulty:
			i += c.stepFaulty(chunk[i:])
		}
	}
	return i, c.state == rowEnd
}

// stepPlain reads on in a field without quotes, to its end at most.
func (c *csvRows) stepPlain(chunk []byte) (used int) {
	n := 0
	for n < len(chunk) && chunk[n] != ',' && chunk[n] != '\n' && chunk[n] != '"' {
		n++
	}
	c.keep(chunk[:n])
	if n == len(chunk) {
		return n
	}
	if chunk[n] == '"' {
		c.blame("a quote inside a field that is not quoted")
	} else {
		c.endField(chunk[n])
	}
	return n + 1
}

// stepQuoted reads on inside quotes, to the next quote at most.
func (c *csvRows) stepQuoted(chunk []byte) (used int) {
	n := bytes.IndexByte(chunk, '"')
	if used = n + 1; n < 0 {
		n, used = len(chunk), len(chunk)
	} else {
		c.state = afterQuote
	}
	c.line += int64(bytes.Count(chunk[:n], []byte{'\n'}))
	c.keep(chunk[:n])
	return used
}

// stepAfterQuote takes one byte after a quote that may be a field's last.
func (c *csvRows) stepAfterQuote(b byte) {
	switch {
	case b == '\n' || b == ',' && c.state == afterQuote:
		c.endField(b)
	case b == '"' && c.state == afterQuote:
		c.keep([]byte{'"'})
		c.state = inQuotes
	case b == '\r' && c.state == afterQuote:
		c.state = afterCR
	default:
		c.blame("text after the quote that ends a field")
	}
}

// stepFaulty passes over what is left of a line.
func (c *csvRows) stepFaulty(chunk []byte) (used int) {
	n := bytes.IndexByte(chunk, '\n')
	if n < 0 {
		return len(chunk)
	}
	c.line++
	c.state = rowEnd
	return n + 1
}

// keep adds to the current field, unless the row has become too long.
func (c *csvRows) keep(text []byte) {
	if c.overLine == 0 {
		c.data = append(c.data, text...)
	}
}

// endField ends a field at a comma, and the row with it at a newline.
func (c *csvRows) endField(at byte) {
	if at == '\n' {
		c.dropCR()
		c.line++
	}
	c.count++
	if c.overLine == 0 && len(c.ends) < maxColumns {
		c.ends = append(c.ends, len(c.data))
	}
	c.state = fieldStart
	if at == '\n' {
		c.state = rowEnd
	}
}

// dropCR takes the carriage return of a CRLF off a field without quotes.
func (c *csvRows) dropCR() {
	if c.state != plain {
		return
	}
	from := 0
	if len(c.ends) > 0 {
		from = c.ends[len(c.ends)-1]
	}
	if n := len(c.data); n > from && c.data[n-1] == '\r' {
		c.data = c.data[:n-1]
	}
}

func (c *csvRows) blame(what string) {
	c.state, c.fault, c.faultLine = faulty, what, c.line
}

// end settles a row that the end of the input ended.
func (c *csvRows) end() error {
	switch {
	case c.size == 0:
		return io.EOF
	case c.state == faulty || c.state == inQuotes: // verdict says so
	default:
		c.dropCR()
		c.count++
		if c.overLine == 0 && len(c.ends) < maxColumns {
			c.ends = append(c.ends, len(c.data))
		}
	}
	return nil
}

// verdict says what is wrong with the row that was read from line start on.
func (c *csvRows) verdict(start int64) error {
	switch {
	case c.state == inQuotes:
		return c.reject(c.quoteLine, "the quote that opens here is never closed: the rest of the input, to line %d, belongs to it", c.line)
	case c.fault != "" && c.faultLine > start:
		return c.reject(start, "%s, on line %d: lines %d to %d are left out", c.fault, c.faultLine, start, c.faultLine)
	case c.fault != "":
		return c.reject(start, "%s", c.fault)
	case c.size > int64(c.max):
		return c.tooLong(max(start, c.overLine), c.size)
	}
	return nil
}
