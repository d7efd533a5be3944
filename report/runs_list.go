package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Ended is a run that has written its end, or whose end was written by the
// run that took over from it. Only the list of runs has such ones.
const Ended Life = "ended"

// Runs is the list of runs: the document of `runs list --json`.
type Runs struct {
	SchemaVersion int      `json:"schema_version"`
	Runs          []RunRow `json:"runs"`
	Older         bool     `json:"older"` // there are others, which --limit left out
	now           time.Time
}

// RunRow is one run, past or present.
type RunRow struct {
	ID        int64         `json:"id"`
	State     Life          `json:"state"`
	Outcome   string        `json:"outcome"` // "finished", "stopped by TERM", "died (crash)", …; "" while it has not ended
	PID       int           `json:"pid"`
	Host      string        `json:"host"`
	Started   string        `json:"started"`
	Ended     *string       `json:"ended"` // null: not yet; for one that died, when that was found
	Batches   int           `json:"batches"`
	PeakBytes int64         `json:"peak_bytes"` // of its largest attempt; 0: unknown
	Freed     int           `json:"freed"`      // items taken back after its death that it had not started
	Schema    int           `json:"schema"`
	Command   []string      `json:"command"`
	Crashed   []CrashedItem `json:"crashed"` // those that ran when it died: a person may want to look at them again
	began     time.Time
	ended     time.Time
	elsewhere bool // its pid is one of another pid namespace
}

// CrashedItem is one item that was running when its run died.
type CrashedItem struct {
	Item  int64  `json:"item"`
	Job   string `json:"job"`
	Scope string `json:"scope"`
	Key
	Attempt int    `json:"attempt"`
	State   string `json:"state"` // now
	key     []byte
}

// NewRuns renders runs. slots are those in use: a run that is dead and from
// which none has taken over yet still has its own.
func NewRuns(rows []store.RunRow, life map[int64]Life, slots []store.SlotRow, older bool, now time.Time) Runs {
	out := Runs{SchemaVersion: SchemaVersion, Runs: make([]RunRow, 0, len(rows)), Older: older, now: now}
	for i := range rows {
		r := &rows[i]
		info := runStats([]store.RunInfo{r.RunInfo}, life)[0]
		one := RunRow{ID: r.ID, State: info.State, Outcome: escapeInvalid(r.Outcome), PID: r.PID, Host: info.Host,
			Started: info.Started, Ended: maybe(r.Ended), Batches: r.Batches, PeakBytes: r.PeakBytes, Freed: r.Freed, Schema: r.Schema,
			Command: info.Command, Crashed: []CrashedItem{}, began: r.Started, ended: r.Ended}
		if !r.Ended.IsZero() {
			one.State = Ended
		}
		for _, c := range r.Crashed {
			one.Crashed = append(one.Crashed, crashedItem(c))
		}
		for _, s := range slots {
			if one.State == Dead && s.Run == r.ID && !s.Orphan && s.Item != 0 {
				one.Crashed = append(one.Crashed, crashedItem(store.CrashedItem{Item: s.Item, Job: s.Job, Scope: s.Scope, Key: s.Key, Attempt: s.Attempt, State: jobs.Running}))
			}
		}
		out.Runs = append(out.Runs, one)
	}
	return out
}

func crashedItem(c store.CrashedItem) CrashedItem {
	return CrashedItem{Item: c.Item, Job: c.Job, Scope: escapeInvalid(c.Scope), Key: NewKey(c.Key), Attempt: c.Attempt, State: c.State.String(), key: c.Key}
}

// outcomeShown is how much of a run's outcome fits a table.
const outcomeShown = 40

// state is the run's life, or how it ended.
func (r *RunRow) state() string {
	if r.State == Ended && r.Outcome != "" {
		return r.Outcome
	}
	return string(r.State)
}

// died says whether nobody knows when the run's work ended.
func (r *RunRow) died() bool {
	return r.State == Dead || r.State == Ended && strings.HasPrefix(r.Outcome, "died")
}

