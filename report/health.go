package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Health is what doctor found: the document of `doctor --json`.
type Health struct {
	SchemaVersion  int         `json:"schema_version"`
	Path           string      `json:"path"`
	Sound          bool        `json:"sound"`
	DatabaseSchema int         `json:"database_schema"` // 0: it could not be read
	NewestSchema   int         `json:"newest_schema"`   // what the next change brings it to
	Bytes          int64       `json:"bytes"`
	LogBytes       int64       `json:"log_bytes"` // not yet folded into the file
	Items          int64       `json:"items"`
	Integrity      []string    `json:"integrity"` // what the engine complained of
	Faults         []string    `json:"faults"`    // books that don't balance, rows that point nowhere, modes
	Notes          []string    `json:"notes"`
	Mended         []string    `json:"mended"` // by --fix
	Runs           []HealthRun `json:"runs"`   // that have not written their end
	now            time.Time
}

// HealthRun is a run that has not written its end, and what it holds.
type HealthRun struct {
	RunStats
	DatabaseSchema int   `json:"schema"`  // which its batchq knew
	Foreign        bool  `json:"foreign"` // of the file of which this one is a copy
	Claimed        int64 `json:"claimed"`
	Running        int64 `json:"running"`
}

// NewHealth renders what was found, and what was mended before.
func NewHealth(h store.Health, life map[int64]Life, now time.Time, mended ...string) Health {
	out := Health{SchemaVersion: SchemaVersion, Path: escapeInvalid(h.Path), Sound: h.Sound(), DatabaseSchema: h.Schema, NewestSchema: h.NewestSchema,
		Bytes: h.Bytes, LogBytes: h.WALBytes, Items: h.Items, Integrity: sentences(h.Integrity), Faults: sentences(h.Faults),
		Mended: sentences(mended), Runs: []HealthRun{}, now: now}
	for _, r := range h.Runs {
		out.Runs = append(out.Runs, HealthRun{RunStats: runStats([]store.RunInfo{r.RunInfo}, life)[0], DatabaseSchema: r.Schema,
			Foreign: r.Foreign, Claimed: r.Claimed, Running: r.Running})
	}
	notes := slices.Concat(h.Notes, out.runNotes(), leftNotes(h))
	if h.Ahead > aheadNoted {
		notes = append(notes, fmt.Sprintf("the clock was set back, or was ahead, by %s: times are on record that have not come yet", Duration(h.Ahead)))
	}
	out.Notes = sentences(append(notes, out.schemaNotes()...))
	return out
}

// aheadNoted is how far a clock may be off without a word.
const aheadNoted = time.Minute

// runNotes say of each run that has not written its end what it is at.
func (h Health) runNotes() (notes []string) {
	for _, r := range h.Runs {
		who := r.who(h.now)
		switch {
		case r.Foreign:
			notes = append(notes, fmt.Sprintf("this is a copy of a database with runs at work: %s belongs to the original; the next run takes back %s, and touches nothing of the original", who, r.holds()))
		case r.State == Alive:
			notes = append(notes, who+" is at work")
		case r.State == Dead:
			notes = append(notes, fmt.Sprintf("%s is dead; the next run takes over what it held: %s", who, r.holds()))
		default:
			notes = append(notes, who+" may be at work: it is in another pid namespace")
		}
	}
	return notes
}

// who names a run for people.
func (r HealthRun) who(now time.Time) string {
	return fmt.Sprintf("run %d (pid %d, since %s)", r.ID, r.PID, Moment(r.since, now))
}

func (r HealthRun) holds() string {
	return fmt.Sprintf("%s, %d that had started", jobs.Count(r.Claimed, "unstarted item"), r.Running)
}

// leftNotes name what waits for the end of what dead runs left behind.
func leftNotes(h store.Health) (notes []string) {
	for _, l := range h.Left {
		notes = append(notes, fmt.Sprintf("%s is held: what run %d left at work on it when it died has not been ended yet; run %d took it over, and the next run goes on trying; drop %d gives it up",
			Name(l.It), l.Dead, l.By, l.It.ID))
	}
	if more := h.LeftCount - int64(len(h.Left)); more > 0 {
		notes = append(notes, jobs.Count(more, "more item")+" held likewise")
	}
	return notes
}

// schemaNotes say what becomes of a file that an older batchq made.
func (h Health) schemaNotes() []string {
	if h.DatabaseSchema >= h.NewestSchema || h.DatabaseSchema == 0 { // 0: it could not be read
		return nil
	}
	note := fmt.Sprintf("its schema is %d: the next change brings it to %d", h.DatabaseSchema, h.NewestSchema)
	for _, r := range h.Runs {
		if r.State != Dead && r.DatabaseSchema < h.NewestSchema {
			note += fmt.Sprintf(", but not while %s is at work, which is of an older batchq", r.who(h.now))
		}
	}
	return []string{note}
}

func sentences(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, escapeInvalid(s))
	}
	return out
}

// WriteText writes it for people: what is wrong comes first.
func (h Health) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, part := range []struct {
		word string
		list []string
	}{{"mended", h.Mended}, {"damage", h.Integrity}, {"fault", h.Faults}, {"note", h.Notes}} {
		for _, text := range part.list {
			fmt.Fprintf(&b, "%s: %s\n", part.word, Safe(text))
		}
	}
	verdict := fmt.Sprintf("sound: %s, books balanced, file whole", jobs.Count(h.Items, "item"))
	if !h.Sound {
		verdict = "not sound: " + jobs.Count(len(h.Faults)+len(h.Integrity), "fault")
	}
	schema := "schema unknown"
	if h.DatabaseSchema > 0 {
		schema = fmt.Sprintf("schema %d", h.DatabaseSchema)
	}
	fmt.Fprintf(&b, "%s; %s (%s, %s, log %s)\n", verdict, Safe(h.Path), schema, size(h.Bytes), size(h.LogBytes))
	_, err := io.WriteString(w, b.String())
	return err
}

// size is a number of bytes for people.
func size(n int64) string {
	const k = 1024
	if n < k {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/k, 0
	for f >= k && unit < len("KMGT")-1 {
		f /= k
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}
