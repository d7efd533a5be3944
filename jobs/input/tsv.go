package input

import "bytes"

// tsvRows cuts tab-separated lines by the definition of IANA's
// text/tab-separated-values: a tab always separates, a newline always ends,
// and a quote or backslash is a character like any other.
type tsvRows struct {
	lines  lineScanner
	fields [][]byte
}

func (t *tsvRows) next() ([][]byte, int, int64, error) {
	for {
		line, number, err := t.lines.next()
		if err != nil {
			return nil, 0, number, err
		}
		line = withoutCR(line)
		if len(line) == 0 {
			continue
		}
		count := bytes.Count(line, []byte{'\t'}) + 1
		t.fields = t.fields[:0]
		for more := true; more && len(t.fields) < maxColumns; {
			var field []byte
			field, line, more = bytes.Cut(line, []byte{'\t'})
			t.fields = append(t.fields, field)
		}
		return t.fields, count, number, nil
	}
}
