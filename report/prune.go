package report

import (
	"fmt"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Pruned is what prune deleted: the document of `prune --json`.
type Pruned struct {
	SchemaVersion    int     `json:"schema_version"`
	DryRun           bool    `json:"dry_run"`
	OlderThanSeconds float64 `json:"older_than_seconds"`
	Done             int64   `json:"done"`
	Dropped          int64   `json:"dropped"`
	Runs             *int    `json:"runs"`    // null: a part of the items was meant, and runs stay
	Stopped          bool    `json:"stopped"` // by a signal, before it was through
}

// NewPruned renders what went; runs is nil when they were not to.
func NewPruned(p store.Pruned, runs *int, olderThan time.Duration, dryRun, stopped bool) Pruned {
	return Pruned{SchemaVersion: SchemaVersion, DryRun: dryRun, OlderThanSeconds: olderThan.Seconds(), Done: p.Done, Dropped: p.Dropped, Runs: runs, Stopped: stopped}
}

// Summary is that on one line.
func (p Pruned) Summary() string {
	s := fmt.Sprintf("pruned %d done, %s", p.Done, jobs.Count(p.Dropped, "dropped item"))
	if p.Runs != nil {
		s += ", " + jobs.Count(*p.Runs, "run")
	}
	if p.DryRun {
		s = "dry run: " + s
	}
	return s
}

// Consequences say what is so from now on.
func (p Pruned) Consequences() []string {
	if p.DryRun || p.Done+p.Dropped == 0 {
		return nil
	}
	lines := []string{"the database does not shrink: the room is used again"}
	if p.Done > 0 {
		lines = append(lines, "the keys of done items that went are no longer known: enqueued again, they are done again")
	}
	return lines
}
