package cmd

// The rule for output. Nothing else in this program prints.
//
//   - What a command was asked for goes to stdout: print, summary (not with
//     -q), result, document. With --json that is one JSON document and nothing
//     else.
//   - Everything else goes to stderr: detail (only with -v), note (not with
//     -q), must (always: a person has to see it), warn (always), and at the
//     end at most one error ("batchq: error: …") with what to do about it
//     ("hint: …").
//   - Each of these functions but result writes whole lines, and makes them
//     safe: no control character of a key, a path or a reason reaches a terminal.
//   - There is no ANSI sequence and no CR where a stream is not a terminal.
//   - A reader of stdout that goes away (EPIPE) ends the printing and changes
//     nothing else. Any other failure to write stdout is an error, told on
//     stderr, that turns exit 0 or 75 into 1. stderr may fail: then there is
//     nobody to tell.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"batchq/report"
)

// output is where a command prints. It may be used from several goroutines.
type output struct {
	mu             sync.Mutex
	stdout, stderr *stream
	json           bool // --json
	quiet          bool // -q
	verbose        bool // -v
	color          bool // unless --no-color, $NO_COLOR or TERM=dumb; terminals only
}

// stream is stdout or stderr. After its first failure it swallows what is
// written, so that no caller takes the end of printing for the end of its work.
type stream struct {
	w        io.Writer
	terminal bool
	failed   error
	above    io.Writer // a bar stands on the terminal, and lines go through here
}

func newStream(w io.Writer) *stream {
	f, ok := w.(*os.File)
	return &stream{w: w, terminal: ok && term.IsTerminal(int(f.Fd()))}
}

func (s *stream) Write(p []byte) (int, error) {
	if s.above != nil {
		if _, err := s.above.Write(p); err == nil {
			return len(p), nil
		}
		// The bar could not be drawn any more: the terminal may be gone.
	}
	if s.failed == nil {
		_, s.failed = s.w.Write(p)
	}
	return len(p), nil
}

// width is the terminal's, in columns; 0 where the stream is none.
func (s *stream) width() int {
	if f, ok := s.w.(*os.File); ok && s.terminal {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil {
			return w
		}
	}
	return 0
}

// print writes one line of a result to stdout. With --json it writes nothing:
// the document says it.
func (o *output) print(format string, args ...any) {
	if o.json {
		return
	}
	o.line(o.stdout, "", fmt.Sprintf(format, args...))
}

// summary is print for commands that change something: -q leaves it out.
func (o *output) summary(format string, args ...any) {
	if !o.quiet {
		o.print(format, args...)
	}
}

// result lets write write a whole screen or raw bytes to stdout, unmixed with
// anything else. What comes from outside is for write to make safe.
func (o *output) result(write func(w io.Writer) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := bufio.NewWriter(o.stdout)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// document writes the JSON document that --json asks for to stdout.
func (o *output) document(v any) error {
	return o.result(func(w io.Writer) error { return report.WriteJSON(w, v) })
}

// detail is for who asked for more.
func (o *output) detail(format string, args ...any) {
	if o.verbose {
		o.line(o.stderr, "batchq: ", fmt.Sprintf(format, args...))
	}
}

// note is what helps to understand the result and can be done without.
func (o *output) note(format string, args ...any) {
	if !o.quiet {
		o.line(o.stderr, "batchq: ", fmt.Sprintf(format, args...))
	}
}

// must is what a person has to see, also with -q: a rejected line, a newly
// dead item.
func (o *output) must(format string, args ...any) {
	o.line(o.stderr, "batchq: ", fmt.Sprintf(format, args...))
}

// warn is what is probably a mistake.
func (o *output) warn(format string, args ...any) {
	o.line(o.stderr, "batchq: "+o.paint("33", "warning:")+" ", fmt.Sprintf(format, args...))
}

// fail says why the command ends: the error, a line for each of its lines,
// and what to do about it.
func (o *output) fail(err error) {
	for text := range strings.Lines(err.Error()) {
		o.line(o.stderr, "batchq: "+o.paint("31", "error:")+" ", strings.TrimSuffix(text, "\n"))
	}
	if hint := hintOf(err); hint != "" {
		o.line(o.stderr, o.paint("36", "hint:")+" ", hint)
	}
}

// line writes one line. The prefix is ours, the text may be anybody's.
func (o *output) line(s *stream, prefix, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, _ = io.WriteString(s, prefix+report.Safe(text)+"\n") // a stream keeps its own failure
}

// paint colours a word of stderr, where there is a terminal that wants it.
func (o *output) paint(sgr, word string) string {
	if !o.color || !o.stderr.terminal {
		return word
	}
	return "\x1b[" + sgr + "m" + word + "\x1b[0m"
}

// unheard says whether stdout can no longer be written, so that a long result
// need not be made to its end. Whether that is a failure is for failure to say.
func (o *output) unheard() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stdout.failed != nil
}

// failure is what kept stdout from being written; nil when nothing did, or
// when its reader simply had enough.
func (o *output) failure() error {
	if err := o.stdout.failed; err != nil && !errors.Is(err, syscall.EPIPE) {
		var pe *os.PathError
		if errors.As(err, &pe) {
			err = pe.Err // "write /dev/stdout" says nothing that the sentence does not
		}
		return fmt.Errorf("standard output can't be written: %w", err)
	}
	return nil
}

// attempt shows what one attempt printed, its stdout on ours and its stderr on
// ours, unmixed with anything else and byte for byte: it is the command's
// output that was asked for. With --json it all goes to stderr.
func (o *output) attempt(stdout, stderr io.WriterTo) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.stdout
	if o.json {
		to = o.stderr
	}
	return errors.Join(to.copy(stdout), o.stderr.copy(stderr))
}

// copy writes what a command printed. Under a bar only whole lines can stand:
// a beginning would be drawn over.
func (s *stream) copy(from io.WriterTo) error {
	if s.above == nil {
		_, err := from.WriteTo(s)
		return err
	}
	lines := &wholeLines{to: s}
	_, err := from.WriteTo(lines)
	lines.end()
	return err
}

// wholeLines passes on whole lines only.
type wholeLines struct {
	to   *stream
	rest []byte
}

// lineMost is the longest line that is kept whole.
const lineMost = 64 << 10

func (l *wholeLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) < lineMost {
		return len(p), nil
	}
	if end == 0 {
		l.end()
		return len(p), nil
	}
	_, _ = l.to.Write(l.rest[:end]) // a stream keeps its own failure
	l.rest = append(l.rest[:0], l.rest[end:]...)
	return len(p), nil
}

// end passes on what has no newline yet, with one.
func (l *wholeLines) end() {
	if len(l.rest) > 0 {
		_, _ = l.to.Write(append(l.rest, '\n'))
		l.rest = nil
	}
}

// Above lets what is printed on the terminal go through w, which puts it above
// a bar.
func (o *output) Above(w io.Writer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range []*stream{o.stdout, o.stderr} {
		if s.terminal {
			s.above = w
		}
	}
}

// Direct calls remove, which takes the bar away, while nothing is printed.
func (o *output) Direct(remove func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	remove()
	o.stdout.above, o.stderr.above = nil, nil
}
