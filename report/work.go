package report

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"batchq/store"
)

// Work is what a run did, in numbers.
type Work struct {
	Done        int               // finished by this run
	Retried     int               // failed, to be tried again
	Dead        int               // set aside in the dead-letter list
	Deferred    int               // put off at their own wish
	Interrupted int               // ended by a stop; ready again, free
	Stale       int               // results refused: another run had the item
	Batches     int               // claims taken
	Broken      map[string]string // jobs that can't be run, and why
	Halted      map[string]string // jobs left alone after failures in a row
	Holds       []store.Hold      // what was paused or held by a breaker at its end
	Left        store.Counts      // the books of what was asked for
}

// Worked is a run's summary as one line.
func Worked(w Work) string {
	parts := []string{fmt.Sprintf("done %d", w.Done)}
	for _, p := range []struct {
		n    int
		what string
	}{{w.Retried, "retried"}, {w.Dead, "dead"}, {w.Deferred, "deferred"}, {w.Interrupted, "interrupted"}, {w.Stale, "refused"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p.what, p.n))
		}
	}
	parts = append(parts, "left "+left(w.Left))
	if w.Left.Dead > int64(w.Dead) {
		// Of earlier runs, or of others beside this one: "left 0" is not "all done".
		parts = append(parts, fmt.Sprintf("%d in the dead-letter list", w.Left.Dead))
	}
	return strings.Join(parts, ", ")
}

// left says how much is not settled, and where it stands.
func left(c store.Counts) string {
	if c.Left() == 0 {
		return "0"
	}
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{c.Ready, "ready"}, {c.Delayed, "delayed"}, {c.Claimed, "claimed"}, {c.Running, "running"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return fmt.Sprintf("%d (%s)", c.Left(), strings.Join(parts, ", "))
}

// workedJSON is the document of work --json.
type workedJSON struct {
	SchemaVersion int               `json:"schema_version"`
	Done          int               `json:"done"`
	Retried       int               `json:"retried"`
	Dead          int               `json:"dead"`
	Deferred      int               `json:"deferred"`
	Interrupted   int               `json:"interrupted"`
	Stale         int               `json:"stale"`
	Batches       int               `json:"batches"`
	Broken        map[string]string `json:"broken"`
	Halted        map[string]string `json:"halted"`
	Holds         []holdJSON        `json:"holds"`
	Left          leftJSON          `json:"left"`
	InDLQ         int64             `json:"in_dlq"` // dead items of what was asked for, whoever set them aside
}

// leftJSON is what was asked for and is not settled, whoever holds it.
type leftJSON struct {
	Total   int64 `json:"total"`
	Ready   int64 `json:"ready"`
	Delayed int64 `json:"delayed"`
	Claimed int64 `json:"claimed"`
	Running int64 `json:"running"`
}

// NewWorked is the document of work --json.
func NewWorked(w Work) any { return worked(w) }

func worked(w Work) workedJSON {
	c := w.Left
	return workedJSON{SchemaVersion: SchemaVersion, Done: w.Done, Retried: w.Retried, Dead: w.Dead, Deferred: w.Deferred,
		Interrupted: w.Interrupted, Stale: w.Stale, Batches: w.Batches, Broken: reasons(w.Broken), Halted: reasons(w.Halted), Holds: holdsJSON(w.Holds),
		Left:  leftJSON{Total: c.Left(), Ready: c.Ready, Delayed: c.Delayed, Claimed: c.Claimed, Running: c.Running},
		InDLQ: c.Dead}
}

// reasons are sentences by job, in JSON; null where there is no map.
func reasons(by map[string]string) map[string]string {
	out := maps.Clone(by)
	for job, why := range out {
		out[job] = escapeInvalid(why)
	}
	return out
}

// LaneFull says who holds all slots of a lane, and since when.
func LaneFull(lane string, inUse, slots int, holders []store.Holder, now time.Time) string {
	s := fmt.Sprintf("lane %s is full: %d of %d", lane, inUse, slots)
	for _, h := range holders {
		s += fmt.Sprintf(", run %d since %s", h.Run, clock(h.Since, now))
	}
	return s
}

// HeldElsewhere says which other runs have items in hand.
func HeldElsewhere(others []store.OtherRun) string {
	var parts []string
	for _, o := range others {
		if o.Held > 0 && o.ID != 0 {
			parts = append(parts, fmt.Sprintf("run %d (pid %d) %d", o.ID, o.PID, o.Held))
		}
	}
	if parts == nil {
		return ""
	}
	return "items in hand of other runs: " + strings.Join(parts, ", ")
}

// NextDue says when the first delayed item is due.
func NextDue(at, now time.Time) string {
	return "the next delayed item is due at " + clockSeconds(at, now)
}

// NoRoom says what was full for a job that had something ready.
func NoRoom(job, full string) string { return fmt.Sprintf("job %s found no room: %s", job, full) }

// clock is a time of day for a person, with the date where it is not today's.
func clock(t, now time.Time) string { return clockTo("15:04", t, now) }

// clockSeconds is clock for what is soon: to the second.
func clockSeconds(t, now time.Time) string { return clockTo(time.TimeOnly, t, now) }

func clockTo(layout string, t, now time.Time) string {
	t, now = t.In(now.Location()), now.Local()
	if t.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return t.Format(layout)
	}
	return t.Format(time.DateOnly + " " + layout)
}

// PlannedJob is what work --dry-run says of one job.
type PlannedJob struct {
	Job     string `json:"job"`
	Lane    string `json:"lane"`
	Slots   int    `json:"slots"` // most at once in the lane
	Batch   int    `json:"batch"`
	Source  string `json:"source"` // where the job is declared
	Command string `json:"command"`
	Ready   int64  `json:"ready"`
	Delayed int64  `json:"delayed"`
	Held    int64  `json:"held"` // claimed or running, by whatever run
	// First are the command lines of the first ready items.
	First []string `json:"first"`
}

// Lines are what a person reads of it: the job, then what would run first.
func (p PlannedJob) Lines() []string {
	lines := []string{fmt.Sprintf("job %s (%s): lane %s, %d at once, batch %d; %d ready, %d delayed, %d held",
		p.Job, p.Source, p.Lane, p.Slots, p.Batch, p.Ready, p.Delayed, p.Held)}
	for _, command := range p.First {
		lines = append(lines, "  "+command)
	}
	if more := p.Ready - int64(len(p.First)); more > 0 {
		lines = append(lines, fmt.Sprintf("  … and %d more: %s", more, p.Command))
	}
	return lines
}

// NewPlanned is the document of work --dry-run --json.
func NewPlanned(jobs []PlannedJob) any {
	out := make([]PlannedJob, 0, len(jobs))
	for _, p := range jobs {
		out = append(out, p.escaped())
	}
	return struct {
		SchemaVersion int          `json:"schema_version"`
		Jobs          []PlannedJob `json:"jobs"`
	}{SchemaVersion, out}
}

func (p PlannedJob) escaped() PlannedJob {
	p.Source, p.Command, p.First = escapeInvalid(p.Source), escapeInvalid(p.Command), sentences(p.First)
	return p
}