// took is how long the run took, or has taken so far; false when it died, and
// nobody knows.
func (r *RunRow) took(now time.Time) (time.Duration, bool) {
	switch {
	case r.died():
		return 0, false
	case r.ended.IsZero():
		return max(0, now.Sub(r.began)), true
	}
	return max(0, r.ended.Sub(r.began)), true
}

// WriteTable draws the list for a terminal of the given width, and below it
// what is to be looked at again.
func (r Runs) WriteTable(w io.Writer, width int) error {
	if len(r.Runs) == 0 {
		return nil
	}
	t := table{columns: []column{{title: "RUN", right: true}, {title: "STATE", flex: true}, {title: "PID", right: true}, {title: "SINCE"},
		{title: "FOR", right: true}, {title: "BATCHES", right: true}, {title: "PEAK", right: true}, {title: "TO LOOK AT", right: true},
		{title: "COMMAND", flex: true}}}
	for i := range r.Runs {
		one := &r.Runs[i]
		length, peak := "-", "-"
		if d, ok := one.took(r.now); ok {
			length = Duration(d)
		}
		if one.PeakBytes > 0 {
			peak = size(one.PeakBytes)
		}
		t.add(number(one.ID), Short(one.state(), outcomeShown), strconv.Itoa(one.PID), Moment(one.began, r.now), length,
			strconv.Itoa(one.Batches), peak, strconv.Itoa(len(one.Crashed)), Short(one.command(), commandShown))
	}
	said := narrow(&t, width)
	if err := t.write(w, width); err != nil {
		return err
	}
	b := &screen{width: width}
	for _, line := range slices.DeleteFunc(append([]string{said}, append(r.Elsewhere(), r.LookAt()...)...), func(line string) bool { return line == "" }) {
		if b.Len() == 0 {
			b.line("")
		}
		b.below(line)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// WriteTabs writes the same columns for the next program: whole, with times in
// UTC, seconds and bytes.
func (r Runs) WriteTabs(w io.Writer) error {
	var t table
	for i := range r.Runs {
		one := &r.Runs[i]
		length, peak := "-", "-"
		if d, ok := one.took(r.now); ok {
			length = strconv.FormatFloat(d.Seconds(), 'f', 3, 64)
		}
		if one.PeakBytes > 0 {
			peak = number(one.PeakBytes)
		}
		t.add(number(one.ID), Safe(one.state()), strconv.Itoa(one.PID), one.Started, length,
			strconv.Itoa(one.Batches), peak, strconv.Itoa(len(one.Crashed)), Safe(one.command()))
	}
	return t.writeTabs(w)
}

func (r *RunRow) command() string { return "batchq " + strings.Join(r.Command, " ") }

// MarkElsewhere takes down which pids are those of another pid namespace.
func (r Runs) MarkElsewhere(there map[int64]bool) {
	for i := range r.Runs {
		one := &r.Runs[i]
		one.elsewhere = one.State != Ended && one.State != Dead && there[one.ID]
	}
}

// Elsewhere says which pids are none here: at most Named of them.
func (r Runs) Elsewhere() []string {
	var lines []string
	for i := range r.Runs {
		if one := &r.Runs[i]; one.elsewhere && len(lines) < Named {
			lines = append(lines, fmt.Sprintf("run %d is pid %d in another pid namespace: that number is no process of it here", one.ID, one.PID))
		}
	}
	return lines
}

// LookAt names the items that ran when their run died: at most Named of them,
// then a count.
func (r Runs) LookAt() []string {
	var lines []string
	more := 0
	for i := range r.Runs {
		one := &r.Runs[i]
		word := "ended"
		if one.died() {
			word = "died"
		}
		for _, c := range one.Crashed {
			if len(lines) == Named {
				more++
				continue
			}
			it := jobs.Item{ID: c.Item, Job: c.Job, Scope: c.Scope, Key: c.key}
			lines = append(lines, fmt.Sprintf("run %d %s while this ran: %s (attempt %d), now %s", one.ID, word, Name(&it), c.Attempt, c.State))
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more; all are in --json", more))
	}
	return lines
}
