package report

import (
	"testing"

	"batchq/jobs"
	"batchq/store"
)

// Nothing ends the pause of everything alone: what else goes with it is said.
func TestShow_ResumeAll(t *testing.T) {
	all, lane, job := store.Pause{}, store.Pause{Target: store.Target{Lane: "serial"}}, store.Pause{Target: store.Target{Job: "other"}}
	for _, c := range []struct {
		pauses []store.Pause
		want   string
	}{
		{[]store.Pause{all}, "to end that"},
		{[]store.Pause{all, lane}, "to end that, and the other pause that there is"},
		{[]store.Pause{all, lane, job}, "to end that, and the 2 other pauses that there are"},
	} {
		s := newShown(jobs.Ready)
		s.Pauses = c.pauses
		why := NewShow(&s.Story, s.Around, noon).Why
		if len(why) != 1 || len(why[0].Hints) != 1 || why[0].Hints[0] != (Hint{To: c.want, Command: "batchq resume --all"}) {
			t.Errorf("%+v, want %q", why, c.want)
		}
	}
}
