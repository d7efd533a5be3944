package cmd

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// siege is a database that lives on while whatever works on it is killed.
type siege struct {
	*site
	round int
	keys  int                 // names given so far
	sent  map[string][]string // by job: the keys of every list
	there map[string]bool     // keys whose enqueue was told that they are in the list
	done  map[string]bool     // keys seen recorded as done
	read  int                 // lines of the log looked at
	kills struct{ commands, children int }
}

// besieged is a command that now and then fails, or is set aside until the
// file mended is there.
const besieged = logged + `say start
case $key in
*3) [ -e "once.$key" ] || { : >"once.$key"; exit 75; } ;;
*5) sleep 0.1 ;;
*9) [ -e mended ] || exit 65 ;;
esac
say end
`

// TestRandomKills lets producers, runs and who looks after the list work on one
// database, side by side, and kills each of them at a random moment, mostly
// among its first steps, half of the time with its commands. What was
// acknowledged stays, what was recorded as done is not done again, and nothing
// is done beside itself. BATCHQ_TEST_ROUNDS says how many rounds.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	rounds := short(10, 40)
	if text := os.Getenv("BATCHQ_TEST_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := &siege{site: setup(t), sent: map[string][]string{}, there: map[string]bool{}, done: map[string]bool{}}
	s.rand = rand.New(rand.NewPCG(seed(t), 0))
	s.write("item.sh", besieged)
	s.site.enqueue("p", []string{"p0"})
	for s.round = 1; s.round <= rounds && !t.Failed(); s.round++ {
		s.assault()
		s.look()
	}
	s.peace()
	t.Logf("%d rounds, %d commands killed, and %d of what they had started; %d keys, %d attempts",
		rounds, s.kills.commands, s.kills.children, s.keys, s.count("start"))
}

// attack is one command line of a round, and when it is killed.
type attack struct {
	*started
	at   time.Duration
	ends []int    // how it may end by itself
	list []string // the keys that it brings
}

// assault is one round: command lines at once, and their deaths.
func (s *siege) assault() {
	s.Helper()
	p := words("work p --lane parallel -j 4 --max-crashes 1000 --max-attempts 1000 --backoff-base 10ms --backoff-cap 20ms --kill-after 200ms -- ./item.sh")
	q := words("work q --max-crashes 1000 --max-attempts 1000 --backoff-base 10ms --backoff-cap 20ms --kill-after 200ms -- ./item.sh")
	work := []int{0, 3, 75}
	var all []*attack
	begin := time.Now()
	for _, c := range []struct {
		chance int // of 100
		job    string
		args   []string
		ends   []int
	}{
		{70, "p", words("enqueue p"), []int{0, 3}},
		{40, "q", words("enqueue q"), []int{0, 3}},
		{5, "big", words("enqueue big"), []int{0}}, // of several transactions, and never worked
		{80, "", p, work},
		{50, "", p, work},
		{50, "", q, work},
		{30, "q", append([]string{"run"}, q[1:]...), work},
		{30, "", words("requeue --all"), []int{0, 3}},
		{30, "", words("prune q --older-than 1ms"), []int{0}},
		{20, "", words("backup copy.db"), []int{0}},
		{30, "", words("stats --json"), []int{0}},
		{20, "", words("dlq export"), []int{0}},
	} {
		if s.rand.IntN(100) >= c.chance {
			continue
		}
		a := &attack{at: s.moment(), ends: c.ends}
		cmd := s.command(c.args...)
		if c.job != "" {
			a.list = s.list(c.job)
			cmd.Stdin = strings.NewReader(lines(a.list...))
		}
		a.started = s.start(cmd)
		all = append(all, a)
	}
	slices.SortStableFunc(all, func(a, b *attack) int { return int(a.at - b.at) })
	for _, a := range all {
		time.Sleep(a.at - time.Since(begin))
		s.strike(a)
	}
	for _, a := range all {
		r := a.wait()
		if r.code == 128+int(syscall.SIGKILL) {
			s.kills.commands++
			continue
		}
		if !slices.Contains(a.ends, r.code) {
			s.Errorf("round %d: %v: %s", s.round, a.cmd.Args[1:], r)
		}
		for _, key := range a.list {
			s.there[key] = true
		}
	}
}

// moment is when a command dies: most of what may go wrong is in its first
// steps.
func (s *siege) moment() time.Duration {
	most := 150 * time.Millisecond
	if s.rand.IntN(5) < 3 {
		most = 30 * time.Millisecond
	}
	return time.Duration(s.rand.Int64N(int64(most)))
}

