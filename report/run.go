package report

// NewRan is the document of run --json: what became of the list, and what the
// run then did; w is nil where nothing was worked.
func NewRan(added Enqueued, w *Work) any {
	out := struct {
		SchemaVersion int         `json:"schema_version"`
		Enqueued      Enqueued    `json:"enqueued"` // as enqueue --json
		Worked        *workedJSON `json:"worked"`   // as work --json
	}{SchemaVersion, added, nil}
	if w != nil {
		done := worked(*w)
		out.Worked = &done
	}
	return out
}

// NewRanDry is the document of run --dry-run --json: what would become of the
// list, and what would then run.
func NewRanDry(added Enqueued, p PlannedJob) any {
	return struct {
		SchemaVersion int        `json:"schema_version"`
		Enqueued      Enqueued   `json:"enqueued"` // as enqueue --dry-run --json
		Planned       PlannedJob `json:"planned"`  // as one of the jobs of work --dry-run --json
	}{SchemaVersion, added, p.escaped()}
}
