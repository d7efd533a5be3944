package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"batchq/jobs"
)

// showWidth is how wide a screen show fills at most: longer lines are hard to
// read, and in a pipe it is the same.
const showWidth = 80

// WriteText writes the story for people, for a terminal of the given width (0:
// none). What an attempt printed and the commands to type are never folded.
func (s Show) WriteText(w io.Writer, width int) error {
	if width <= 0 || width > showWidth {
		width = showWidth
	}
	b := &screen{width: width}
	s.facts(b)
	b.line("")
	switch s.story.Item.State {
	case jobs.Running, jobs.Done, jobs.Dropped:
		b.line("now:")
	default:
		b.line("why it is not running:")
	}
	for _, y := range s.Why {
		b.fold("- ", "  ", y.Text)
		for _, h := range y.Hints {
			b.line("    " + h.To + ": " + Safe(h.Command))
		}
	}
	s.attempts(b)
	_, err := w.Write(b.Bytes())
	return err
}

// screen is text of a width.
type screen struct {
	bytes.Buffer
	width int
}

func (b *screen) line(s string) { b.WriteString(s + "\n") }

// fold writes text over as many lines as it needs, broken where a space is.
func (b *screen) fold(first, further, text string) {
	line, empty := first, true
	for word := range strings.SplitSeq(Safe(text), " ") {
		if !empty && twwidth.Width(line)+1+twwidth.Width(word) > b.width {
			b.line(line)
			line, empty = further, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	b.line(line)
}

// labelWidth is the longest of the labels and two spaces.
const labelWidth = len("idempotency key  ")

func (b *screen) fact(label, text string) {
	first := fmt.Sprintf("%-*s", labelWidth, label)
	b.fold(first, strings.Repeat(" ", labelWidth), text)
}

// facts is what an item is, one line each.
func (s Show) facts(b *screen) {
	it := &s.story.Item
	b.line(fmt.Sprintf("item %d of job %s is %s", it.ID, it.Job, it.State))
	b.line("")
	b.fact("key", Short(string(it.Key), keyWidth))
	if it.Scope != "" {
		b.fact("scope", Short(it.Scope, keyWidth))
	}
	b.fact("lane", s.Lane)
	if it.Priority != 0 {
		b.fact("priority", fmt.Sprintf("%d", it.Priority))
	}
	b.fact("added", s.ago(it.Created))
	switch it.State {
	case jobs.Ready, jobs.Delayed, jobs.Claimed:
		due := s.ago(it.Due)
		if it.Due.After(s.now) {
			due = fmt.Sprintf("%s, in %s", Moment(it.Due, s.now), Duration(it.Due.Sub(s.now)))
		}
		b.fact("due", due)
	}
	b.fact("attempts", fmt.Sprintf("%d; %s, %s, %s", it.Attempt, budget("failures", it.Failures, s.MaxAttempts),
		budget("crashes", it.Crashes, s.MaxCrashes), budget("deferrals", it.Defers, s.DeferCap)))
	payload := "none"
	if n := s.PayloadBytes; n != nil {
		payload = size(*n)
	}
	b.fact("payload", payload)
	b.fact("idempotency key", s.IdempotencyKey)
}

// ago is a moment in the past, and how long ago it was.
func (s Show) ago(t time.Time) string {
	return fmt.Sprintf("%s, %s ago", Moment(t, s.now), age(t, s.now))
}

func budget(what string, n int, of *int) string {
	if of == nil {
		return fmt.Sprintf("%s %d", what, n)
	}
	return fmt.Sprintf("%s %d of %d", what, n, *of)
}

// attempts is what is on record of each, the newest last.
func (s Show) attempts(b *screen) {
	next := 1
	last := s.Attempts
	if s.story.Item.State == jobs.Running {
		last-- // of which is said above what there is to say
	}
	for i := range s.History {
		a := &s.History[i]
		b.unknown(next, a.Number-1)
		next = a.Number + 1
		b.line("")
		run := ""
		if a.Run != nil {
			run = fmt.Sprintf(", run %d", *a.Run)
		}
		b.line(fmt.Sprintf("attempt %d: %s%s, begun %s, took %s", a.Number, a.Class, run, Moment(a.started, s.now), Duration(a.took)))
		if a.Reason != "" {
			b.fold("  ", "    ", s.story.Attempts[i].Reason)
		}
		b.output(a.output)
	}
	b.unknown(next, last)
}

// unknown names attempts of which nothing is kept.
func (b *screen) unknown(from, to int) {
	switch {
	case from > to:
		return
	case from == to:
		b.line(fmt.Sprintf("\nattempt %d: nothing is on record", from))
	default:
		b.line(fmt.Sprintf("\nattempts %d to %d: nothing is on record", from, to))
	}
}

// output is what an attempt printed, a mark before each line, so that nothing
// of it looks like a word of ours.
func (b *screen) output(o jobs.Output) {
	part := func(text []byte) {
		for line := range bytes.Lines(text) {
			b.line("  | " + Safe(strings.TrimSuffix(string(line), "\n")))
		}
	}
	if o.Omitted == 0 {
		part(append(bytes.Clone(o.Head), o.Tail...))
		return
	}
	part(o.Head)
	b.line(fmt.Sprintf("  … %s left out …", size(o.Omitted)))
	part(o.Tail)
}
