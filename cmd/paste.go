package cmd

import (
	"fmt"
	"strings"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/report"
)

// paste is what a person types into a POSIX shell to do what an attempt did:
// its directory, its variables, its input, its argv, byte for byte. It runs in
// a subshell, which changes nothing of the person's own, and in a scratch
// directory it keeps what is no part of the call: the file for a result, and
// the payload. That is no pipe, as it was none for the attempt, and so that
// nothing runs with an empty input where the payload is no longer there. The
// database is named by its whole path: the same number is another item in that
// of another directory.
func paste(database string, id int64, h *jobs.Handler, call *handler.Call) string {
	var b strings.Builder
	b.WriteString(`(d=$(mktemp -d) && trap 'cat "$d/result" 2>/dev/null; rm -r "$d"' EXIT &&` + "\n")
	words := &pastedWords{}
	var env []string
	for _, entry := range call.Vars {
		env = append(env, words.assignment(entry))
	}
	env = append(env, `BATCHQ_RESULT="$d/result"`)
	argv := words.argv(h, call.Argv)
	dir, db := words.word(call.Dir), words.word(database)
	if words.newlines {
		b.WriteString(`  nl=$(printf '\012_') && nl=${nl%_} &&` + "\n")
	}
	input := "</dev/null"
	if call.Payload {
		input = `<"$d/payload"`
		fmt.Fprintf(&b, "  batchq --db %s dlq show %d --payload >\"$d/payload\" &&\n", db, id)
	}
	if call.Dir != "" {
		fmt.Fprintf(&b, "  cd %s &&\n", dir)
	}
	fmt.Fprintf(&b, "  env %s \\\n    %s %s)", strings.Join(env, " \\\n    "), argv, input)
	return b.String()
}

// pastedWords quotes words for one paste.
type pastedWords struct {
	newlines bool // some word needs $nl
}

func (p *pastedWords) word(s string) string {
	w := quoted(s, `"$nl"`)
	p.newlines = p.newlines || strings.HasSuffix(w, `"$nl"`)
	return w
}

// assignment is NAME=VALUE as an argument of env.
func (p *pastedWords) assignment(entry string) string {
	name, value, _ := strings.Cut(entry, "=")
	if strings.Trim(name, plainWord) != "" {
		return p.word(entry)
	}
	return name + "=" + p.word(value)
}

// argv is the command after env's assignments. env would take a program with a
// = in its name for one more of them.
func (p *pastedWords) argv(h *jobs.Handler, argv []string) string {
	var words []string
	if strings.Contains(argv[0], "=") {
		words = append(words, "/bin/sh", "-c", `'exec "$@"'`, "sh")
	}
	for i, w := range argv {
		if i == 2 && h.Shell != "" {
			words = append(words, p.script(w))
			continue
		}
		words = append(words, p.word(w))
	}
	return strings.Join(words, " ")
}

// script is the text of a shell job. It is from a file of the person's own, not
// from an item, and stays legible: its lines are lines. Not so where a shell
// that is typed into would look for its history in them.
func (p *pastedWords) script(text string) string {
	if flat := strings.ReplaceAll(text, "\n", ""); report.Safe(flat) != flat || strings.Contains(flat, "!") {
		return p.word(text)
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
