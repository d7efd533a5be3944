package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// WriteText writes the screen, for a terminal of the given width (0: none).
// It is the same in a pipe: programs read --json.
func (s Stats) WriteText(w io.Writer, width int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "database %s\n", Safe(s.Path))
	t := s.Totals
	books := fmt.Sprintf("enqueued %d = ready %d + delayed %d + claimed %d + running %d + done %d + dead %d + dropped %d + pruned %d",
		t.Enqueued, t.Ready, t.Delayed, t.Claimed, t.Running, t.Done, t.Dead, t.Dropped, t.Pruned)
	for _, line := range append([]string{books}, s.holds()...) {
		fmt.Fprintln(&b, Wrap(line, width, 0, len("  ")))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	for _, part := range []*table{s.laneTable(), s.jobTable(), s.slotTable(), s.runTable()} {
		if len(part.rows) == 0 {
			continue
		}
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := part.write(w, width); err != nil {
			return err
		}
	}
	if len(s.Runs) == 0 {
		_, err := io.WriteString(w, "\nno run is at work\n")
		return err
	}
	return nil
}

// holds says what keeps ready items from starting, one line each.
func (s Stats) holds() []string {
	var lines []string
	for _, p := range s.Pauses {
		lines = append(lines, fmt.Sprintf("paused: %s %s", p.pause.Target, p.said(s.now)))
	}
	for i := range s.Jobs {
		if b := s.Jobs[i].Breaker; b != nil {
			lines = append(lines, "held: job "+s.Jobs[i].Name+" "+b.said(s.now))
		}
		if h := s.Jobs[i].Throttle; h != nil {
			lines = append(lines, "throttled: job "+s.Jobs[i].Name+" "+h.said(s.now))
		}
	}
	for _, q := range s.Squeezed {
		lines = append(lines, fmt.Sprintf("squeezed: job %s finds no room in its pools since %s; after a whole lease they are kept free for the one that waits longest", q.Job, clock(q.since, s.now)))
	}
	return lines
}

// said is how a breaker holds its job now. One that opened in the future did
// so before the clock was set back: it holds nothing that long.
func (b *Breaker) said(now time.Time) string {
	times := "once"
	if b.Times > 1 {
		times = fmt.Sprintf("%d times", b.Times)
	}
	if now.Before(b.until) && !now.Before(b.opened) {
		return fmt.Sprintf("until %s, opened %s, last failure%s", clock(b.until, now), times, because(b.Reason))
	}
	return fmt.Sprintf("to one item at a time since its breaker opened at %s, opened %s, last failure%s", clock(b.opened, now), times, because(b.Reason))
}

// backlogColumns are what lanes and jobs have in common. A narrow terminal has
// room for what a person may have to do something about.
var backlogColumns = []column{{title: "WAITING", right: true}, {title: "OLDEST", right: true, yields: true}, {title: "DELAYED", right: true, yields: true},
	{title: "RUNNING", right: true}, {title: "DONE", right: true, yields: true}, {title: "DEAD", right: true}}

func (s Stats) backlogCells(t Totals, b Backlog) []string {
	// What is due is counted as waiting, wherever it still stands.
	later := t.Ready + t.Delayed + t.Claimed - b.Waiting
	return []string{number(b.Waiting), age(b.oldest, s.now), number(later), number(t.Running), number(t.Done), number(t.Dead)}
}

func (s Stats) laneTable() *table {
	t := &table{columns: append([]column{{title: "LANE", flex: true}, {title: "IN USE"}}, backlogColumns...)}
	for _, l := range s.Lanes {
		use := strconv.Itoa(l.InUse)
		if l.Slots != nil {
			use += " of " + strconv.Itoa(*l.Slots)
		}
		t.add(append([]string{l.Name, use}, s.backlogCells(l.Totals, l.Backlog)...)...)
	}
	return t
}

func (s Stats) jobTable() *table {
	t := &table{columns: append([]column{{title: "JOB", flex: true}, {title: "LANE", flex: true}}, backlogColumns...)}
	for _, j := range s.Jobs {
		t.add(append([]string{j.Name, j.Lane}, s.backlogCells(j.Totals, j.Backlog)...)...)
	}
	return t
}

// slotTable says who holds what, and since when.
func (s Stats) slotTable() *table {
	t := &table{columns: []column{{title: "LANE", flex: true}, {title: "RUN", right: true}, {title: "JOB", flex: true}, {title: "ITEM", right: true},
		{title: "KEY", flex: true}, {title: "ATTEMPT", right: true, yields: true}, {title: "PID", right: true, yields: true}, {title: "SINCE", yields: true}, {title: "FOR", right: true}}}
	for _, slot := range s.Slots {
		run := number(slot.Run)
		if slot.Orphan {
			run += " (dead)"
		}
		t.add(slot.Lane, run, slot.Job, number(slot.Item), Short(slot.Key.Key, keyShown), strconv.Itoa(slot.Attempt), pid(slot.PID),
			Moment(slot.since, s.now), age(slot.since, s.now))
	}
	return t
}

func (s Stats) runTable() *table {
	t := &table{columns: []column{{title: "RUN", right: true}, {title: "STATE"}, {title: "PID", right: true}, {title: "HOST", yields: true},
		{title: "SINCE", yields: true}, {title: "COMMAND", flex: true}}}
	for _, r := range s.Runs {
		t.add(number(r.ID), string(r.State), strconv.Itoa(r.PID), Safe(r.Host), Moment(r.since, s.now), r.command())
	}
	return t
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

// pid is a command's process; "-" until it is recorded.
func pid(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}
