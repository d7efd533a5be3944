package report

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		`plain, ünïcode 日本 c:\dir`: `plain, ünïcode 日本 c:\dir`,
		"a\tb\nc\rd":               `a\tb\nc\rd`,
		"\x1b[2J\a\x00":            `\x1b[2J\x07\x00`,
		"del\x7f":                  `del\x7f`,
		"c1 \u009b1m":              `c1 \u009b1m`,
		"bad \xff\xc3":             `bad \xff\xc3`,
		"replacement \ufffd":       "replacement \ufffd",
		"bidi \u202egnp.exe":       `bidi \u202egnp.exe`,
		"isolate \u2066x\u2069":    `isolate \u2066x\u2069`,
		"sep\u2028":                `sep\u2028`,
		"bom\ufeff":                `bom\ufeff`,
		"tag\U000e0041":            `tag\U000e0041`,
		"family 👨‍👩‍👧":             "family 👨‍👩‍👧",
	} {
		if got := Safe(in); got != want {
			t.Errorf("Safe(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"ééé", 3, "ééé"}, {"éééé", 3, "éé…"}, {"", 3, ""},
		{strings.Repeat("x", 1000), 5, "xxxx…"}, {"\x1b\x1b", 5, `\x1b…`}, {"👍👍👍👍", 3, "👍👍…"},
	} {
		if got := Short(c.in, c.limit); got != c.want {
			t.Errorf("Short(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("a\x1b[0m\xff\u202e", 3)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(2, limit%100)
		for _, got := range []string{Safe(s), Short(s, limit)} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return unsafe(r, utf8.RuneLen(r)) }) {
				t.Fatalf("%q became %q", s, got)
			}
			if Safe(got) != got {
				t.Fatalf("Safe(%q) changes it again", got)
			}
		}
		if n := utf8.RuneCountInString(Short(s, limit)); n > limit {
			t.Fatalf("Short(%q, %d) has %d characters", s, limit, n)
		}
	})
}
