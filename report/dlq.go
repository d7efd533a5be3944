package report

import (
	"io"
	"strconv"
	"time"

	"batchq/store"
)

// DeadLetters is the dead-letter list.
type DeadLetters struct {
	rows []store.ItemRow
	more int
	now  time.Time
}

// NewDeadLetters renders dead items; more is how many others there are.
func NewDeadLetters(rows []store.ItemRow, more int, now time.Time) DeadLetters {
	return DeadLetters{rows, more, now}
}

// DeadLetter is one dead item in JSON.
type DeadLetter struct {
	ID    int64  `json:"id"`
	Job   string `json:"job"`
	Scope string `json:"scope"`
	Key
	Since    string `json:"since"` // when it was set aside
	Created  string `json:"created"`
	Attempts int    `json:"attempts"` // ever
	Failures int    `json:"failures"` // charged since it was last requeued
	Crashes  int    `json:"crashes"`
	Class    string `json:"class"`
	Reason   string `json:"reason"`
	// Last is the last attempt; null when nothing of it is known.
	Last *LastAttempt `json:"last_attempt"`
}

// LastAttempt is how an item's last attempt ended.
type LastAttempt struct {
	Run      int64   `json:"run"`
	ExitCode *int    `json:"exit_code"` // null when it did not exit by itself
	Signal   string  `json:"signal"`    // "SIGKILL"; "" when none ended it
	Started  string  `json:"started"`
	Seconds  float64 `json:"seconds"`
}

// Document is what --json prints.
func (d DeadLetters) Document() any {
	items := make([]DeadLetter, 0, len(d.rows))
	for i := range d.rows {
		items = append(items, deadLetter(&d.rows[i]))
	}
	return struct {
		SchemaVersion int          `json:"schema_version"`
		Items         []DeadLetter `json:"items"`
		More          int          `json:"more"` // items that --limit left out
	}{SchemaVersion, items, d.more}
}

func deadLetter(r *store.ItemRow) DeadLetter {
	out := DeadLetter{
		ID: r.ID, Job: r.Job, Scope: escapeInvalid(r.Scope), Key: NewKey(r.Item.Key),
		Since: timestamp(r.Finished), Created: timestamp(r.Created),
		Attempts: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, Class: string(r.Class), Reason: escapeInvalid(r.Reason),
	}
	if a := r.Last; a != nil {
		out.Last = &LastAttempt{Run: a.Run, Signal: a.Signal, Started: timestamp(a.Started), Seconds: a.Duration.Seconds()}
		if a.Exited {
			out.Last.ExitCode = &a.ExitCode
		}
	}
	return out
}

// WriteTable draws the list for a terminal of the given width.
func (d DeadLetters) WriteTable(w io.Writer, width int) error {
	if len(d.rows) == 0 {
		return nil
	}
	t := table{columns: []column{{title: "ID", right: true}, {title: "JOB"}, {title: "SCOPE"}, {title: "KEY", flex: true},
		{title: "SINCE"}, {title: "ATTEMPTS", right: true}, {title: "CLASS"}, {title: "REASON", flex: true}}}
	short := func(s string) string { return Short(s, keyWidth) }
	d.fill(&t, short, func(at time.Time) string { return Moment(at, d.now) })
	return t.write(w, width)
}

// WriteTabs writes the same columns for the next program, whole and with
// times in UTC.
func (d DeadLetters) WriteTabs(w io.Writer) error {
	var t table
	d.fill(&t, Safe, timestamp)
	return t.writeTabs(w)
}

func (d DeadLetters) fill(t *table, text func(string) string, moment func(time.Time) string) {
	for i := range d.rows {
		r := &d.rows[i]
		t.add(strconv.FormatInt(r.ID, 10), r.Job, text(r.Scope), text(string(r.Item.Key)), moment(r.Finished),
			strconv.Itoa(r.Attempt), string(r.Class), text(r.Reason))
	}
}
