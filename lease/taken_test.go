package lease

import (
	"testing"

	"batchq/store"
)

func TestTakenOver(t *testing.T) {
	dead := store.OtherRun{RunInfo: store.RunInfo{ID: 2}}
	ended, copied := dead, dead
	ended.Ended, copied.Foreign = true, true
	for _, c := range []struct {
		run             store.OtherRun
		freed, orphaned int
		want            string
	}{
		{dead, 6, 1, "run 2 is dead: 6 unstarted items taken back, 1 that had started"},
		{dead, 1, 0, "run 2 is dead: 1 unstarted item taken back"},
		{dead, 0, 1, "run 2 is dead: 1 item taken back that had started"},
		{dead, 0, 2, "run 2 is dead: 2 items taken back that had started"},
		{ended, 0, 1, "run 2 has ended: 1 item taken over that a dead run's processes may still hold"},
		{copied, 1, 2, "run 2 worked another file, of which this one is a copy: 1 unstarted item taken back, 2 that had started"},
		{store.OtherRun{Ended: true}, 0, 1, "a claim was missing: 1 item taken back that had started"},
	} {
		if got := takenOver(c.run, store.Taken{Freed: c.freed, Orphans: c.orphaned}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
