package report

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestKey(t *testing.T) {
	for in, want := range map[string]string{
		"plain \\xff": `{"key":"plain \\xff"}`,
		"\xff\x00a":   `{"key":"\\xff\u0000a","key_base64":"/wBh"}`,
		"\ufffd":      `{"key":"` + "\ufffd" + `"}`,
	} {
		got, err := json.Marshal(NewKey([]byte(in)))
		if err != nil || string(got) != want {
			t.Errorf("%q: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestTimestamp(t *testing.T) {
	zone := time.FixedZone("", 19800)
	if got := timestamp(time.Date(2026, 11, 29, 5, 30, 0, 1_999_999, zone)); got != "2026-11-29T00:00:00.001Z" {
		t.Error(got)
	}
	if got := maybe(time.Time{}); got != nil {
		t.Error(*got)
	}
}

// FuzzWriteJSON: whatever a key holds, the document is one that a program reads
// back exactly, and that a terminal can be shown.
func FuzzWriteJSON(f *testing.F) {
	f.Add([]byte("a\x1b[0m\x9b\u202e\x7f\u2028\U000e0041<>&"))
	f.Add([]byte("\xff\xfe"))
	f.Fuzz(func(t *testing.T, key []byte) {
		var b bytes.Buffer
		if err := WriteJSON(&b, NewKey(key)); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), func(r rune) bool { return unsafe(r, utf8.RuneLen(r)) }) {
			t.Fatalf("%q is written as %q", key, text)
		}
		var back struct {
			Key    string  `json:"key"`
			Base64 *string `json:"key_base64"`
		}
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		got := []byte(back.Key)
		if back.Base64 != nil {
			var err error
			if got, err = base64.StdEncoding.DecodeString(*back.Base64); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, key) {
			t.Fatalf("%q comes back as %q", key, got)
		}
	})
}