// list makes the keys of one enqueue: new ones, and some that may be there.
func (s *siege) list(job string) (list []string) {
	n := 1 + s.rand.IntN(20)
	if job == "big" {
		n = 2500
	}
	for range n {
		s.keys++
		list = append(list, fmt.Sprint(job, s.keys))
	}
	if before := s.sent[job]; len(before) > 0 && job == "p" { // what was pruned would be done anew
		for range s.rand.IntN(5) {
			list = append(list, before[s.rand.IntN(len(before))])
		}
	}
	s.sent[job] = append(s.sent[job], list...)
	return list
}

// strike kills a command, and half of the time what it has started.
func (s *siege) strike(a *attack) {
	var children []int
	if s.rand.IntN(2) == 0 {
		children = childrenOf(a.cmd.Process.Pid)
	}
	a.kill()
	for _, pid := range children {
		// Each leads a group of its own. It may be gone.
		if syscall.Kill(-pid, syscall.SIGKILL) == nil {
			s.kills.children++
		}
	}
}

// childrenOf lists the children of a process.
func childrenOf(pid int) (children []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is good
	for _, path := range tasks {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // that thread is gone
		}
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil && child > 1 {
				children = append(children, child)
			}
		}
	}
	return children
}

// look checks what can be checked after each round, on a copy. Everything that
// had the database open is dead.
func (s *siege) look() {
	s.Helper()
	s.readLog()
	copied := s.copied()
	if r := s.batchq("", "--db", copied, "doctor"); r.code != 0 {
		s.Errorf("round %d: doctor: %s", s.round, r)
	}
	there := map[string]bool{}
	for _, key := range s.keysIn(copied, "state <> 6") {
		there[key] = true
	}
	for key := range s.there {
		if !there[key] && !strings.HasPrefix(key, "q") { // those are pruned
			s.Errorf("round %d: %s was acknowledged, and is not in the list", s.round, key)
		}
	}
	for _, key := range s.keysIn(copied, "state = 4") {
		s.done[key] = true
	}
	s.must(os.RemoveAll(filepath.Dir(copied)))
	s.wholeBackup()
}

// readLog looks at what the commands have written since the last time.
func (s *siege) readLog() {
	s.Helper()
	events := s.log()
	for _, e := range events[s.read:] {
		switch {
		case e.what == "beside":
			s.Errorf("round %d: %s was run beside itself", s.round, e.key)
		case e.what == "start" && s.done[e.key]:
			s.Errorf("round %d: %s was recorded as done, and ran again", s.round, e.key)
		}
	}
	s.read = len(events)
}

// wholeBackup checks a copy that stands in its place, whoever was killed over
// it, and makes room for the next one.
func (s *siege) wholeBackup() {
	s.Helper()
	path := filepath.Join(s.dir, "copy.db")
	if _, err := os.Stat(path); err != nil {
		return
	}
	if r := s.batchq("", "--db", path, "doctor"); r.code != 0 {
		s.Errorf("round %d: the backup: %s", s.round, r)
	}
	s.must(os.Remove(path))
}

// peace lets everything come to its end, and checks all of it.
func (s *siege) peace() {
	s.Helper()
	s.write("mended", "")
	s.want(0, "requeue", "--all")
	s.want(0, "work", "p", "--lane", "parallel", "-j", "4", "--max-crashes", "1000", "--wait", "--kill-after", "200ms", "--", "./item.sh")
	s.want(0, "work", "q", "--wait", "--max-crashes", "1000", "--kill-after", "200ms", "--", "./item.sh")
	s.want(0, "backup", "copy.db") // takes away what one left that was killed
	s.wholeBackup()
	s.readLog()
	s.want(0, "drop", "--job", "big")
	totals := s.totals()
	s.wantTotals(map[string]int{"done": totals["done"], "dropped": totals["dropped"]})
	ends := runs(s.log(), "end")
	worked := 0
	for key := range s.there {
		if strings.HasPrefix(key, "big") {
			continue
		}
		if worked++; ends[key] == 0 {
			s.Errorf("%s was acknowledged, and its command never came to its end", key)
		}
	}
	for _, key := range s.keysIn(s.db, "state = 4") {
		if ends[key] == 0 {
			s.Errorf("%s is done, and its command never came to its end", key)
		}
	}
	if worked == 0 {
		s.Error("no list was ever acknowledged")
	}
	s.tidy()
	s.noDraft()
}
