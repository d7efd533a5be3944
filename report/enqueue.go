package report

import (
	"fmt"
	"strings"

	"batchq/store"
)

const (
	// Named is how many records of a kind are named one by one to a person.
	Named = 10
	// NamedInJSON is the same for a program.
	NamedInJSON = 1000
	// keyWidth is how much of a key or reason is shown in a sentence.
	keyWidth = 200
)

// Enqueued is what became of a list: the document of `enqueue --json`.
type Enqueued struct {
	SchemaVersion int    `json:"schema_version"`
	Job           string `json:"job"`
	Scope         string `json:"scope"`
	DryRun        bool   `json:"dry_run"`
	Read          int64  `json:"read"`
	Added         int64  `json:"added"`
	Duplicate     int64  `json:"duplicate"`
	DuplicateDone int64  `json:"duplicate_done"` // among duplicate
	Conflict      int64  `json:"conflict"`
	Dead          int64  `json:"dead"`
	Rejected      int64  `json:"rejected"`
	Replaced      int64  `json:"replaced"`
	Requeued      int64  `json:"requeued"`
	// The first of those that did not go in, at most NamedInJSON of a kind.
	Rejects   []RejectedRecord `json:"rejects"`
	Conflicts []NamedRecord    `json:"conflicts"`
	InDLQ     []NamedRecord    `json:"in_dlq"`
	StoppedAt *NamedRecord     `json:"stopped_at"` // with --on-duplicate fail
}

// RejectedRecord is a record that can't become an item.
type RejectedRecord struct {
	File   string `json:"file"`
	Line   int64  `json:"line"`
	Reason string `json:"reason"`
}

// NamedRecord is a record that did not go in because of what is there.
type NamedRecord struct {
	File string `json:"file"`
	Line int64  `json:"line"`
	Key
}

// NewEnqueued renders what a feed did.
func NewEnqueued(f *store.Feed, fed store.Fed) Enqueued {
	e := Enqueued{
		SchemaVersion: SchemaVersion, Job: f.Job, Scope: escapeInvalid(f.Scope), DryRun: f.DryRun, Read: fed.Read,
		Added: fed.Added, Duplicate: fed.Duplicate, DuplicateDone: fed.DuplicateDone, Conflict: fed.Conflict,
		Dead: fed.Dead, Rejected: fed.Rejected, Replaced: fed.Replaced, Requeued: fed.Requeued,
		Rejects: []RejectedRecord{}, Conflicts: namedRecords(fed.Conflicts), InDLQ: namedRecords(fed.InDLQ),
	}
	for _, r := range fed.Rejects {
		e.Rejects = append(e.Rejects, RejectedRecord{escapeInvalid(r.Name), r.Line, escapeInvalid(r.Reason)})
	}
	if fed.Stop != nil {
		e.StoppedAt = &namedRecords([]store.Named{*fed.Stop})[0]
	}
	return e
}

// Feeding is how far a list has gone in; share is how much of it has been read,
// 0 where nobody knows.
func Feeding(fed store.Fed, share float64) Standing {
	return Standing{Unit: "record", Done: fed.Read, Share: share, Mine: fed.Read,
		Troubles: []Trouble{{fed.Rejected, "rejected"}, {fed.Conflict, "in conflict"}, {fed.Dead, "dead"}}}
}

func namedRecords(list []store.Named) []NamedRecord {
	out := make([]NamedRecord, 0, len(list))
	for _, n := range list {
		out = append(out, NamedRecord{escapeInvalid(n.Name), n.Line, NewKey(n.Key)})
	}
	return out
}

// Summary is one line for people and logs. Its five words are always there.
func (e Enqueued) Summary() string {
	s := fmt.Sprintf("added %d, duplicate %d, conflict %d, dead %d, rejected %d", e.Added, e.Duplicate, e.Conflict, e.Dead, e.Rejected)
	if e.Replaced > 0 {
		s += fmt.Sprintf(", replaced %d", e.Replaced)
	}
	if e.Requeued > 0 {
		s += fmt.Sprintf(", requeued %d", e.Requeued)
	}
	if e.DryRun {
		s = "dry run: " + s
	}
	return s
}

// Stopped says where --on-duplicate fail has ended the list.
func (e Enqueued) Stopped() string {
	at := e.StoppedAt
	return fmt.Sprintf("%s:%d: \"%s\" is there already, and --on-duplicate is fail: nothing from here on was tried", at.File, at.Line, Short(at.Key.Key, keyWidth))
}

// AllDoneBefore says that the whole list was done earlier and has no scope:
// whoever enqueues it again probably wants it done again.
func (e Enqueued) AllDoneBefore() bool {
	return e.Read > 0 && e.DuplicateDone == e.Read && e.Scope == ""
}

// Lines names what did not go in: at most Named of each kind, or of all kinds
// together where few is asked for, then a count of the others and the command
// that lists those that can be listed. self is how this program is called.
func (e Enqueued) Lines(few bool, self string) []string {
	var lines []string
	left := map[string]int64{}
	budget := func(n int) int {
		if few {
			return max(0, min(n, Named-len(lines)))
		}
		return min(n, Named)
	}
	n := budget(len(e.Rejects))
	for _, r := range e.Rejects[:n] {
		lines = append(lines, fmt.Sprintf("rejected: %s:%d: %s", r.File, r.Line, Short(r.Reason, keyWidth)))
	}
	left["rejected"] = e.Rejected - int64(n)
	n = budget(len(e.Conflicts))
	for _, r := range e.Conflicts[:n] {
		lines = append(lines, fmt.Sprintf("conflict: %s:%d: \"%s\" is there with another payload", r.File, r.Line, Short(r.Key.Key, keyWidth)))
	}
	left["in conflict"] = e.Conflict - int64(n)
	n = budget(len(e.InDLQ))
	for _, r := range e.InDLQ[:n] {
		lines = append(lines, fmt.Sprintf("dead: %s:%d: \"%s\" is in the dead-letter list", r.File, r.Line, Short(r.Key.Key, keyWidth)))
	}
	left["dead"] = e.Dead - int64(n)
	var more []string
	for _, kind := range []string{"rejected", "in conflict", "dead"} {
		if left[kind] > 0 {
			more = append(more, fmt.Sprintf("%d more %s", left[kind], kind))
		}
	}
	if len(more) > 0 {
		lines = append(lines, "and "+strings.Join(more, ", "))
	}
	if e.Dead > 0 {
		lines = append(lines, fmt.Sprintf("the dead-letter list is shown by: %s dlq list --job %s", self, e.Job))
	}
	return lines
}
