package report

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"time"
	"unicode/utf8"
)

// SchemaVersion is the version of every JSON document. It grows when a field
// has to change its meaning, which is never planned.
const SchemaVersion = 1

// WriteJSON writes one document, indented for the person who looks at it.
func WriteJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // this never becomes a page; <, > and & stay readable
	enc.SetIndent("", "  ")
	return enc.Encode(v)
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

// timestamp is a time in JSON; "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
