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
	FromLastWork = "last work" // as the run of the attempt worked the job, or, where that is not kept, who worked it last
)

// Repetition is how an item's last attempt can be done again by hand.
type Repetition struct {
	From   string // "" where nothing is known
	Source string // where the job was declared: "batchq.toml:12", "the command line"
	By     string // with FromLastWork: who declared it then
	NoFile string // with FromLastWork: why no file is it
	NoEnv  bool   // what env set there is not on record
	Run    int64  // that worked the job so, or otherwise; 0: it is how it was worked last
	// Otherwise is the command, placeholders and all, with which the job was
	// worked, where that is not the file's; "" when it is. OtherwiseIn says in
	// what it differs: "in another directory"; OtherwiseBy who declared it.
	Otherwise, OtherwiseIn, OtherwiseBy string
	SourcePath                          string // with Otherwise: Source, with the whole path where OtherwiseBy is a file, too

	Missing string        // why there is no Call; "" when there is one
	Call    *handler.Call // nil: it can't be known
	Shell   string        // the call for a POSIX shell
}

// DeadItem is a dead item with all that a person needs to mend it: the document
// of `dlq show --json`, which has what that of show has.
type DeadItem struct {
	Show
	Command []string `json:"command"` // the argv; null: not known, see missing
	// CommandBase64 is the argv once more, where some word of it is not UTF-8.
	CommandBase64 []string   `json:"command_base64,omitempty"`
	Request       *Request   `json:"request"` // what an HTTP job sends; null for a command
	Env           []Variable `json:"env"`     // what the attempt adds to its run's environment
	Dir           string     `json:"dir"`
	DirBase64     string     `json:"dir_base64,omitempty"` // only when it is not UTF-8
	Stdin         string     `json:"stdin"`                // "payload" or "none"
	Shell         string     `json:"shell"`                // all of that for a POSIX shell; "" when it is not known
	From          string     `json:"from"`                 // "file", "last work", or "" when nothing is known
	Source        string     `json:"source"`               // where the job was declared
	Otherwise     string     `json:"otherwise"`            // the command with which it was worked, where that differs
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
	out := DeadItem{Show: s, Env: []Variable{}, Shell: escapeInvalid(again.Shell), From: again.From, Source: escapeInvalid(again.Source),
		Otherwise: escapeInvalid(again.Otherwise), Missing: escapeInvalid(again.Missing), Next: next, again: again}
	call := again.Call
	if call == nil {
		return out
	}
	if call.HTTP != nil {
		out.Request = newRequest(call.HTTP)
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
		text := "to reproduce it: " + r.Missing
		if r.From == "" {
			text += ". Declare the job in batchq.toml, or give its command when the item is ready again:"
		}
		b.fold("", "", text)
		if r.From == "" {
			b.line(fmt.Sprintf("    %s work %s -- COMMAND {}", d.self, d.Job))
		}
		return
	}
	worked := fmt.Sprintf("job %s was worked last", d.Job)
	if r.Run != 0 {
		worked = fmt.Sprintf("run %d has worked job %s", r.Run, d.Job)
	}
	const same = "It does what the attempt did, with the same idempotency key:"
	switch {
	case r.From == FromLastWork:
		b.fold("", "", fmt.Sprintf("to reproduce attempt %d, as %s, by %s (%s). %s", d.Attempts, worked, r.By, r.NoFile, same))
	case r.Otherwise == "":
		b.fold("", "", fmt.Sprintf("to reproduce attempt %d, as %s declares job %s. %s", d.Attempts, r.Source, d.Job, same))
	default:
		b.fold("", "", fmt.Sprintf("to do attempt %d again, as %s declares job %s now, with the same idempotency key. But %s %s, by %s:",
			d.Attempts, r.SourcePath, d.Job, worked, r.OtherwiseIn, r.OtherwiseBy))
		b.line("    " + Safe(r.Otherwise))
	}
	b.line("")
	for line := range strings.SplitSeq(r.Shell, "\n") {
		b.line(Safe(line))
	}
	if r.NoEnv {
		b.line("")
		missing := "What env has set then is not on record, and missing above."
		if r.Call.HTTP != nil {
			missing = "Headers whose values stood in the file then are not on record, and missing above."
		}
		b.fold("", "", missing)
	}
}
