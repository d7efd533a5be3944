package handler

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"batchq/jobs"
)

// streamLine is the line that a stream handler reads for one item. Bytes that
// are no UTF-8 stand in the base64 form of a field, instead of the plain one.
type streamLine struct {
	ID             int64   `json:"id"`
	Job            string  `json:"job"`
	Scope          *string `json:"scope,omitempty"`
	ScopeBase64    string  `json:"scope_base64,omitempty"`
	Key            *string `json:"key,omitempty"`
	KeyBase64      string  `json:"key_base64,omitempty"`
	Payload        *string `json:"payload,omitempty"` // absent: there is none
	PayloadBase64  string  `json:"payload_base64,omitempty"`
	Attempt        int     `json:"attempt"`
	Claim          int64   `json:"claim"`
	IdempotencyKey string  `json:"idempotency_key"`
}

// appendLine adds the line of an attempt, with its end, to out.
func appendLine(out []byte, a *Attempt) []byte {
	it := a.Item
	l := streamLine{ID: it.ID, Job: it.Job, Attempt: it.Attempt, Claim: a.Claim, IdempotencyKey: a.IdempotencyKey}
	l.Scope, l.ScopeBase64 = plainOr64([]byte(it.Scope))
	l.Key, l.KeyBase64 = plainOr64(it.Key)
	if it.Payload != nil && a.Spec.Handler.Stdin != jobs.StdinNone {
		l.Payload, l.PayloadBase64 = plainOr64(it.Payload)
	}
	w := bytes.NewBuffer(out)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(l); err != nil {
		panic(err) // text and numbers always marshal
	}
	return w.Bytes()
}

// plainOr64 returns b as text where it is UTF-8, else in base64.
func plainOr64(b []byte) (plain *string, encoded string) {
	if utf8.Valid(b) {
		s := string(b)
		return &s, ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

// parseReply reads one line of a stream handler: an answer as in
// $BATCHQ_RESULT, and the id of the item that it is for, as a number or as
// text. err says what is wrong with the line itself; wrong, with an id, what is
// wrong with the answer to that one item.
func parseReply(line []byte) (id int64, answer *jobs.Answer, wrong, err error) {
	var fields struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, nil, nil, fmt.Errorf("it printed a line that is no answer: %s (what is meant for people belongs on standard error)", excerpt(line))
	}
	if len(fields.ID) == 0 {
		return 0, nil, nil, fmt.Errorf(`it printed an answer without "id": %s`, excerpt(line))
	}
	number := string(fields.ID)
	if fields.ID[0] == '"' && json.Unmarshal(fields.ID, &number) != nil {
		number = ""
	}
	if id, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, nil, nil, fmt.Errorf("it printed an answer whose id %s is no item's", excerpt(fields.ID))
	}
	answer, wrong = ParseAnswer(line)
	return id, answer, wrong, nil
}

// lineBuffer cuts what comes in pieces into lines.
type lineBuffer struct {
	part []byte // of a line that has not ended
}

// take calls each with every whole line of what it has and b, until each says
// stop. false: a line is longer than maxAnswer.
func (l *lineBuffer) take(b []byte, each func(line []byte) (goOn bool)) bool {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break
		}
		line := b[:end]
		b = b[end+1:]
		if len(l.part) > 0 {
			line = append(l.part, line...)
			l.part = l.part[:0]
		}
		if len(line) > maxAnswer {
			return false
		}
		if len(bytes.TrimSpace(line)) > 0 && !each(line) {
			return true
		}
	}
	l.part = append(l.part, b...)
	return len(l.part) <= maxAnswer
}

// tail keeps the last bytes of what is written to it, and knows how much it was.
type tail struct {
	ring
	total int64
}

func (t *tail) write(b []byte) {
	t.total += int64(len(b))
	t.ring.write(b)
}

// since returns a copy of what was written after the first from bytes.
func (t *tail) since(from int64) jobs.Output {
	n := t.total - from
	if n == 0 {
		return jobs.Output{}
	}
	all := t.inOrder()
	kept := min(n, int64(len(all)))
	return jobs.Output{Tail: all[int64(len(all))-kept:], Omitted: n - kept}
}
