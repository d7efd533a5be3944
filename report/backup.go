package report

import (
	"fmt"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Backup is a copy that was made: the document of `backup --json`.
type Backup struct {
	SchemaVersion int        `json:"schema_version"`
	Path          string     `json:"path"`
	Bytes         int64      `json:"bytes"`
	Items         int64      `json:"items"`
	Runs          []RunStats `json:"runs"` // that had not written their end when it was made
	now           time.Time
}

// NewBackup renders what was copied.
func NewBackup(c store.Copied, life map[int64]Life, now time.Time) Backup {
	return Backup{SchemaVersion: SchemaVersion, Path: escapeInvalid(c.Path), Bytes: c.Bytes, Items: c.Items, Runs: runStats(c.Runs, life), now: now}
}

// Summary is what was written, on one line.
func (b Backup) Summary() string {
	return fmt.Sprintf("%s: %s, %s; the copy was examined and is sound", b.Path, jobs.Count(b.Items, "item"), size(b.Bytes))
}

// Lines say of each run what the copy shows of it.
func (b Backup) Lines() (lines []string) {
	for _, r := range b.Runs {
		who := fmt.Sprintf("run %d (pid %d, since %s)", r.ID, r.PID, Moment(r.since, b.now))
		switch r.State {
		case Dead:
			lines = append(lines, who+" is dead: in the copy too what it held is held, until a run takes it back")
		case Unknown:
			lines = append(lines, who+" may be at work: in the copy what it holds is held too; a run on the copy takes it back and touches nothing of the original")
		default:
			lines = append(lines, who+" is at work: in the copy what it holds is held too; a run on the copy takes it back and touches nothing of the original")
		}
	}
	return lines
}
