package report

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"batchq/store"
)

// DeadLetters is the dead-letter list, or a part of it.
type DeadLetters struct {
	rows []store.ItemRow
	now  time.Time
}

// NewDeadLetters renders dead items.
func NewDeadLetters(rows []store.ItemRow, now time.Time) DeadLetters {
	return DeadLetters{rows, now}
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
	Status   *int    `json:"status"`    // of an HTTP answer; null when there was none
	Started  string  `json:"started"`
	Seconds  float64 `json:"seconds"`
}

// DeadLettersJSON writes the document of `dlq list --json` in pieces: any
// number of Items, then End. A million items are never in memory together.
//
//	{"schema_version": 1, "items": [DeadLetter…], "more": how many --limit left out}
type DeadLettersJSON struct{ begun bool }

// before is what stands before an item, or before what ends the list: nothing
// is written of a document whose first items can't be read.
func (d *DeadLettersJSON) before() string {
	if d.begun {
		return ","
	}
	d.begun = true
	return fmt.Sprintf("{\n  \"schema_version\": %d,\n  \"items\": [", SchemaVersion)
}

// Items writes dead items.
func (d *DeadLettersJSON) Items(w io.Writer, rows []store.ItemRow) error {
	for i := range rows {
		text, err := indented(deadLetter(&rows[i]), "    ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n    %s", d.before(), text); err != nil {
			return err
		}
	}
	return nil
}

// End writes what stands after the items.
func (d *DeadLettersJSON) End(w io.Writer, more int) error {
	list := "\n  ]"
	if !d.begun {
		list = d.before() + "]"
	}
	_, err := fmt.Fprintf(w, "%s,\n  \"more\": %d\n}\n", list, more)
	return err
}

// DeadLettersTabs writes the columns of the table for the next program: whole,
// and with times in UTC.
type DeadLettersTabs struct{}

// Items writes dead items, one a line.
func (DeadLettersTabs) Items(w io.Writer, rows []store.ItemRow) error {
	var t table
	DeadLetters{rows: rows}.fill(&t, Safe, timestamp)
	return t.writeTabs(w)
}

// End writes nothing: lines have no end.
func (DeadLettersTabs) End(io.Writer, int) error { return nil }

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
		if a.Status != 0 {
			out.Last.Status = &a.Status
		}
	}
	return out
}

// WriteTable draws the list for a terminal of the given width.
func (d DeadLetters) WriteTable(w io.Writer, width int) error {
	if len(d.rows) == 0 {
		return nil
	}
	t := table{columns: []column{{title: "ID", right: true}, {title: "JOB"}, {title: "SCOPE", spare: true}, {title: "KEY", flex: true},
		{title: "SINCE"}, {title: "ATTEMPTS", right: true, yields: true}, {title: "CLASS"}, {title: "REASON", flex: true}}}
	short := func(s string) string { return Short(s, keyWidth) }
	d.fill(&t, short, func(at time.Time) string { return Moment(at, d.now) })
	return t.write(w, width)
}

func (d DeadLetters) fill(t *table, text func(string) string, moment func(time.Time) string) {
	for i := range d.rows {
		r := &d.rows[i]
		t.add(strconv.FormatInt(r.ID, 10), r.Job, text(r.Scope), text(string(r.Item.Key)), moment(r.Finished),
			strconv.Itoa(r.Attempt), string(r.Class), text(r.Reason))
	}
}
