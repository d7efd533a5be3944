package cmd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// killedEnqueue starts an enqueue of keys, kills it at a random moment within
// span, and says whether it was killed before its end.
func (s *site) killedEnqueue(span time.Duration, list string, args ...string) bool {
	s.Helper()
	c := s.command(args...)
	c.Stdin = strings.NewReader(list)
	p := s.start(c)
	time.Sleep(time.Duration(s.rand.Int64N(int64(span))))
	p.kill()
	return p.wait().code != 0
}

// "Locked" was answered after the commit, and the caller sent it all again
// (murmur#122). Here enqueue is killed at random moments, also before the
// database is there, and given again: no duplicates, no key missing.
func TestQueues_EnqueueKilled(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = 5000
	list := strings.Join(sequence(n), "\n")
	begin := time.Now()
	s.enqueue("whole", sequence(n))
	span := time.Since(begin) // so that most kills come before the end, on any machine
	killed, rounds := 0, short(10, 50)
	for round := range rounds {
		line := []string{"enqueue", "j", "--scope", fmt.Sprint(round)}
		if s.killedEnqueue(span, list, line...) {
			killed++
		}
		r := s.batchq(list, line...)
		s.expect(r, 0, line...)
		var added, duplicate int
		if _, err := fmt.Sscanf(r.stdout, "added %d, duplicate %d,", &added, &duplicate); err != nil || added+duplicate != n {
			t.Fatalf("%v: %s", err, r)
		}
	}
	t.Logf("%d of %d were killed before their end", killed, rounds)
	s.wantTotals(map[string]int{"ready": (rounds + 1) * n})
	s.tidy()
	for range short(5, 20) {
		s := s.elsewhere()
		s.killedEnqueue(30*time.Millisecond, "a\nb", "enqueue", "j") // often while it makes the file
		s.expect(s.batchq("a\nb", "enqueue", "j"), 0)
		s.wantTotals(map[string]int{"ready": 2})
		s.tidy()
	}
}

// elsewhere is the same site with a database of its own.
func (s *site) elsewhere() *site {
	s.Helper()
	other := *s
	other.dir = s.TempDir()
	other.db = other.dir + "/q.db"
	s.Cleanup(other.killAll)
	return &other
}

// Too many variables in one statement (scrutineer#124, exqlite#129): any number
// of lines and of IDs goes through bounded transactions, and what was killed
// half way is completed by the same command.
func TestQueues_Many(t *testing.T) {
	t.Parallel()
	s := setup(t)
	n, ids := short(40_000, 200_000), short(10_000, 50_000)
	list := strings.Join(sequence(n), "\n")
	c := s.command("enqueue", "j", "--delay", "1h")
	c.Stdin = strings.NewReader(list)
	p := s.start(c)
	s.until("half of it is in", func() bool {
		r := s.batchq("", "stats", "--json")
		return r.code == 0 && s.totals()["enqueued"] >= n/2 || p.ended()
	})
	p.kill()
	s.expect(s.batchq(list, "enqueue", "j", "--delay", "1h"), 0)
	s.wantTotals(map[string]int{"delayed": n})

	line := append([]string{"requeue", "--state", "delayed"}, s.delayedIDs(ids)...)
	p = s.start(s.command(line...))
	s.until("some are moved", func() bool { return s.totals()["ready"] >= ids/4 || p.ended() })
	p.kill()
	moved := s.totals()["ready"]
	// Those that were moved already are ready now, and said to be.
	r := s.batchq("", line...)
	if want := fmt.Sprintf("requeued %d, refused %d\n", ids-moved, moved); moved > 0 && (r.code != 3 || r.stdout != want) {
		t.Errorf("want %q: %s", want, r)
	}
	s.wantTotals(map[string]int{"ready": ids, "delayed": n - ids})
	// By selection the same command goes on where it was.
	p = s.start(s.command("requeue", "--state", "delayed"))
	s.until("more are moved", func() bool { return s.totals()["ready"] > ids || p.ended() })
	p.kill()
	s.want(0, "requeue", "--state", "delayed")
	s.wantTotals(map[string]int{"ready": n})
	s.tidy()
}

// delayedIDs are the IDs of the first delayed items.
func (s *site) delayedIDs(limit int) (ids []string) {
	s.Helper()
	for _, it := range s.items(delayed(limit)) {
		ids = append(ids, fmt.Sprint(it.ID))
	}
	return ids
}
