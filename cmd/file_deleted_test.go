package cmd

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"batchq/store"
)

// A process that opened and closed the file dropped the locks of another, the
// log was removed under those who wrote into it, and commits vanished
// (honker#80, mempalace#2471, hermes-agent#109786). Here a run works while
// everything else opens and closes the file; then two do while all of that is
// done at once and killed at random. Nobody ever has a log open that was
// removed, and every item that has ended is recorded as done.
func TestFile_LogNeverRemovedUnderAnybody(t *testing.T) {
	t.Parallel()
	for name, kills := range map[string]bool{"Quiet": false, "Killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("item.sh", logged+"say start\nsleep 0.05\nsay end\n")
			s.enqueue("j", []string{"first"})
			stop := make(chan struct{})
			var running sync.WaitGroup
			var mu sync.Mutex
			rounds, killed := map[string]int{}, 0
			loop := func(next func(round int) (line []string, stdin string)) {
				running.Go(func() {
					for round := 0; ; round++ {
						select {
						case <-stop:
							return
						default:
						}
						line, stdin := next(round)
						c := s.command(line...)
						var out bytes.Buffer
						c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &out
						c.WaitDelay = 2 * time.Second // what a killed run leaves may hold the pipes
						_ = c.Run()                   // the status says it
						mu.Lock()
						rounds[line[0]]++
						if code := c.ProcessState.ExitCode(); code != 0 && code != 75 && (code != -1 || !kills) {
							t.Errorf("%v: exit %d\n%s", line, code, out.String())
						}
						mu.Unlock()
					}
				})
			}
			work := []string{"work", "j", "--lane", "parallel", "-j", "2", "--lease", "2s", "--max-crashes", "1000", "--kill-after", "200ms"}
			enqueue := func(round int) ([]string, string) {
				return []string{"enqueue", "j"}, strings.Join([]string{fmt.Sprint(round, "-a"), fmt.Sprint(round, "-b"), fmt.Sprint(round, "-c")}, "\n")
			}
			others := [][]string{{"stats"}, {"dlq", "list"}, {"doctor", "-q"}, {"requeue", "--all"}}
			worker := func(int) ([]string, string) { return append(work, "--max-runtime", "2s", "--", "./item.sh"), "" }
			loop(worker)
			if kills {
				loop(worker)
				loop(enqueue)
				for _, line := range others {
					loop(func(int) ([]string, string) { return line, "" })
				}
			} else {
				// One after another, so that often the run alone has it open.
				loop(func(round int) ([]string, string) {
					if i := round % (1 + len(others)); i > 0 {
						return others[i-1], ""
					}
					return enqueue(round)
				})
			}
			looks, seen := 0, 0
			for end := time.Now().Add(soakTime(t, 3*time.Second, 10*time.Second)); time.Now().Before(end); looks++ {
				pids := s.alive()
				for _, pid := range pids {
					seen += s.noRemovedLog(pid)
				}
				if kills && len(pids) > 0 && s.rand.IntN(4) == 0 {
					_ = syscall.Kill(pids[s.rand.IntN(len(pids))], syscall.SIGKILL) // it may have ended
					killed++
				}
				time.Sleep(time.Duration(s.rand.Int64N(int64(20 * time.Millisecond)))) // a random moment
			}
			close(stop)
			running.Wait()
			// What was killed before its end is worked now.
			s.want(0, append(work, "--wait", "--", "./item.sh")...)
			ends, done := runs(s.log(), "end"), map[string]bool{}
			for _, key := range s.doneKeys() {
				done[key] = true
			}
			for key := range ends {
				if !done[key] {
					t.Errorf("%s has ended and is not recorded as done", key)
				}
			}
			s.notBeside(s.log())
			if n := len(s.items(store.Selection{})); n != len(done) || n != len(ends) && !kills {
				t.Errorf("%d items, %d done, %d have ended", n, len(done), len(ends))
			}
			t.Logf("%d looks at %d open logs, %d kills, %d items; rounds %v", looks, seen, killed, len(done), rounds)
			if seen == 0 {
				t.Error("nobody was seen with a log open")
			}
			s.tidy()
		})
	}
}

// noRemovedLog checks that a process has no log open that has no name any
// more, and returns how many it has open.
func (s *site) noRemovedLog(pid int) (open int) {
	s.Helper()
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // it may be gone
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		if err != nil || !strings.HasPrefix(target, s.db+"-wal") {
			continue
		}
		open++
		if strings.HasSuffix(target, " (deleted)") {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			s.Errorf("process %d (%q) has %s open", pid, line, target)
		}
	}
	return open
}
