package cmd

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"batchq/store"
)

// soakTime is how long a soak goes on: BATCHQ_TEST_SOAK, as 10m, or a few
// seconds.
func soakTime(t *testing.T, brief, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("BATCHQ_TEST_SOAK")
	if text == "" {
		return time.Duration(short(int(brief), int(usual)))
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// load is command lines that are run again and again, side by side.
type load struct {
	*site
	stop    chan struct{}
	once    sync.Once
	running sync.WaitGroup

	mu     sync.Mutex
	rounds map[string]int   // by what it does
	peaks  map[string]int64 // resident, KiB
}

// end stops the load and waits until the last command line is through.
func (l *load) end() {
	l.once.Do(func() { close(l.stop) })
	l.running.Wait()
}

// again runs a command line until the load stops. make returns the line, its
// input and what is to be done when it has ended; nil: not now.
func (l *load) again(what string, make func(round int) (line []string, stdin string, after func())) {
	l.running.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-l.stop:
				return
			default:
			}
			line, stdin, after := make(round)
			if line == nil {
				time.Sleep(10 * time.Millisecond)
				continue
			}
			c := l.command(line...)
			var out, errs bytes.Buffer
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
			_ = c.Run() // the status says it
			l.look(what, c, out.String(), errs.String())
			if after != nil {
				after()
			}
		}
	})
}

// look checks what a command line has said, and notes what it cost.
func (l *load) look(what string, c *exec.Cmd, out, errs string) {
	said := strings.ToLower(out + errs)
	if code := c.ProcessState.ExitCode(); code != 0 && code != 75 || strings.Contains(said, "lock") || strings.Contains(said, "busy") || strings.Contains(said, "holds the database") {
		l.Errorf("%v: exit %d\n%s%s", c.Args[1:], code, out, errs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rounds[what]++
	if use, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		l.peaks[what] = max(l.peaks[what], use.Maxrss)
	}
}

// Four that enqueue, eight that work, one that looks and one that copies, at
// once: nobody is told of a lock, memory and log stay bounded, and the books
// balance.
func TestSoak_Load(t *testing.T) {
	s := setup(t)
	s.enqueue("j", []string{"first"}, "--scope", "first")
	l := &load{site: s, stop: make(chan struct{}), rounds: map[string]int{}, peaks: map[string]int64{}}
	t.Cleanup(l.end)
	var added, waiting atomic.Int64
	const portion = 1000
	for i := range 4 {
		l.again("enqueue", func(round int) ([]string, string, func()) {
			if waiting.Load() > 5*portion {
				return nil, "", nil // those who work are behind
			}
			waiting.Add(portion)
			return []string{"enqueue", "j", "--scope", fmt.Sprintf("%d-%d", i, round)}, strings.Join(sequence(portion), "\n"), func() { added.Add(portion) }
		})
	}
	for range 8 {
		l.again("work", func(int) ([]string, string, func()) {
			return []string{"work", "j", "--lane", "parallel", "-j", "4", "--limit", "1000", "--", "true"}, "", nil
		})
	}
	l.again("stats", func(int) ([]string, string, func()) { return []string{"stats", "--json"}, "", nil })
	l.again("backup", func(round int) ([]string, string, func()) {
		copied := filepath.Join(s.dir, fmt.Sprintf("copy-%d", round))
		return []string{"backup", copied}, "", func() { _ = os.Remove(copied) }
	})
	var log int64
	end := time.Now().Add(soakTime(t, 3*time.Second, 6*time.Second))
	for next := time.Now(); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if info, err := os.Stat(s.db + "-wal"); err == nil {
			log = max(log, info.Size())
		}
		if time.Now().After(next) {
			waiting.Store(int64(s.totals()["ready"]))
			next = time.Now().Add(time.Second)
		}
	}
	l.end()
	for left := exitLeft; left == exitLeft; { // each within a test's patience
		r := s.batchq("", "work", "j", "--lane", "parallel", "--limit", "5000", "--", "true")
		if left = exitCode(r.code); left != exitLeft {
			s.expect(r, 0)
		}
	}
	s.wantTotals(map[string]int{"done": 1 + int(added.Load())})
	t.Logf("%d items; rounds %v; peak memory in KiB %v; log at most %d bytes", added.Load(), l.rounds, l.peaks, log)
	for what, kib := range l.peaks {
		if kib > 256<<10 {
			t.Errorf("%s took %d KiB", what, kib)
		}
	}
	if log > 256<<20 {
		t.Errorf("the log grew to %d bytes", log)
	}
	for _, what := range []string{"enqueue", "work", "stats", "backup"} {
		if l.rounds[what] == 0 {
			t.Errorf("no %s came to its end", what)
		}
	}
	s.tidy()
}

// Two runs are stopped and continued at random, for longer than their lease
// too: one that does not come back in time is ended, and what it had is worked
// by the other, never beside itself.
func TestSoak_StoppedAndContinued(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nsleep 0.0$((key % 9))\nsay end\n")
	line := []string{"work", "j", "--lane", "parallel", "-j", "3", "--lease", "2s", "--max-crashes", "1000", "--kill-after", "200ms", "--wait", "--", "./item.sh"}
	var two [2]*started
	var added, stops, ended int
	var before []finished
	for end := time.Now().Add(soakTime(t, 6*time.Second, 20*time.Second)); time.Now().Before(end); {
		if added-s.count("end") < 100 {
			var keys []string
			for range 50 {
				added++
				keys = append(keys, fmt.Sprint(added))
			}
			s.enqueue("j", keys)
		}
		i := s.rand.IntN(len(two))
		p := two[i]
		if p == nil || p.ended() {
			if p != nil {
				if r := p.wait(); r.code != 0 && r.code != 128+int(syscall.SIGKILL) {
					t.Errorf("a run ended with %s", r)
				} else if r.code != 0 {
					ended++
				}
			}
			two[i] = s.start(s.command(line...))
			continue
		}
		time.Sleep(time.Duration(s.rand.Int64N(int64(300 * time.Millisecond))))
		_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it may have ended
		stops++
		pause := time.Duration(s.rand.Int64N(int64(500 * time.Millisecond)))
		if s.rand.IntN(6) == 0 {
			pause = 4 * time.Second // twice its lease
		}
		time.Sleep(pause)
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		before = append(before, s.settledBefore())
		if len(before) > 50 {
			before = slices.Delete(before, 0, 25) // every look is compared with all that follows
		}
	}
	for _, p := range two {
		if p != nil {
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			p.wait()
		}
	}
	s.want(0, line...)
	s.wantTotals(map[string]int{"done": added})
	events := s.log()
	s.notBeside(events)
	s.notAgain(events, before)
	if n := len(runs(events, "end")); n != added {
		t.Errorf("%d of %d items have come to an end", n, added)
	}
	for _, it := range s.items(store.Selection{}) {
		if it.Failures > 0 {
			t.Errorf("item %s is charged %d failures", it.Key, it.Failures)
		}
	}
	t.Logf("%d items, %d attempts, %d stops, %d runs ended for a lapsed lease", added, s.count("start"), stops, ended)
	s.tidy()
}
