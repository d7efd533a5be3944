package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
	"batchq/store/sqlite"
)

// frozenLoad is a load of command lines whose every process can be stopped at
// once.
type frozenLoad struct {
	*site
	gate    sync.RWMutex // held for reading while a process begins, so that none begins while all are stopped
	stop    chan struct{}
	running sync.WaitGroup

	mu    sync.Mutex
	acked []string // scope and key of what an enqueue that has ended with 0 was given
}

// again runs command lines one after another until the load stops.
func (l *frozenLoad) again(next func(round int) (line []string, stdin string, ended func())) {
	l.running.Go(func() {
		for round := 0; ; round++ {
			select {
			case <-l.stop:
				return
			default:
			}
			line, stdin, ended := next(round)
			c := l.command(line...)
			var out bytes.Buffer
			c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &out
			l.gate.RLock()
			err := c.Start()
			l.gate.RUnlock()
			if err == nil {
				err = c.Wait()
			}
			if code := c.ProcessState.ExitCode(); err != nil && code != 75 {
				l.Errorf("%v: %v\n%s", line, err, out.String())
				return
			}
			ended()
		}
	})
}

// frozen stops every process of the site, calls f, and lets them go on.
func (l *frozenLoad) frozen(f func()) {
	l.Helper()
	l.gate.Lock()
	defer l.gate.Unlock()
	pids := map[int]bool{}
	goOn := func() {
		for pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may be gone
		}
		clear(pids)
	}
	defer goOn()
	pass := 0
	l.until("all are stopped", func() bool {
		all := true
		for _, pid := range l.alive() {
			if !atRest(pid) {
				all = false // it may make another one before it is stopped
				pids[pid] = true
				_ = syscall.Kill(pid, syscall.SIGSTOP) // it may be gone
			}
		}
		// One that waits for its child to begin can't be stopped while that is.
		if pass++; !all && pass%50 == 0 {
			goOn()
		}
		return all
	})
	f()
}

// atRest says whether no thread of a process runs now.
func atRest(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		_, state, _ := bytes.Cut(stat, []byte(") "))
		if err == nil && !bytes.HasPrefix(state, []byte("T")) && !bytes.HasPrefix(state, []byte("Z")) {
			return false
		}
	}
	return true
}

// What lies on the disk at any moment is a whole database, with everything in
// it that was acknowledged: while two enqueue and two work, all are stopped at
// a random moment, and the file and its log are copied as after a power cut.
func TestFile_CopiedAtRandom(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nsay end\n")
	s.enqueue("j", []string{"first"})
	l := &frozenLoad{site: s, stop: make(chan struct{})}
	for i := range 2 {
		l.again(func(round int) ([]string, string, func()) {
			scope := fmt.Sprintf("%d-%d", i, round)
			keys := sequence(1 + round%7*5)
			for k := range keys {
				keys[k] = scope + "-" + keys[k]
			}
			return []string{"enqueue", "j", "--scope", scope}, strings.Join(keys, "\n"), func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				for _, key := range keys {
					l.acked = append(l.acked, scope+" "+key)
				}
			}
		})
		l.again(func(int) ([]string, string, func()) {
			return []string{"work", "j", "--lane", "parallel", "-j", "4", "--limit", "50", "--", "./item.sh"}, "", func() {}
		})
	}
	rounds := short(5, 20)
	var most, added, done int
	for round := range rounds {
		time.Sleep(time.Duration(s.rand.Int64N(int64(300 * time.Millisecond)))) // the random moment
		dir := filepath.Join(s.dir, fmt.Sprintf("copy-%d", round))
		s.must(os.Mkdir(dir, 0o700))
		l.mu.Lock()
		acked := l.acked[:len(l.acked):len(l.acked)]
		l.mu.Unlock()
		was := s.items(store.Selection{States: []jobs.State{jobs.Done}})
		l.frozen(func() {
			for _, suffix := range []string{"", "-wal"} {
				out, err := exec.Command("cp", s.db+suffix, dir).CombinedOutput()
				if _, gone := os.Stat(s.db + suffix); err != nil && gone == nil {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
		most = max(most, int(sizeAt(filepath.Join(dir, "q.db-wal"))))
		s.holds(filepath.Join(dir, "q.db"), acked, was)
		added, done = len(acked), len(was)
		s.must(os.RemoveAll(dir))
	}
	close(l.stop)
	l.running.Wait()
	s.want(0, "work", "j", "--wait", "--lane", "parallel", "-j", "4", "--", "true")
	s.wantTotals(map[string]int{"done": len(l.acked) + 1})
	s.notBeside(s.log())
	t.Logf("%d copies, the last with %d acknowledged and %d done; their logs had at most %d bytes", rounds, added, done, most)
	if most == 0 {
		t.Error("no copy had a log")
	}
	s.tidy()
}

// holds checks that a copy is sound and has what had been acknowledged.
func (s *site) holds(path string, acked []string, done []store.ItemRow) {
	s.Helper()
	if r := s.batchq("", "--db", path, "doctor"); r.code != 0 || !strings.Contains("\n"+r.stdout, "\nsound: ") {
		s.Errorf("doctor on a copy: %s", r)
	}
	db, err := sqlite.Open(s.Context(), path, sqlite.Options{})
	s.must(err)
	rows, err := db.Items(s.Context(), store.Selection{})
	s.must(errors.Join(err, db.Close()))
	there, state := map[string]bool{}, map[int64]jobs.State{}
	for _, it := range rows {
		there[it.Scope+" "+string(it.Key)], state[it.ID] = true, it.State
	}
	for _, key := range acked {
		if !there[key] {
			s.Errorf("%s was acknowledged and is not in the copy", key)
		}
	}
	for _, it := range done {
		if state[it.ID] != jobs.Done {
			s.Errorf("item %d was done and is %s in the copy", it.ID, state[it.ID])
		}
	}
}

// sizeAt is a file's size, 0 where there is none.
func sizeAt(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
