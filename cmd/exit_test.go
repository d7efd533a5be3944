package cmd

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"batchq/jobs/config"
	"batchq/store"
)

// TestCodeOf: the one place where an error becomes an exit status.
func TestCodeOf(t *testing.T) {
	noDatabase := &store.FileError{Path: "/x", Err: store.ErrNoDatabase, Hint: "enqueue creates it"}
	for _, c := range []struct {
		err  error
		want exitCode
		hint string
	}{
		{nil, 0, ""},
		{errors.New("disk"), 1, ""},
		{usagef("no"), 2, ""},
		{withHint(usagef("no"), "do %s", "this"), 2, "do this"},
		{exitWith(exitPart, nil), 3, ""},
		{exitWith(exitLeft, nil), 75, ""},
		{config.Faults{{Reason: "bad"}}, 78, ""},
		{fmt.Errorf("more: %w", config.Faults{{Reason: "bad"}}), 78, ""},
		{noDatabase, 78, "enqueue creates it"},
		{withHint(fmt.Errorf("%w here", noDatabase), "other"), 78, "other"},
		{&store.FileError{Path: "/x", Err: store.ErrBusy, Hint: "wait"}, 1, "wait"},
		{&store.FileError{Path: "/x", Err: store.ErrNewer}, 1, ""},
		{errors.Join(errors.New("a"), exitWith(exitConfig, errors.New("b"))), 78, ""},
		{exitWith(signalExit(syscall.SIGHUP), nil), 129, ""},
		{exitWith(signalExit(syscall.SIGINT), nil), 130, ""},
		{exitWith(signalExit(syscall.SIGTERM), nil), 143, ""},
		{exitWith(signalExit(syscall.SIGTSTP), nil), 148, ""},
		{withHint(exitWith(exitTERM, errors.New("stopped")), "again"), 143, "again"},
		{errors.Join(withHint(usagef("no"), "join"), nil), 2, "join"},
		{fmt.Errorf("more: %w", errors.Join(errors.New("a"), withHint(errors.New("b"), "b's"))), 1, "b's"},
		{&store.FileError{Path: "/x", Err: store.ErrOlderRun, Hint: "wait"}, 75, "wait"},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("codeOf(%v) = %d, want %d", c.err, got, c.want)
		}
		if got := hintOf(c.err); got != c.hint {
			t.Errorf("hintOf(%v) = %q, want %q", c.err, got, c.hint)
		}
	}
	if exitWith(exitOK, nil) != nil {
		t.Error("nothing at all is no error")
	}
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{"a/b.db": "a/b.db", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'",
		"a\x1b%é!": `"$(printf 'a\033%%é\041')"`, "-\xff": `"$(printf '\055\377')"`, "a\n": "a'\n'"} {
		if got := shellWord(in); got != want {
			t.Errorf("shellWord(%q) = %s, want %s", in, got, want)
		}
	}
}
