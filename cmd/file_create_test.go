package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Twenty that begin at once where no database is: one makes it, all keys are
// in it, nobody is told anything, and no draft is left.
func TestFile_CreatedByManyAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	for round := range short(3, 15) {
		s := s.elsewhere()
		if round%3 == 2 {
			s.must(os.WriteFile(s.db, nil, 0o600)) // an empty file counts as none
		}
		const n = 20
		var all [n]*started
		for i := range all {
			all[i] = s.start(s.command("enqueue", "j", "--item", fmt.Sprint("key ", i)))
		}
		for _, p := range all {
			if r := p.wait(); r.code != 0 || r.stdout != "added 1, duplicate 0, conflict 0, dead 0, rejected 0\n" || r.stderr != "" {
				t.Errorf("round %d, %v: %s", round, p.cmd.Args[1:], r)
			}
		}
		s.wantTotals(map[string]int{"ready": n})
		s.sound()
		if left, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil || len(left) != 1 {
			t.Errorf("round %d: left %q, %v", round, left, err)
		}
		if left, err := filepath.Glob(filepath.Join(s.dir, ".*")); err != nil || len(left) > 0 {
			t.Errorf("round %d: left %q, %v", round, left, err)
		}
	}
}
