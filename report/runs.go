package report

import (
	"strings"
	"time"

	"batchq/store"
)

// Life says whether a run that has not written its end still lives.
type Life string

const (
	Alive   Life = "alive"
	Dead    Life = "dead"    // the next run takes over what it held
	Unknown Life = "unknown" // in another pid namespace: only its lease can tell
)

// RunStats is one run that has not written its end.
type RunStats struct {
	ID      int64    `json:"id"`
	PID     int      `json:"pid"`
	Host    string   `json:"host"`
	State   Life     `json:"state"`
	Started string   `json:"started"`
	Command []string `json:"command"`
	since   time.Time
}

func runStats(runs []store.RunInfo, life map[int64]Life) []RunStats {
	out := make([]RunStats, 0, len(runs))
	for _, r := range runs {
		one := RunStats{ID: r.ID, PID: r.PID, Host: escapeInvalid(r.Host), State: Unknown, Started: timestamp(r.Started), Command: []string{}, since: r.Started}
		if l, ok := life[r.ID]; ok {
			one.State = l
		}
		for _, word := range r.Command {
			one.Command = append(one.Command, escapeInvalid(word))
		}
		out = append(out, one)
	}
	return out
}

// commandShown is how much of a command line fits a table.
const commandShown = 60

func (r RunStats) command() string {
	return Short("batchq "+strings.Join(r.Command, " "), commandShown)
}
