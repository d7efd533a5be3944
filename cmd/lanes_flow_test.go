package cmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// A dependency that is down costs as many attempts as it takes to see it, what
// was in flight then, and one a cooldown; not one for each of a thousand items.
// When it is back, everything is done without a hand's turn.
func TestLanes_DependencyDown(t *testing.T) {
	t.Parallel()
	s := setup(t)
	n := short(200, 1000)
	s.write("batchq.toml", `
[lanes.parallel]
in_flight = 4
[jobs.j]
lane = "parallel"
shell = '[ -e up ] || { echo "$1 failed" >> log; exit 75; }'
breaker = { failures = 10, cooldown = "50ms" }
backoff = { base = "10ms", cap = "100ms" }
`)
	s.enqueue("j", sequence(n))
	one, two := s.start(s.command("work", "--wait")), s.start(s.command("work", "--wait"))
	s.until("the breaker has opened five times", func() bool {
		return strings.Contains(s.want(0, "stats", "--json").stdout, `"times": 5`)
	})
	s.write("up", "")
	first, second := one.wait(), two.wait()
	for _, r := range []result{first, second} {
		if r.code != 0 {
			t.Errorf("work --wait: %s", r)
		}
	}
	said := first.stderr + second.stderr
	tries := strings.Count(said, "the try failed too")
	if opened := strings.Count(said, "10 different items failed in a row"); opened != 1 {
		t.Errorf("the breaker was tripped %d times:\n%s", opened, said)
	}
	const failures, inFlight = 10, 4
	failed := len(s.lines("log"))
	if failed > failures+inFlight+tries {
		t.Errorf("%d attempts failed, with %d tries", failed, tries)
	}
	t.Logf("%d of %d attempts failed, with %d tries", failed, n+failed, tries)
	s.wantTotals(map[string]int{"done": n})
	s.tidy()
}

// A rate holds across runs: by the starts that the store recorded, in any
// second and in any ten of them.
func TestLanes_Rate(t *testing.T) {
	t.Parallel()
	s := setup(t)
	n := short(60, 300)
	s.write("batchq.toml", `
[lanes.parallel]
in_flight = 8
[jobs.j]
lane = "parallel"
rate = "20/s"
shell = 'echo "$1" >> log'
`)
	s.enqueue("j", sequence(n))
	one, two := s.start(s.command("work")), s.start(s.command("work"))
	one.wait()
	two.wait()
	s.want(0, "work") // what one left while the other held it
	var starts []time.Time
	for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
		starts = append(starts, it.Started)
	}
	slices.SortFunc(starts, time.Time.Compare)
	if len(starts) != n || len(s.lines("log")) != n {
		t.Fatalf("%d done, %d ran, of %d", len(starts), len(s.lines("log")), n)
	}
	// What may come beside the even pace: RateSlack of it, and the fence post.
	const burst = 3
	for _, window := range []time.Duration{time.Second, 10 * time.Second} {
		most := int(20*window/time.Second) + burst
		for i, from := range starts {
			within := 0
			for _, at := range starts[i:] {
				if at.Sub(from) < window {
					within++
				}
			}
			if within > most {
				t.Errorf("%d starts within %s from %s", within, window, from.Format(time.TimeOnly))
			}
		}
	}
	t.Logf("%d starts in %s: %.1f a second", n, starts[n-1].Sub(starts[0]), float64(n-1)/starts[n-1].Sub(starts[0]).Seconds())
	s.sound()
}

// A run that follows sleeps while there is nothing, works what another process
// brings, takes over a changed file at HUP without touching what runs, keeps
// the old one when the new one is broken, and drains at TERM.
func TestLanes_Follow(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nuntil [ -e \"go\" ]; do sleep 0.01; done\nsay end\n")
	file := func(lane string) string {
		return fmt.Sprintf("[lanes.parallel]\nin_flight = 2\n[jobs.heavy]\ncommand = [\"./item.sh\", \"{key}\"]\n"+
			"[jobs.quick]\nlane = %q\nshell = 'echo \"$1\" >> quick'\n", lane)
	}
	s.write("batchq.toml", file("serial"))
	s.enqueue("heavy", []string{"slow"})
	p := s.start(s.command("work", "--follow"))
	s.until("the heavy one runs", func() bool { return strings.Contains(s.file("log"), "start") })

	before := cpu(t, p.cmd.Process.Pid)
	const idle = 2 * time.Second
	time.Sleep(idle) // that it does nothing can only be seen while time passes
	if used := cpu(t, p.cmd.Process.Pid) - before; used > idle/5 {
		t.Errorf("it used %s of processor time while it waited for %s", used, idle)
	}

	s.enqueue("quick", []string{"a"})
	s.write("batchq.toml", file("parallel"))
	s.must(p.cmd.Process.Signal(syscall.SIGHUP))
	s.until("what was promoted is done", func() bool { return s.file("quick") == "a\n" })
	s.enqueue("quick", []string{"b"})
	s.until("what was enqueued later is done", func() bool { return s.file("quick") == "a\nb\n" })
	if strings.Contains(s.file("log"), "end") {
		t.Fatal("the heavy one was ended")
	}
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	time.Sleep(20 * time.Millisecond)
	if p.ended() {
		t.Error("it left while an item was running")
	}
	s.write("go", "")
	r := p.wait()
	if r.code != 143 || !strings.Contains(r.stderr, "configuration reloaded: lane serial (1): heavy; lane parallel (2): quick\n") || !strings.HasPrefix(r.stdout, "done 3, left 0") {
		t.Errorf("%s", r)
	}
	s.wantTotals(map[string]int{"done": 3})
	s.tidy()
}

// A file that is broken changes nothing at HUP.
func TestLanes_BrokenReload(t *testing.T) {
	t.Parallel()
	s := setup(t)
	good := "[jobs.j]\nshell = 'echo \"$1\" >> log'\n"
	s.write("batchq.toml", good)
	s.enqueue("j", []string{"a"})
	s.write("none.toml", "")
	p := s.start(s.command("work", "--follow"))
	s.until("a is done", func() bool { return s.file("log") == "a\n" })
	s.write("batchq.toml", good+"[jobs.k]\nshell = 3\n")
	s.must(p.cmd.Process.Signal(syscall.SIGHUP))
	s.enqueue("j", []string{"b"}, "--config", "none.toml")
	s.until("b is done", func() bool { return s.file("log") == "a\nb\n" })
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	r := p.wait()
	if r.code != 143 || !strings.Contains(r.stderr, "the configuration was not reloaded, the old one stays: batchq.toml:4") {
		t.Errorf("%s", r)
	}
	s.write("batchq.toml", good)
	s.tidy()
}

// cpu is the processor time that a process has used.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	var utime, stime int64
	fields := strings.Fields(after)
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &utime, &stime); err != nil {
		t.Fatal(err)
	}
	const tick = 10 * time.Millisecond // USER_HZ, fixed by the kernel's interface
	return time.Duration(utime+stime) * tick
}
