package cmd

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// lanesConfig declares a lane of four, and jobs in it, in serial, and in a lane
// of a hundred.
const lanesConfig = `[lanes.parallel]
in_flight = 4
[lanes.wide]
in_flight = 100
[jobs.a]
lane = "parallel"
command = ["./a.sh", "{key}"]
[jobs.b]
lane = "parallel"
command = ["./b.sh", "{key}"]
[jobs.wide]
lane = "wide"
command = ["./a.sh", "{key}"]
[jobs.s]
command = ["./b.sh", "{key}"]
`

// The rescue was a job like others, and waited for a worker that all the long
// ones held (procrastinate#1408). Here every slot of the living run, and of its
// lanes, is taken, the dead run's lease has an hour left, and its items are
// taken back and worked beside the long ones.
func TestLanes_RescueBesideLongItems(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", lanesConfig)
	s.write("a.sh", logged+"say start\n[ -e fast ] || exec sleep 600\nsay end\n")
	s.write("b.sh", logged+"say start\nwhile [ ! -e over ]; do sleep 0.02; done\nsay end\n")
	s.enqueue("a", []string{"a1", "a2", "a3", "a4", "a5", "a6"})
	dead := s.start(s.command("work", "a", "--lane", "parallel", "-j", "2", "--lease", "1h"))
	s.until("two run", func() bool { return s.count("start") == 2 })
	s.enqueue("b", []string{"b1", "b2"})
	s.enqueue("s", []string{"s1"})
	living := s.start(s.command("work", "--lease", "2s", "--kill-after", "300ms"))
	s.until("all slots are taken", func() bool { return s.count("start") == 5 })
	if got := s.totals(); got["running"] != 5 || got["claimed"] != 4 {
		t.Errorf("before the death: %v", got)
	}
	s.write("fast", "")
	dead.kill()
	s.until("all six are done", func() bool { return s.totals()["done"] == 6 })
	s.wantTotals(map[string]int{"done": 6, "running": 3})
	starts := runs(s.log(), "start")
	for key, want := range map[string]int{"a1": 2, "a2": 2, "a3": 1, "a4": 1, "a5": 1, "a6": 1, "b1": 1, "b2": 1, "s1": 1} {
		if starts[key] != want {
			t.Errorf("%s started %d times, want %d", key, starts[key], want)
		}
	}
	s.write("over", "")
	if r := living.wait(); r.code != 0 || r.stdout != "done 9, left 0\n" {
		t.Error(r)
	}
	s.notBeside(s.log())
	s.wantTotals(map[string]int{"done": 9})
	s.tidy()
}

// What fails in the same second comes back in the same second where nothing is
// drawn (graphile/worker). By the case no tenth of the window may get more than
// 20 % of 100 items; with 400 of them chance never does that.
func TestLanes_RetriesAreSpread(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = 400
	s.write("batchq.toml", "[jobs.j]\nbackoff = { base = \"10h\", cap = \"10h\" }\nbreaker.failures = 0\ncommand = [\"false\"]\n")
	s.enqueue("j", sequence(n))
	from := time.Now()
	s.want(75, "work")
	var due []time.Duration
	for _, it := range s.items(delayed(0)) {
		due = append(due, it.Due.Sub(from))
	}
	s.wantTotals(map[string]int{"delayed": n})
	slices.Sort(due)
	// All failed within a small part of a tenth; they are due within 10h of it.
	if took := time.Since(from); due[0] <= 0 || due[n-1] > 10*time.Hour+took {
		t.Errorf("due from %s to %s", due[0], due[n-1])
	}
	for first, last := 0, 0; last < n; last++ {
		for due[last]-due[first] > time.Hour {
			first++
		}
		if many := last - first + 1; many > n/5 {
			t.Fatalf("%d of %d are due within an hour of ten, from %s on", many, n, due[first])
		}
	}
	s.tidy()
}

// Slots stood idle while items waited (solid_queue#456, #476). Here each item
// ends only when the third after it has started: a slot that stays empty while
// three are at work, for the end of a batch or for anything else, hangs.
func TestLanes_NoSlotStaysIdle(t *testing.T) {
	t.Parallel()
	for _, batch := range []string{"4", "7", "100"} {
		t.Run("Batch"+batch, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			const n = 120
			s.write("batchq.toml", lanesConfig)
			s.write("a.sh", fmt.Sprintf(`#!/bin/sh
: >begun.$1
next=$(($1 + 3))
[ $next -le %d ] || exit 0
until [ -e begun.$next ]; do sleep 0.005; done
`, n))
			s.enqueue("a", sequence(n))
			r := s.want(0, "work", "a", "--batch", batch)
			if r.stdout != fmt.Sprintf("done %d, left 0\n", n) {
				t.Error(r)
			}
			s.tidy()
		})
	}
}

// A producer of ten thousand starved the others (mosquito#167, postel#126,
// gradient#111, uwazi#8062): what another job brings starts within one batch.
func TestLanes_NoProducerStarvesAnother(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const batch, slots = 100, 4
	s.write("batchq.toml", lanesConfig)
	s.write("a.sh", "#!/bin/sh\necho a >>ran\n")
	s.write("b.sh", "#!/bin/sh\necho b >>ran\n")
	s.enqueue("a", sequence(10000))
	p := s.start(s.command("work", "--batch", fmt.Sprint(batch)))
	s.until("a is worked", func() bool { return len(s.lines("ran")) > batch+batch/2 })
	s.enqueue("b", []string{"1"})
	before := len(s.lines("ran"))
	s.until("b is worked", func() bool { return slices.Contains(s.lines("ran"), "b") })
	// Of a, what was held then may come first; and what ran beside b's start.
	beside := slices.Index(s.lines("ran"), "b") - before
	t.Logf("b came after %d and another %d of a", before, beside)
	if beside > batch+slots {
		t.Errorf("%d of a came before the one of b", beside)
	}
	p.kill()
	s.want(75, "work", "--limit", "20") // takes over what was left
	s.tidy()
}

// One slow item kept nineteen that had finished from being recorded
// (graphile/worker PR#99). Here 99 are seen as done while the slow one runs,
// and when the run dies then, only that one runs again.
func TestLanes_OneSlowOfAHundred(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", lanesConfig)
	s.write("a.sh", logged+"say start\n[ $1 != 1 ] || [ -e fast ] || exec sleep 600\nsay end\n")
	s.enqueue("wide", sequence(100))
	p := s.start(s.command("work", "wide", "--lease", "1h", "--kill-after", "300ms"))
	s.until("99 are done", func() bool { return s.totals()["done"] == 99 })
	s.wantTotals(map[string]int{"done": 99, "running": 1})
	p.kill()
	s.write("fast", "")
	r := s.want(0, "work", "wide", "--kill-after", "300ms")
	if r.stdout != "done 1, left 0\n" {
		t.Error(r)
	}
	events := s.log()
	s.notBeside(events)
	starts, ends := runs(events, "start"), runs(events, "end")
	for _, key := range sequence(100) {
		if starts[key] != 1+btoi(key == "1") || ends[key] != 1 {
			t.Errorf("item %s: %d starts, %d ends", key, starts[key], ends[key])
		}
	}
	s.wantTotals(map[string]int{"done": 100})
	s.tidy()
}
