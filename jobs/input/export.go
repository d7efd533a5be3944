package input

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"batchq/jobs"
)

// maxExported is the longest line of an export: quotes and backslashes double
// in it, in the key and in the payload, which both may come of one record.
const maxExported = 4 * DefaultMaxRecord

// The members of an exported record that count, in the order of exportFields.
const (
	exportJob = iota
	exportScope
	exportScope64
	exportKey
	exportKey64
	exportPayload
	exportPayload64
	exportPriority
	exportCount
)

// exportFields are their names. The others are for people, and later versions
// may write more of them: they are passed over.
var exportFields = [exportCount]string{"job", "scope", "scope_base64", "key", "key_base64", "payload", "payload_base64", "priority"}

// exported makes records of what an export wrote of items: one JSON object a
// line, which brings its own key, payload, scope and priority.
type exported struct {
	lines   lineScanner
	job     string
	found   [exportCount][]byte // the members' values as they stand; nil: not seen
	scratch []byte              // values that had to be unescaped or decoded
	scope   *string             // of the record before: most have the same
}

func (e *exported) next() (Record, error) {
	object, reason, number, err := nextObject(&e.lines)
	if err != nil {
		return Record{}, err
	}
	if reason == "" {
		reason = e.find(object)
	}
	var rec Record
	if reason == "" {
		rec, reason = e.record()
	}
	if reason != "" {
		return Record{}, e.lines.reject(number, "%s", reason)
	}
	rec.Line = number
	return rec, nil
}

// find looks up the members that count in object, or says why it can't.
func (e *exported) find(object []byte) (reason string) {
	clear(e.found[:])
	if cap(e.scratch) > keptBuffer || e.scratch == nil {
		e.scratch = []byte{} // never nil: an empty payload is not the same as none
	}
	e.scratch = e.scratch[:0]
	walk := membersOf(object)
	for {
		quoted, value, ok := walk.next()
		if !ok {
			return ""
		}
		var name []byte
		if name, e.scratch, ok = unquote(e.scratch, quoted); !ok {
			continue
		}
		for i, field := range exportFields {
			if string(name) != field {
				continue
			}
			if e.found[i] != nil {
				return "field " + strconv.Quote(field) + " is there twice"
			}
			e.found[i] = value
		}
	}
}

// record makes a record of the members found, or says why it can't.
func (e *exported) record() (rec Record, reason string) {
	job, _, reason := e.text(exportJob)
	switch {
	case reason != "":
		return rec, reason
	case job == nil:
		return rec, `field "job" is missing: want what dlq export writes`
	case string(job) != e.job:
		return rec, "the record is of job " + strconv.Quote(string(job)) + ", and JOB is " + strconv.Quote(e.job)
	}
	var field string
	if rec.Key, field, reason = e.bytes(exportKey, exportKey64); reason != "" {
		return rec, reason
	}
	switch {
	case rec.Key == nil:
		return rec, `field "key" is missing`
	case len(rec.Key) == 0:
		return rec, "field " + strconv.Quote(field) + " is empty: a key never is"
	case bytes.IndexByte(rec.Key, 0) >= 0:
		return rec, "field " + strconv.Quote(field) + " holds a NUL, which no command can be given"
	}
	if rec.Payload, _, reason = e.bytes(exportPayload, exportPayload64); reason != "" {
		return rec, reason
	}
	scope, _, reason := e.bytes(exportScope, exportScope64)
	if reason != "" {
		return rec, reason
	}
	if bytes.IndexByte(scope, 0) >= 0 {
		return rec, "the scope holds a NUL, which no command can be given"
	}
	if e.scope == nil || *e.scope != string(scope) {
		e.scope = new(string(scope))
	}
	rec.Scope = e.scope
	rec.Priority, reason = e.priority()
	return rec, reason
}

// bytes returns what stands in the member plain or, for what is no UTF-8, in
// its base64 form, and the name of the one that is there; nil when none is.
func (e *exported) bytes(plain, coded int) (value []byte, field, reason string) {
	if e.found[plain] != nil && e.found[coded] != nil {
		return nil, "", "fields " + strconv.Quote(exportFields[plain]) + " and " + strconv.Quote(exportFields[coded]) + " are both there: one of them is meant"
	}
	if e.found[coded] == nil {
		return e.text(plain)
	}
	text, field, reason := e.text(coded)
	if reason != "" {
		return nil, field, reason
	}
	from := len(e.scratch)
	// Strict: what was mistyped at its end is found, too.
	grown, err := base64.StdEncoding.Strict().AppendDecode(e.scratch, text)
	if err != nil {
		return nil, field, "field " + strconv.Quote(field) + " is no base64"
	}
	e.scratch = grown
	return e.scratch[from:], field, ""
}

// text returns what the string in member i stands for; nil when it is not there.
func (e *exported) text(i int) (value []byte, field, reason string) {
	field = exportFields[i]
	text := e.found[i]
	if text == nil {
		return nil, field, ""
	}
	if kind := kindOf(text); kind != "text" {
		reason = "field " + strconv.Quote(field) + " is " + kind + ": want text"
		if kind == "null" {
			reason += ", or no such field"
		}
		return nil, field, reason
	}
	var ok bool
	if value, e.scratch, ok = unquote(e.scratch, text); !ok {
		return nil, field, "field " + strconv.Quote(field) + " holds half of a surrogate pair, which is no text"
	}
	return value, field, ""
}

// kindOf names the kind of a JSON value.
func kindOf(value []byte) string {
	switch value[0] {
	case '"':
		return "text"
	case 'n':
		return "null"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "true or false"
	}
	return "a number"
}

// priority is that of the record; 0 where it has none.
func (e *exported) priority() (n int, reason string) {
	text := e.found[exportPriority]
	if text == nil {
		return 0, ""
	}
	if kind := kindOf(text); kind != "a number" {
		return 0, `field "priority" is ` + kind + ": want a whole number"
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return 0, `field "priority" is ` + clip(text) + ": want a whole number"
	case n < -jobs.MaxPriority || n > jobs.MaxPriority:
		return 0, `field "priority" is ` + clip(text) + ": at most " + strconv.Itoa(jobs.MaxPriority) + " either way"
	}
	return n, ""
}

// clip is the beginning of a number for a message: it may have a million digits.
func clip(number []byte) string {
	const shown = 30
	if len(number) > shown {
		return string(number[:shown]) + "…"
	}
	return string(number)
}
