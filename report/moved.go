package report

import (
	"fmt"

	"batchq/store"
)

// Moving says what a person asked for.
type Moving struct {
	Word   string // "requeued", "dropped"
	From   string // the states that were meant, for a sentence
	DryRun bool
}

// Moved is what requeue or drop did: the document of their --json.
type Moved struct {
	SchemaVersion int         `json:"schema_version"`
	Action        string      `json:"action"` // "requeued" or "dropped"
	DryRun        bool        `json:"dry_run"`
	Moved         int         `json:"moved"`
	From          []MovedFrom `json:"from"` // what they were: its sum is moved
	Refused       int         `json:"refused"`
	Refusals      []Refusal   `json:"refusals"`
	moving        Moving
}

// MovedFrom is how many of the moved items of one job were in one state.
type MovedFrom struct {
	Job   string `json:"job"`
	State string `json:"state"`
	Items int    `json:"items"`
}

// Refusal is one item that is as it was.
type Refusal struct {
	ID     int64  `json:"id"`
	Reason string `json:"reason"`
}

// NewMoved renders what became of the items.
func NewMoved(m Moving, moved store.Moved) Moved {
	out := Moved{SchemaVersion: SchemaVersion, Action: m.Word, DryRun: m.DryRun, Moved: moved.Moved, From: []MovedFrom{},
		Refused: len(moved.Refused), Refusals: []Refusal{}, moving: m}
	for _, f := range moved.From {
		out.From = append(out.From, MovedFrom{f.Job, f.State.String(), f.Items})
	}
	for _, r := range moved.Refused {
		out.Refusals = append(out.Refusals, Refusal{ID: r.ID, Reason: escapeInvalid(r.Reason)})
	}
	return out
}

// Lines names the refused items: at most Named of them, then a count.
func (m Moved) Lines() []string {
	var lines []string
	for _, r := range m.Refusals[:min(len(m.Refusals), Named)] {
		lines = append(lines, fmt.Sprintf("refused: item %d: %s", r.ID, r.Reason))
	}
	if more := len(m.Refusals) - Named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more refused", more))
	}
	return lines
}

// Summary is one line for people and logs. That of a dry run is followed by a
// line for each job and state, as nothing else says what is about to move.
func (m Moved) Summary() []string {
	s := fmt.Sprintf("%s %d", m.Action, m.Moved)
	if m.Refused > 0 {
		s += fmt.Sprintf(", refused %d", m.Refused)
	}
	if m.Moved+m.Refused == 0 {
		s += ": no item matches that is " + m.moving.From
	}
	if !m.DryRun {
		return []string{s}
	}
	lines := []string{"dry run: " + s}
	for _, f := range m.From {
		lines = append(lines, fmt.Sprintf("  %s: %d %s", f.Job, f.Items, f.State))
	}
	return lines
}
