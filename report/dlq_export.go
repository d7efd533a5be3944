package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"unicode/utf8"

	"batchq/store"
)

// Exported is one dead item as `dlq export` writes it: a line of JSON. What
// takes it back reads job, scope, key, payload and priority; the others are for
// people. Bytes that are no UTF-8 stand in the base64 form of a field, instead
// of the plain one.
type Exported struct {
	Job           string  `json:"job"`
	Scope         *string `json:"scope,omitempty"`
	ScopeBase64   string  `json:"scope_base64,omitempty"`
	Key           *string `json:"key,omitempty"`
	KeyBase64     string  `json:"key_base64,omitempty"`
	Payload       *string `json:"payload,omitempty"` // neither form: the item has none
	PayloadBase64 string  `json:"payload_base64,omitempty"`
	Priority      int     `json:"priority"`

	ID        int64  `json:"id"`
	Class     string `json:"class"`
	Reason    string `json:"reason"`
	Attempts  int    `json:"attempts"` // ever
	Failures  int    `json:"failures"` // charged since it was last requeued
	Crashes   int    `json:"crashes"`
	Created   string `json:"created"`
	DeadSince string `json:"dead_since"`
}

// NewExported renders one dead item, which comes with its payload.
func NewExported(r *store.ItemRow) Exported {
	e := Exported{Job: escapeInvalid(r.Job), Priority: r.Priority, ID: r.ID, Class: string(r.Class), Reason: escapeInvalid(r.Reason),
		Attempts: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, Created: timestamp(r.Created), DeadSince: timestamp(r.Finished)}
	e.Scope, e.ScopeBase64 = exact([]byte(r.Scope))
	e.Key, e.KeyBase64 = exact(r.Item.Key)
	if r.Payload != nil {
		e.Payload, e.PayloadBase64 = exact(r.Payload)
	}
	return e
}

// exact is the form of b that JSON carries byte for byte.
func exact(b []byte) (plain *string, coded string) {
	if utf8.Valid(b) {
		return new(string(b)), ""
	}
	return nil, base64.StdEncoding.EncodeToString(b)
}

// WriteExport writes one line an item. What a terminal could take for a
// command is escaped, which to a program is the same text.
func WriteExport(w io.Writer, rows []store.ItemRow) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range rows {
		b.Reset()
		if err := enc.Encode(NewExported(&rows[i])); err != nil {
			return err
		}
		if _, err := w.Write(escapeUnsafe(b.Bytes())); err != nil {
			return err
		}
	}
	return nil
}
