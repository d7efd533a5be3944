package cmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"

	"batchq/jobs/config"
	"batchq/report"
	"batchq/store"
)

// exitCode is an exit status. It is never a count.
type exitCode int

const (
	exitOK     exitCode = 0
	exitFailed exitCode = 1
	exitUsage  exitCode = 2
	exitPart   exitCode = 3
	exitLeft   exitCode = 75 // EX_TEMPFAIL of sysexits.h
	exitConfig exitCode = 78 // EX_CONFIG
	exitHUP    exitCode = 128 + exitCode(syscall.SIGHUP)
	exitINT    exitCode = 128 + exitCode(syscall.SIGINT)
	exitQUIT   exitCode = 128 + exitCode(syscall.SIGQUIT)
	exitTERM   exitCode = 128 + exitCode(syscall.SIGTERM)
	exitTSTP   exitCode = 128 + exitCode(syscall.SIGTSTP)
)

// exitMeaning is what help texts say of a status, unless a command says it
// more precisely.
var exitMeaning = map[exitCode]string{
	exitOK:     "nothing that was asked for is left",
	exitFailed: "the command failed (I/O, database)",
	exitUsage:  "usage: the command line makes no sense",
	exitPart:   "done in part: items were rejected, in conflict, or went to the dead-letter list",
	exitLeft:   "something that was asked for is left, whoever holds it: run me again",
	exitConfig: "the configuration or the job is broken, or there is no database there",
	exitHUP:    "stopped by HUP",
	exitINT:    "stopped by INT",
	exitQUIT:   "stopped by QUIT",
	exitTERM:   "stopped by TERM",
	exitTSTP:   "stopped by TSTP",
}

// exits lists the statuses that a command can end with; the text replaces the
// usual meaning where it is not "".
type exits map[exitCode]string

// text is the EXIT STATUS section of a help text.
func (e exits) text() string {
	var b strings.Builder
	for _, code := range slices.Sorted(maps.Keys(e)) {
		meaning := e[code]
		if meaning == "" {
			meaning = exitMeaning[code]
		}
		fmt.Fprintf(&b, "  %3d  %s\n", code, report.Wrap(meaning, helpWidth, len("  123  "), len("  123  ")))
	}
	return b.String()
}

// signalExit is the status of a command that a signal stopped.
func signalExit(s syscall.Signal) exitCode { return 128 + exitCode(s) }

// signalName is a signal as people write it.
func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGQUIT:
		return "QUIT"
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGTSTP:
		return "TSTP"
	}
	return s.String()
}

// outcome is an error that knows its exit status, and perhaps what to do
// about it.
type outcome struct {
	code exitCode
	err  error // nil: everything has been said
	hint string
}

func (o *outcome) Error() string {
	if o.err == nil {
		return ""
	}
	return o.err.Error()
}

func (o *outcome) Unwrap() error { return o.err }

// exitWith ends a command with a status. A nil err means that everything has
// been said already; exitOK and a nil err is no error at all.
func exitWith(code exitCode, err error) error {
	if code == exitOK && err == nil {
		return nil
	}
	return &outcome{code: code, err: err}
}

// usagef is a command line that makes no sense.
func usagef(format string, args ...any) error {
	return &outcome{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// withHint adds to err what a person can do about it.
func withHint(err error, format string, args ...any) error {
	return &outcome{code: codeOf(err), err: err, hint: fmt.Sprintf(format, args...)}
}

// codeOf is the one place where an error becomes an exit status.
func codeOf(err error) exitCode {
	var o *outcome
	var faults config.Faults
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &o):
		return o.code
	case errors.As(err, &faults):
		return exitConfig
	case errors.Is(err, store.ErrNoDatabase):
		return exitConfig
	case errors.Is(err, store.ErrOlderRun):
		return exitLeft
	}
	return exitFailed
}

// hintOf finds what to do about an error.
func hintOf(err error) string {
	if hint := givenHint(err); hint != "" {
		return hint
	}
	var file *store.FileError
	if errors.As(err, &file) {
		return file.Hint
	}
	return ""
}

// givenHint looks for withHint's, also in each of several joined errors.
func givenHint(err error) string {
	if o, ok := err.(*outcome); ok && o.hint != "" {
		return o.hint
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return givenHint(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if hint := givenHint(one); hint != "" {
				return hint
			}
		}
	}
	return ""
}
