package jobs_test

import (
	"strings"
	"testing"

	"batchq/jobs"
)

func TestState_Names(t *testing.T) {
	for _, s := range jobs.States() {
		if back, err := jobs.ParseState(s.String()); err != nil || back != s {
			t.Errorf("%d is called %q, which is %d (%v)", s, s, back, err)
		}
	}
	if _, err := jobs.ParseState("pending"); err == nil {
		t.Error(`"pending" is a state`)
	}
	if got := jobs.State(9).String(); got != "state(9)" {
		t.Errorf("an unknown state is called %q", got)
	}
}

func TestItem_IdempotencyKey(t *testing.T) {
	it := jobs.Item{ID: 7, Generation: 1, Attempt: 1}
	first := it.IdempotencyKey("db1")
	if len(first) != 32 {
		t.Errorf("%q has %d digits", first, len(first))
	}
	it.Attempt = 2
	if it.IdempotencyKey("db1") != first {
		t.Error("another attempt has another key")
	}
	if it.IdempotencyKey("db2") == first {
		t.Error("a copy of the database shares the key")
	}
	it.Generation = 2
	if it.IdempotencyKey("db1") == first {
		t.Error("another generation has the same key")
	}
}

func TestOutput_LastLine(t *testing.T) {
	for _, c := range []struct{ head, tail, want string }{
		{"", "", ""},
		{"one\n", "", "one"},
		{"one\n", "two\nthree\r\n\n", "three"},
		{"one\n", " \n\n", "one"},
		{"", "bad \xff byte", "bad \ufffd byte"},
		{"", "x" + strings.Repeat("ä", 100), "x" + strings.Repeat("ä", 99) + "…"},
		{"", strings.Repeat("ä", 100), strings.Repeat("ä", 100)},
	} {
		o := jobs.Output{Head: []byte(c.head), Tail: []byte(c.tail)}
		if got := o.LastLine(); got != c.want {
			t.Errorf("LastLine(%q, %q) = %q, want %q", c.head, c.tail, got, c.want)
		}
	}
}
