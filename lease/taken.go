package lease

import (
	"fmt"
	"strings"

	"batchq/jobs"
	"batchq/store"
)

// takenOver says what was taken over from a run, and no word of what there was
// not: sum has something.
func takenOver(o store.OtherRun, sum store.Taken) string {
	var parts []string
	if sum.Freed > 0 {
		parts = append(parts, jobs.Count(sum.Freed, "unstarted item")+" taken back")
	}
	switch {
	case sum.Orphans == 0:
	case o.Ended && o.ID != 0 && !o.Foreign:
		// It has left by itself, and what it had started was settled before: it
		// waited for the end of what another run had started.
		parts = append(parts, jobs.Count(sum.Orphans, "item")+" taken over that a dead run's processes may still hold")
	case sum.Freed > 0:
		parts = append(parts, fmt.Sprintf("%d that had started", sum.Orphans))
	default:
		parts = append(parts, jobs.Count(sum.Orphans, "item")+" taken back that had started")
	}
	who := fmt.Sprintf("run %d is dead", o.ID)
	switch {
	case o.ID == 0:
		who = "a claim was missing"
	case o.Foreign:
		who = fmt.Sprintf("run %d worked another file, of which this one is a copy", o.ID)
	case o.Ended:
		who = fmt.Sprintf("run %d has ended", o.ID)
	}
	return who + ": " + strings.Join(parts, ", ")
}
