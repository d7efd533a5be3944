package report

import (
	"fmt"
	"io"
	"strings"
	"time"

	"batchq/store"
)

// Health is what doctor found: the document of `doctor --json`.
type Health struct {
	SchemaVersion  int        `json:"schema_version"`
	Path           string     `json:"path"`
	Sound          bool       `json:"sound"`
	DatabaseSchema int        `json:"database_schema"`
	Bytes          int64      `json:"bytes"`
	LogBytes       int64      `json:"log_bytes"` // not yet folded into the file
	Items          int64      `json:"items"`
	Integrity      []string   `json:"integrity"` // what the engine complained of
	Faults         []string   `json:"faults"`    // books that don't balance, rows that point nowhere
	Notes          []string   `json:"notes"`
	Runs           []RunStats `json:"runs"` // that have not written their end
	now            time.Time
}

// NewHealth renders what was found.
func NewHealth(h store.Health, s store.Stats, life map[int64]Life, now time.Time) Health {
	return Health{SchemaVersion: SchemaVersion, Path: escapeInvalid(h.Path), Sound: h.Sound(), DatabaseSchema: h.Schema,
		Bytes: h.Bytes, LogBytes: h.WALBytes, Items: h.Items, Integrity: sentences(h.Integrity), Faults: sentences(h.Faults),
		Notes: sentences(h.Notes), Runs: runStats(s.Runs, life), now: now}
}

func sentences(list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, escapeInvalid(s))
	}
	return out
}

// WriteText writes it for people.
func (h Health) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "database %s\n", Safe(h.Path))
	fmt.Fprintf(&b, "schema %d, %s, %s of log, %d items\n", h.DatabaseSchema, size(h.Bytes), size(h.LogBytes), h.Items)
	for _, part := range []struct {
		word string
		list []string
	}{{"damage", h.Integrity}, {"fault", h.Faults}, {"note", h.Notes}} {
		for _, text := range part.list {
			fmt.Fprintf(&b, "%s: %s\n", part.word, Safe(text))
		}
	}
	for _, r := range h.Runs {
		state := map[Life]string{
			Alive: "is at work", Dead: "is dead; the next run takes over what it held",
			Unknown: "may be at work: it is in another pid namespace",
		}[r.State]
		fmt.Fprintf(&b, "run %d (pid %d, since %s) %s\n", r.ID, r.PID, Moment(r.since, h.now), state)
	}
	verdict := "sound: the file is whole and the books balance"
	if !h.Sound {
		verdict = "not sound"
	}
	_, err := io.WriteString(w, b.String()+verdict+"\n")
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
