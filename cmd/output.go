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
	"time"

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

	abandoned   chan struct{} // closed by abandon
	abandonOnce sync.Once
}

// abandon ends the wait for a terminal or pipe that takes nothing: whoever
// insists on the end of a command must not wait for who reads what it says.
func (o *output) abandon() { o.abandonOnce.Do(func() { close(o.abandoned) }) }

// patient calls do, which prints. When nobody waits any longer it is left to
// itself, which is errAbandoned.
func patient(abandoned <-chan struct{}, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-abandoned:
	}
	select {
	case err := <-done: // what can be said is said
		return err
	case <-time.After(lastWords):
		return errAbandoned
	}
}

// lastWords is how long printing may still take when nobody waits any longer.
const lastWords = time.Second

// errAbandoned is the failure of a stream that took nothing until the end.
var errAbandoned = errors.New("nobody read it, and nobody waited any longer")

// stream is stdout or stderr. After its first failure it swallows what is
// written, so that no caller takes the end of printing for the end of its work.
type stream struct {
	w        io.Writer
	terminal bool
	failed   error
	above    io.Writer // a bar stands on the terminal, and lines go through here

	abandoned <-chan struct{} // see output
}

func newStream(w io.Writer, abandoned <-chan struct{}) *stream {
	f, ok := w.(*os.File)
	return &stream{w: w, terminal: ok && term.IsTerminal(int(f.Fd())), abandoned: abandoned}
}

func (s *stream) Write(p []byte) (int, error) {
	if s.failed != nil {
		return len(p), nil
	}
	own, above := bytes.Clone(p), s.above // the writing may outlast the call
	s.failed = patient(s.abandoned, func() error {
		if above != nil {
			if _, err := above.Write(own); err == nil {
				return nil
			}
			// The bar could not be drawn any more: the terminal may be gone.
		}
		_, err := s.w.Write(own)
		return err
	})
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
	if err := o.stdout.failed; err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, errAbandoned) {
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
	_, errOut := stdout.WriteTo(to)
	_, errErr := stderr.WriteTo(o.stderr)
	return errors.Join(errOut, errErr)
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
	if patient(o.abandoned, func() error { remove(); return nil }) != nil {
		o.stdout.failed, o.stderr.failed = errAbandoned, errAbandoned
	}
	o.stdout.above, o.stderr.above = nil, nil
}
