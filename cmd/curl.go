package cmd

import (
	"fmt"
	"strings"

	"batchq/jobs"
	"batchq/jobs/handler"
)

// curl is what a person types into a POSIX shell to send the request of an
// attempt, byte for byte. A secret is the variable that holds it: who has it
// not set sends what the server refuses. A payload goes the way that it goes in
// paste.
func curl(database string, id int64, spec *jobs.Spec, sent *handler.Sent) string {
	words := &pastedWords{}
	args := []string{"curl", "-sS", "-i", "-g", "--path-as-is"}
	if t := spec.Policy.Timeout; t > 0 {
		args = append(args, fmt.Sprintf("-m %g", t.Seconds()))
	}
	switch sent.Method {
	case "GET":
		args = append(args, "-L")
	case "HEAD":
		args = append(args, "-L", "-I")
	default:
		args = append(args, "-X "+words.word(sent.Method))
	}
	lines := []string{strings.Join(args, " ")}
	for _, h := range sent.Headers {
		lines = append(lines, "-H "+words.header(h))
	}
	switch {
	case sent.Payload:
		lines = append(lines, `--data-binary @"$d/payload"`)
	case sent.Body != "":
		lines = append(lines, "--data-raw "+words.word(sent.Body))
	}
	lines = append(lines, words.word(sent.URL))
	db := words.word(database)

	var b strings.Builder
	indent := "  "
	if sent.Payload || words.newlines {
		b.WriteString("(")
		indent = "    "
	}
	if sent.Payload {
		b.WriteString(`d=$(mktemp -d) && trap 'rm -r "$d"' EXIT &&` + "\n  ")
	}
	if words.newlines {
		b.WriteString(`nl=$(printf '\012_') && nl=${nl%_} &&` + "\n  ")
	}
	if sent.Payload {
		fmt.Fprintf(&b, "batchq --db %s dlq show %d --payload >\"$d/payload\" &&\n  ", db, id)
	}
	b.WriteString(strings.Join(lines, " \\\n"+indent))
	if sent.Payload || words.newlines {
		b.WriteString(")")
	}
	return b.String()
}

// header is one -H: curl takes "Name;" for one without a value.
func (p *pastedWords) header(h handler.SentHeader) string {
	switch {
	case h.Variable != "":
		return fmt.Sprintf(`"%s: $%s"`, h.Name, h.Variable)
	case h.Value == "":
		return p.word(h.Name + ";")
	}
	return p.word(h.Name + ": " + h.Value)
}
