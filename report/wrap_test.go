package report

import "testing"

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text              string
		width, at, indent int
		want              string
	}{
		{"one two three", 0, 0, 2, "one two three"},
		{"one two three", 7, 0, 2, "one two\n  three"},
		{"one two three", 6, 0, 0, "one\ntwo\nthree"},
		{"one two", 9, 2, 2, "one two"},
		{"one two", 8, 2, 2, "one\n  two"},
		{"ÄÖÜ ÄÖÜ", 7, 0, 0, "ÄÖÜ ÄÖÜ"},
		{"averylongword a", 5, 0, 1, "averylongword\n a"},
		{"a  b\nc", 80, 0, 0, "a b c"},
		{"", 80, 0, 0, ""},
	} {
		if got := Wrap(c.text, c.width, c.at, c.indent); got != c.want {
			t.Errorf("Wrap(%q, %d, %d, %d) = %q, want %q", c.text, c.width, c.at, c.indent, got, c.want)
		}
	}
}
