package lease

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"batchq/jobs"
)

// A full disk or a lock that stays for hours is told once when it begins and
// once when it is over, not at every beat.
func TestHeartbeat_SaysOnce(t *testing.T) {
	down := func(since time.Duration) bool {
		return since > time.Minute && since < 5*time.Minute || since > 8*time.Minute
	}
	beating(t, down, func(b *bundle, r *rescuer, _ *beats) {
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		var said []string
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, n := range r.notes {
			if text, about := strings.CutPrefix(n.Text, "the lease "); about && n.Level == jobs.NoteInfo {
				said = append(said, text)
			}
		}
		const cannot, can = "could not be renewed, trying again: the database is locked", "is renewed again"
		if want := []string{cannot, can, cannot}; !slices.Equal(said, want) {
			t.Errorf("it says %q, want %q", said, want)
		}
	})
}
