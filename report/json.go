package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// SchemaVersion is the version of every JSON document. It grows when a field
// has to change its meaning, which is never planned.
const SchemaVersion = 1

// WriteJSON writes one document, indented for the person who looks at it. What
// a terminal could take for a command is escaped, which to a program is the
// same text.
func WriteJSON(w io.Writer, v any) error {
	text, err := indented(v, "")
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// indented is v as a part of a document, whose further lines begin with prefix.
func indented(v any, prefix string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // this never becomes a page; <, > and & stay readable
	enc.SetIndent(prefix, "  ")
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeUnsafe(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// escapeUnsafe writes the unsafe characters in a JSON text, which can only
// stand in its strings, as \uXXXX. The line ends of the indentation are ours.
func escapeUnsafe(text []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r != '\n' && unsafe(r, size) {
			out = append(out, text[from:i]...)
			units := utf16.AppendRune(nil, r)
			for _, u := range units {
				out = fmt.Appendf(out, `\u%04x`, u)
			}
			from = i + size
		}
		i += size
	}
	if from == 0 {
		return text
	}
	return append(out, text[from:]...)
}

// Key is an item's key in JSON; see the package comment for the escape.
type Key struct {
	Key    string `json:"key"`
	Base64 string `json:"key_base64,omitempty"` // only when the key is not UTF-8
}

// NewKey returns key for JSON.
func NewKey(key []byte) Key {
	if utf8.Valid(key) {
		return Key{Key: string(key)}
	}
	return Key{Key: escapeInvalid(string(key)), Base64: base64.StdEncoding.EncodeToString(key)}
}

// escapeInvalid writes bytes that are no UTF-8 as \xff; encoding/json would
// make U+FFFD of each, so that different texts become the same.
func escapeInvalid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			out = append(out, '\\', 'x', hexDigits[s[i]>>4], hexDigits[s[i]&15])
		} else {
			out = append(out, s[i:i+size]...)
		}
		i += size
	}
	return string(out)
}

// timestamp is a time in JSON, UTC with milliseconds.
func timestamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// maybe is the same for a time that may not have come: null for the zero time.
func maybe(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := timestamp(t)
	return &s
}
