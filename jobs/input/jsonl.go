package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// objects makes records of JSON objects, one a line: members make the key,
// and the line, as it came, is the payload.
type objects struct {
	lines   lineScanner
	keys    keyMaker
	found   [][]byte // the members' values as they stand; nil: not seen
	values  [][]byte // what they stand for
	scratch []byte   // values that had to be unescaped
}

func newObjects(o Options, src *source) *objects {
	return &objects{
		lines:  lineScanner{source: src, end: '\n'},
		keys:   keyMaker{fields: o.Key},
		found:  make([][]byte, len(o.Key)),
		values: make([][]byte, len(o.Key)),
	}
}

func (o *objects) next() (Record, error) {
	object, reason, number, err := nextObject(&o.lines)
	if err != nil {
		return Record{}, err
	}
	if reason == "" {
		reason = o.find(object)
	}
	var key []byte
	if reason == "" {
		key, reason = o.keys.key(o.values)
	}
	if reason != "" {
		return Record{}, o.lines.reject(number, "%s", reason)
	}
	return Record{Key: key, Payload: object, Line: number}, nil
}

// faultOf says why line is no JSON object; "" when it is one.
func faultOf(line []byte) string {
	if !utf8.Valid(line) {
		return "not UTF-8 (byte " + strconv.Itoa(firstInvalid(line)+1) + " of the line)"
	}
	if line[0] == '[' {
		return "an array, not an object: jq -c '.[]' makes a line of each of its elements"
	}
	if !json.Valid(line) {
		return "not JSON: " + syntaxError(line)
	}
	if line[0] != '{' {
		return "not a JSON object"
	}
	return ""
}

func syntaxError(line []byte) string {
	var raw json.RawMessage
	err := json.Unmarshal(line, &raw)
	if at, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("%v (byte %d of the line)", err, at.Offset)
	}
	return err.Error()
}

// find looks up the key's members in object, or says why it can't.
func (o *objects) find(object []byte) (reason string) {
	clear(o.found)
	if cap(o.scratch) > keptBuffer {
		o.scratch = nil
	}
	o.scratch = o.scratch[:0]
	walk := membersOf(object)
	for {
		quoted, value, ok := walk.next()
		if !ok {
			break
		}
		var name []byte
		// A name with half a surrogate pair is no name that --key can have.
		name, o.scratch, ok = unquote(o.scratch, quoted)
		if !ok {
			continue
		}
		for i, field := range o.keys.fields {
			if string(name) != field {
				continue
			}
			if o.found[i] != nil {
				return "field " + strconv.Quote(field) + " is there twice"
			}
			o.found[i] = value
		}
	}
	for i, field := range o.keys.fields {
		if reason := o.take(i); reason != "" {
			return "field " + strconv.Quote(field) + " " + reason
		}
	}
	return ""
}

// take makes a part of the key of the i-th member found.
func (o *objects) take(i int) (reason string) {
	value := o.found[i]
	if value == nil {
		return "is missing"
	}
	switch value[0] {
	case 'n':
		return "is null"
	case '{':
		return "is an object: a key is text, a number, true or false"
	case '[':
		return "is an array: a key is text, a number, true or false"
	case '"':
		var ok bool
		o.values[i], o.scratch, ok = unquote(o.scratch, value)
		if !ok {
			return "holds half of a surrogate pair, which is no text"
		}
	default:
		o.values[i] = value
	}
	return ""
}
