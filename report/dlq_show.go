package report

import (
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"batchq/jobs/handler"
)

// Where what is executed is known from.
const (
	FromFile     = "file"      // batchq.toml declares the job
	FromLastWork = "last work" // as its job was worked last
)

// Repetition is how an item's last attempt can be done again by hand.
type Repetition struct {
	From   string // "" where nothing is known
	Source string // where the job was declared: "batchq.toml:12", "the command line"
	NoFile string // with FromLastWork: why no file is it
	// Otherwise is how the job was worked last, where that is another command
	// than the file's; "" when it is not.
	Otherwise string
	Missing   string        // why there is no Call; "" when there is one
	Call      *handler.Call // nil: it can't be known
	Shell     string        // the call for a POSIX shell
}

// DeadItem is a dead item with all that a person needs to mend it: the document
// of `dlq show --json`, which has what that of show has.
type DeadItem struct {
	Show
	Command []string `json:"command"` // the argv; null: not known, see missing
	// CommandBase64 is the argv once more, where some word of it is not UTF-8.
	CommandBase64 []string   `json:"command_base64,omitempty"`
	Env           []Variable `json:"env"` // what the attempt adds to its run's environment
	Dir           string     `json:"dir"`
	DirBase64     string     `json:"dir_base64,omitempty"` // only when it is not UTF-8
	Stdin         string     `json:"stdin"`                // "payload" or "none"
	Shell         string     `json:"shell"`                // all of that for a POSIX shell; "" when it is not known
	From          string     `json:"from"`                 // "file", "last work", or "" when nothing is known
	Source        string     `json:"source"`               // where the job was declared
	Otherwise     string     `json:"otherwise"`            // how it was worked last, where that differs
	Missing       string     `json:"missing"`              // why there is no command; "" when there is one
	Next          []Hint     `json:"next"`

	again Repetition
}

// Variable is one of an attempt's environment.
type Variable struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	ValueBase64 string `json:"value_base64,omitempty"` // only when it is not UTF-8
}

// NewDeadItem renders a dead item; next are the commands to type about it.
func NewDeadItem(s Show, again Repetition, next []Hint) DeadItem {
	out := DeadItem{Show: s, Env: []Variable{}, Shell: again.Shell, From: again.From, Source: escapeInvalid(again.Source),
		Otherwise: escapeInvalid(again.Otherwise), Missing: escapeInvalid(again.Missing), Next: next, again: again}
	call := again.Call
	if call == nil {
		return out
	}
	out.Command, out.CommandBase64 = wordsInJSON(call.Argv)
	out.Dir, out.DirBase64 = bytesInJSON([]byte(call.Dir))
	for _, entry := range call.Vars {
		name, value, _ := strings.Cut(entry, "=")
		v := Variable{Name: escapeInvalid(name)}
		v.Value, v.ValueBase64 = bytesInJSON([]byte(value))
		out.Env = append(out.Env, v)
	}
	out.Stdin = "none"
	if call.Payload {
		out.Stdin = "payload"
	}
	return out
}

// wordsInJSON gives an argv as text, and whole a second time where some of it
// is none.
func wordsInJSON(argv []string) (text, whole []string) {
	valid := true
	for _, w := range argv {
		valid = valid && utf8.ValidString(w)
		text = append(text, escapeInvalid(w))
		whole = append(whole, base64.StdEncoding.EncodeToString([]byte(w)))
	}
	if valid {
		return text, nil
	}
	return text, whole
}

// WriteText writes the item for people, for a terminal of the given width (0:
// none). What is to be pasted is never folded, and stands on lines of its own.
func (d DeadItem) WriteText(w io.Writer, width int) error {
	if width <= 0 || width > showWidth {
		width = showWidth
	}
	b := &screen{width: width}
	d.facts(b)
	b.line("")
	b.line("why it is dead:")
	for _, y := range d.Why {
		b.fold("- ", "  ", y.Text)
	}
	d.Show.attempts(b)
	b.line("")
	d.repetition(b)
	b.line("")
	b.line("what to do next:")
	for _, h := range d.Next {
		b.fold("- ", "  ", h.To+":")
		b.line("    " + Safe(h.Command))
	}
	_, err := w.Write(b.Bytes())
	return err
}

// repetition is the paste, and what has to be known of it.
func (d DeadItem) repetition(b *screen) {
	r := &d.again
	if r.Call == nil {
		b.fold("", "", "to reproduce it: "+r.Missing)
		if r.From == "" {
			b.fold("", "", "Declare the job in batchq.toml, or give its command when the item is ready again:")
			b.line(fmt.Sprintf("    %s work %s -- COMMAND {}", d.self, d.Job))
		}
		return
	}
	as := fmt.Sprintf("as %s declares job %s", r.Source, d.Job)
	if r.From == FromLastWork {
		as = fmt.Sprintf("as job %s was worked last, by %s (%s)", d.Job, r.Source, r.NoFile)
	}
	b.fold("", "", fmt.Sprintf("to reproduce attempt %d, %s. This does what the attempt did, with the same idempotency key:", d.Attempts, as))
	b.line("")
	for line := range strings.SplitSeq(r.Shell, "\n") {
		b.line(Safe(line))
	}
	if r.Otherwise != "" {
		b.line("")
		b.fold("", "", "The job was worked last with another command: "+r.Otherwise)
	}
}
