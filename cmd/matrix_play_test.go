package cmd

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"batchq/jobs"
	"batchq/store"
)

// faultyBinary is the program that dies when it is told to, built once a test
// process, beside the one that does not.
var faultyBinary = sync.OnceValues(func() (string, error) {
	beside, err := exec.LookPath("batchq")
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(beside), "built", "batchq-faults")
	out, err := exec.Command("go", "build", "-tags", "faults", "-o", path, "..").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// setupFaulty is setup with that program.
func setupFaulty(t *testing.T) *site {
	t.Helper()
	s := setup(t)
	var err error
	s.self, err = faultyBinary()
	s.must(err)
	return s
}

// step is one command line of a scenario.
type step struct {
	args  []string
	stdin string
	// ends are the statuses with which it is through; nil: 0. Killed, or with
	// 75, the same line is given again.
	ends []int
	// prepare happens before it; meanwhile beside it, the first time.
	prepare   func(*site)
	meanwhile func(*site, *started)
	// only are beginnings of the moments at which it is killed; nil: at all.
	only []string
	// damaged: the database is not sound until it is through.
	damaged bool
	// anew: it asks for what is done already to be done once more.
	anew bool
}

// scenario is what somebody does on a new site, and what has come of it then,
// whenever one of the command lines was killed and given again.
type scenario struct {
	name   string
	files  map[string]string
	steps  []step
	totals map[string]int
	// spare is how many more attempts than without a kill there may be.
	spare int
}

// cell is one scenario with a death in it: at the nth time that a step is at
// a moment.
type cell struct {
	*scenario
	step   int
	moment string
	nth    int
}

func (c cell) String() string {
	return fmt.Sprintf("%s/%d-%s/%s:%d", c.name, c.step+1, c.steps[c.step].args[0], c.moment, c.nth)
}

// played is what a scenario was like.
type played struct {
	moments []map[string]int // by step: how often each was reached
	starts  int              // attempts
	struck  bool             // the cell's moment came
}

// play goes through a scenario without a fault and takes down which moments
// it reaches.
func (sc *scenario) play(t *testing.T) (out played) {
	s := setupFaulty(t)
	sc.furnish(s)
	for i, st := range sc.steps {
		trace := fmt.Sprintf("trace.%d", i)
		s.expectOneOf(s.do(st, true, "BATCHQ_FAULT_TRACE="+filepath.Join(s.dir, trace)), st)
		reached := map[string]int{}
		for _, moment := range s.lines(trace) {
			reached[moment]++
		}
		out.moments = append(out.moments, reached)
	}
	out.starts = s.count("start")
	s.looksWell(sc, nil)
	return out
}

// suffer goes through a scenario with the cell's death in it.
func (c cell) suffer(t *testing.T, clean played) (out played) {
	s := setupFaulty(t)
	c.furnish(s)
	var before []finished
	for i, st := range c.steps {
		if st.anew {
			s.notAgain(s.log(), before)
			before = nil
		}
		if i != c.step {
			s.expectOneOf(s.do(st, true), st)
			continue
		}
		r := s.do(st, true, fmt.Sprintf("BATCHQ_FAULT=%s:%d", c.moment, c.nth))
		if out.struck = r.code == 128+int(syscall.SIGKILL); !out.struck {
			s.expectOneOf(r, st)
			continue
		}
		before = append(before, s.autopsy(st))
		for tries := 1; tries == 1 || r.code == int(exitLeft) && !slices.Contains(st.through(), r.code); tries++ {
			if r = s.do(st, false); tries > 5 || strings.Contains(r.stderr, "goroutine ") {
				s.Fatalf("the same line, time %d: %s", tries, r)
			}
		}
		s.expectOneOf(r, st)
	}
	s.looksWell(c.scenario, before)
	if out.starts = s.count("start"); out.starts > clean.starts+c.spare {
		s.Errorf("%d attempts, and without the kill %d: more than what was at work was done again", out.starts, clean.starts)
	}
	return out
}

func (sc *scenario) furnish(s *site) {
	s.write("item.sh", item)
	for name, text := range sc.files {
		s.write(name, text)
	}
}

// do runs a step's command line, prepared if it is the first time.
func (s *site) do(st step, first bool, env ...string) result {
	s.Helper()
	if first && st.prepare != nil {
		st.prepare(s)
	}
	c := s.command(st.args...)
	c.Env = append(c.Env, env...)
	c.Stdin = strings.NewReader(st.stdin)
	p := s.start(c)
	if first && st.meanwhile != nil {
		st.meanwhile(s, p)
	}
	return p.wait()
}

func (st step) through() []int {
	if st.ends == nil {
		return []int{0}
	}
	return st.ends
}

func (s *site) expectOneOf(r result, st step) {
	s.Helper()
	if !slices.Contains(st.through(), r.code) {
		s.Fatalf("batchq %s: want exit %v, got %s", strings.Join(st.args, " "), st.through(), r)
	}
}

// autopsy looks at what a killed command left: the books must balance at any
// moment. It returns what was recorded as done.
func (s *site) autopsy(st step) finished {
	s.Helper()
	f := finished{keys: map[string]bool{}, from: len(s.lines("log"))}
	copied := s.copied()
	if copied == "" {
		return f
	}
	if r := s.batchq("", "--db", copied, "doctor"); r.code != 0 && !st.damaged {
		s.Errorf("after the kill: doctor: %s", r)
	}
	for _, key := range s.keysIn(copied, "state = 4") {
		f.keys[key] = true
	}
	s.must(os.RemoveAll(filepath.Dir(copied)))
	return f
}

// copied is a copy of the database with its log, taken while nobody has it
// open: to look at it there, so that the next command finds all of it as it
// lay. "" where there is none.
func (s *site) copied() string {
	s.Helper()
	if _, err := os.Stat(s.db); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	dir, err := os.MkdirTemp(s.dir, "copied")
	s.must(err)
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.db + suffix)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "q.db"+suffix), data, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Fatal(err)
		}
	}
	return filepath.Join(dir, "q.db")
}

// keysIn lists the keys of a database's items of which a condition is true.
func (s *site) keysIn(path, condition string) (keys []string) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	s.must(err)
	rows, err := db.Query("SELECT key FROM item WHERE " + condition)
	s.must(err)
	for rows.Next() {
		var key []byte
		s.must(rows.Scan(&key))
		keys = append(keys, string(key))
	}
	s.must(errors.Join(rows.Err(), db.Close()))
	return keys
}

// looksWell checks the end of a scenario from outside and from inside.
func (s *site) looksWell(sc *scenario, before []finished) {
	s.Helper()
	events := s.log()
	s.notBeside(events)
	s.notAgain(events, before)
	s.wantTotals(sc.totals)
	ends := runs(events, "end")
	for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
		if ends[string(it.Key)] == 0 {
			s.Errorf("%s is done, and its command never came to its end", it.Key)
		}
	}
	s.tidy()
	s.noDraft()
}

// noDraft checks that nothing hidden is left of what was begun and given up.
func (s *site) noDraft() {
	s.Helper()
	hidden, err := filepath.Glob(filepath.Join(s.dir, ".*"))
	s.must(err)
	for _, path := range hidden {
		s.Errorf("%s is left", path)
	}
}
