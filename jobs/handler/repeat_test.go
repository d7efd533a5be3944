package handler

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
)

// What is told of an attempt is what it executes.
func TestRepeat(t *testing.T) {
	t.Setenv("OUTER", "x")
	t.Setenv("TOKEN", "the run's")
	dir := t.TempDir()
	a := attempt(jobs.Handler{Dir: dir, Env: map[string]string{"TOKEN": "a=b", "EMPTY": ""}})
	a.Spec.Uses = map[string]int{"d-b": 7}
	a.Item.Key, a.Item.Payload = []byte("k\xff'1"), []byte(`{"x":"y"}`)
	got := environ(t, newRunner(t), a)
	call, err := Repeat(&a) // with the command that environ has given it
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{[]string{"env", "-0"}, dir, true}, []any{call.Argv, call.Dir, call.Payload}); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
	told := map[string]bool{}
	for _, entry := range call.Vars {
		name, value, _ := strings.Cut(entry, "=")
		if told[name] = true; got[name] != value {
			t.Errorf("%s is told, and the command got %q", entry, got[name])
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "BATCHQ_") && !told[name] && !slices.Contains([]string{"BATCHQ_RESULT", "BATCHQ_MARK"}, name) {
			t.Errorf("the command got %s, and it is not told", name)
		}
	}
	if told["OUTER"] || got["OUTER"] != "x" {
		t.Error("what the run has itself is told as the attempt's")
	}
}

// Where nothing can be executed, it is said why.
func TestRepeat_Nothing(t *testing.T) {
	for _, c := range []struct {
		h    jobs.Handler
		key  string
		want string
	}{
		{jobs.Handler{Command: []string{"x", "{.y}"}}, "k", "{.y}: the item has no payload"},
		{jobs.Handler{Command: []string{"x"}}, "k\x00", "holds a NUL byte"},
		{jobs.Handler{Command: []string{"x"}, Env: map[string]string{"A": "\x00"}}, "k", "holds a NUL byte"},
		{jobs.Handler{}, "k", "the job j has no command"},
		{jobs.Handler{Command: []string{"{scope}"}}, "k", "the job j has no command"},
	} {
		a := attempt(c.h)
		a.Item.Key, a.Item.Scope = []byte(c.key), ""
		if _, err := Repeat(&a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.h, err, c.want)
		}
	}
}
