package report

import (
	"io"
	"strconv"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Items is a list of items in any state.
type Items struct {
	rows []store.ItemRow
	more int
	now  time.Time
}

// NewItems renders items; more is how many others there are.
func NewItems(rows []store.ItemRow, more int, now time.Time) Items {
	return Items{rows, more, now}
}

// ListedItem is one item of a list in JSON.
type ListedItem struct {
	ID    int64  `json:"id"`
	Job   string `json:"job"`
	Scope string `json:"scope"`
	Key
	State    string  `json:"state"`
	Added    string  `json:"added"`
	Due      string  `json:"due"`
	Started  *string `json:"started"`  // the last attempt; null: never
	Finished *string `json:"finished"` // when it was done, set aside or dropped; null: not yet
	Attempts int     `json:"attempts"` // ever
	Failures int     `json:"failures"` // charged since it was last requeued
	Crashes  int     `json:"crashes"`
	Class    string  `json:"class"` // of the last attempt that did not succeed; "" when none
	Reason   string  `json:"reason"`
}

// Document is what --json prints.
func (l Items) Document() any {
	items := make([]ListedItem, 0, len(l.rows))
	for i := range l.rows {
		r := &l.rows[i]
		items = append(items, ListedItem{
			ID: r.ID, Job: r.Job, Scope: escapeInvalid(r.Scope), Key: NewKey(r.Item.Key), State: r.State.String(),
			Added: timestamp(r.Created), Due: timestamp(r.Due), Started: maybe(r.Started), Finished: maybe(r.Finished),
			Attempts: r.Attempt, Failures: r.Failures, Crashes: r.Crashes, Class: string(r.Class), Reason: escapeInvalid(r.Reason),
		})
	}
	return struct {
		SchemaVersion int          `json:"schema_version"`
		Items         []ListedItem `json:"items"`
		More          int          `json:"more"` // items that --limit left out
	}{SchemaVersion, items, l.more}
}

// WriteTable draws the list for a terminal of the given width.
func (l Items) WriteTable(w io.Writer, width int) error {
	t := table{columns: []column{{title: "ID", right: true}, {title: "JOB", flex: true}, {title: "SCOPE", flex: true, spare: true}, {title: "KEY", flex: true},
		{title: "STATE"}, {title: "SINCE/DUE"}, {title: "ATTEMPTS", right: true, yields: true}, {title: "REASON", flex: true}}}
	short := func(s string) string { return Short(s, keyWidth) }
	l.fill(&t, short, func(at time.Time) string { return Moment(at, l.now) })
	return t.write(w, width)
}

// WriteTabs writes the same columns for the next program, whole and with
// times in UTC.
func (l Items) WriteTabs(w io.Writer) error {
	var t table
	l.fill(&t, Safe, timestamp)
	return t.writeTabs(w)
}

func (l Items) fill(t *table, text func(string) string, moment func(time.Time) string) {
	for i := range l.rows {
		r := &l.rows[i]
		t.add(strconv.FormatInt(r.ID, 10), r.Job, text(r.Scope), text(string(r.Item.Key)), r.State.String(), moment(since(r)),
			strconv.Itoa(r.Attempt), text(r.Reason))
	}
}

// since is when an item came to where it is; of one that waits, when it is or
// was due.
func since(r *store.ItemRow) time.Time {
	switch r.State {
	case jobs.Running:
		return r.Started
	case jobs.Done, jobs.Dead, jobs.Dropped:
		return r.Finished
	}
	return r.Due
}
