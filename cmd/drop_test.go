package cmd

import (
	"strings"
	"syscall"
	"testing"
)

// A dry run says of each item what the command itself says then, with the same
// status: also of one that only a dead run's left-over still holds.
func TestDropAndRequeue_DryRun(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"held", "ready", "dropped"})
	p := s.running("work", "j", "--limit", "1", "--", "sh", "-c", "echo $$ > pid; exec sleep 1000")
	pid := s.pidIn("pid")
	p.kill()
	s.until("it began elsewhere", func() bool { return s.sql("UPDATE run SET pid_ns = 'pid:[1]'") })
	s.want(75, "work", "j", "--limit", "1", "--", "true")
	s.want(0, "drop", "3")
	for _, args := range [][]string{
		{"requeue", "1"}, {"requeue", "2"}, {"requeue", "3", "9"}, {"requeue", "2", "--state", "done", "--yes"},
		{"drop", "3"}, {"drop", "9"}, {"drop", "1", "2", "3"}, {"drop", "1"},
	} {
		for _, json := range []bool{false, true} {
			if json {
				args = append(args, "--json")
			}
			dry := s.batchq("", append([]string{args[0], "--dry-run"}, args[1:]...)...)
			again := s.batchq("", append([]string{args[0], "--dry-run"}, args[1:]...)...)
			if dry.stdout != again.stdout || dry.code != again.code {
				t.Errorf("%q: it has changed something: %v, then %v", args, dry, again)
			}
			if !json {
				continue // the command itself is asked once
			}
			real := s.batchq("", args...)
			plain := strings.Replace(dry.stdout, `"dry_run": true`, `"dry_run": false`, 1)
			if dry.code != 0 || plain != real.stdout || dry.stderr != real.stderr {
				t.Errorf("%q: the dry run says %v, and the command %v", args, dry, real)
			}
		}
	}
	if r := s.batchq("", "drop", "1", "--dry-run"); !strings.Contains(r.stderr, "refused: item 1: it was dropped: enqueue it again") {
		t.Errorf("it was not dropped: %v", r)
	}
	s.must(syscall.Kill(pid, syscall.SIGKILL))
	s.gone(pid)
	s.tidy()
}
