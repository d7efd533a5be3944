package cmd

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// doneKeys lists what the database says is done.
func (s *site) doneKeys() (keys []string) {
	s.Helper()
	for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
		keys = append(keys, string(it.Key))
	}
	return keys
}

// count is how many lines of a kind the log has.
func (s *site) count(what string) (n int) {
	s.Helper()
	for _, e := range s.log() {
		if e.what == what {
			n++
		}
	}
	return n
}

// A run and all its children die; 5,133 jobs were "running" for up to 91 days
// (riverqueue/river#1258). The next command line takes everything over at
// once, long before the lease ends.
func TestCrash_Everything(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("slow.sh", logged+"say start\nsleep 600\nsay end\n")
	s.enqueue("j", sequence(10))
	p := s.start(s.command("work", "j", "--lane", "parallel", "-j", "4", "--lease", "1h", "--", "./slow.sh"))
	s.until("four run", func() bool { return s.count("start") == 4 })
	p.kill()
	s.killAll()
	r := s.want(0, "work", "j", "--lane", "parallel", "-j", "4", "--lease", "1h", "--", "true")
	if r.stdout != "done 10, left 0\n" || !strings.Contains(r.stderr, "run 1 is dead: ") {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"done": 10})
	for _, it := range s.items(store.Selection{}) {
		started, _ := strconv.Atoi(string(it.Key))
		if crashed := started <= 4; (it.Crashes == 1) != crashed || it.Failures != 0 {
			t.Errorf("item %s: %d crashes, %d failures", it.Key, it.Crashes, it.Failures)
		}
	}
	s.tidy()
}

// The run alone dies and its command lives on: the second copy starts only
// after the first has been ended. What ignores TERM, has left its group, or
// hides behind a shell is ended too (measured on GNU parallel: it runs beside).
func TestCrash_RunnerAlone(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"Plain":      "sleep 600",
		"IgnoreTERM": "trap '' TERM\nsleep 600",
		"Background": "sleep 600 &\nsleep 600 &\nwait",
		"Setsid":     "setsid sh -c 'echo $$ >sid; exec sleep 600' &\nwait",
		"Pipe":       "{ sleep 600; } | cat",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("slow.sh", logged+"say start\n[ -e fast ] || {\n"+body+"\n}\nsay end\n")
			s.enqueue("j", []string{"a", "b"})
			line := []string{"work", "j", "--kill-after", "300ms", "--", "./slow.sh"}
			p := s.start(s.command(line...))
			s.until("it runs", func() bool { return s.count("start") == 1 && (name != "Setsid" || s.file("sid") != "") })
			p.kill()
			s.write("fast", "")
			s.want(0, line...)
			events := s.log()
			s.notBeside(events)
			if n := runs(events, "start"); n["a"] != 2 || n["b"] != 1 {
				t.Errorf("starts: %v", n)
			}
			s.wantTotals(map[string]int{"done": 2})
			s.tidy()
		})
	}
}

// A crash is no failure: with one attempt allowed the item is taken again
// (graphile/worker#254: locked, attempts spent, never taken, blocks its queue).
// With one crash allowed it is set aside, and says why.
func TestCrash_LastAttempt(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("slow.sh", logged+"say start\n[ -e fast ] || sleep 600\nsay end\n")
	s.enqueue("j", []string{"a"})
	p := s.start(s.command("work", "j", "--max-attempts", "1", "--", "./slow.sh"))
	s.until("it runs", func() bool { return s.count("start") == 1 })
	p.kill()
	s.write("fast", "")
	s.want(0, "work", "j", "--max-attempts", "1", "--", "./slow.sh")
	s.wantTotals(map[string]int{"done": 1})

	s.enqueue("k", []string{"b"})
	p = s.start(s.command("work", "k", "--max-crashes", "1", "--", "sh", "-c", "echo b start 0 0 >>log; sleep 600"))
	s.until("b runs", func() bool { return runs(s.log(), "start")["b"] == 1 })
	p.kill()
	r := s.want(3, "work", "k", "--max-crashes", "1", "--", "./slow.sh")
	if !strings.Contains(r.stderr, "its run died while it was running (crash 1 of 1): set aside in the dead-letter list") {
		t.Error(r)
	}
	if r := s.want(0, "dlq", "list", "--class", "crash"); !strings.Contains(r.stdout, "\tk\t\tb\t") {
		t.Error(r)
	}
	if n := runs(s.log(), "start")["b"]; n != 1 {
		t.Errorf("b started %d times", n)
	}
	s.wantTotals(map[string]int{"done": 1, "dead": 1})
	s.tidy()
}

// A job that must not be repeated when nobody knows how far it came: its item
// is set aside at its first crash, also by a rerun with other flags. What had
// not started is worked.
func TestCrash_OnCrashDead(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[jobs.pay]\non_crash = \"dead\"\ncommand = [\"./slow.sh\", \"{key}\"]\n")
	s.write("slow.sh", logged+"say start\n[ $1 != b ] || sleep 600\nsay end\n")
	s.enqueue("pay", []string{"a", "b", "c"})
	p := s.start(s.command("work", "pay"))
	s.until("b runs", func() bool { return runs(s.log(), "start")["b"] == 1 })
	p.kill()
	r := s.want(3, "work", "pay", "--max-crashes", "9")
	if !strings.Contains(r.stderr, `its run died while it was running, and the job says on_crash = "dead": set aside`) {
		t.Error(r)
	}
	if n := runs(s.log(), "start"); n["a"] != 1 || n["b"] != 1 || n["c"] != 1 {
		t.Errorf("starts: %v", n)
	}
	s.wantTotals(map[string]int{"done": 2, "dead": 1})
	s.tidy()
}

// Bad items before a crash shift nothing (spring-batch#1473: the restart
// skipped the wrong rows): every good item runs exactly once.
func TestCrash_AfterSkips(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\ncase $1 in 2 | 3 | 7) exit 65 ;; 11) [ -e fast ] && exit 65; sleep 600 ;; esac\nsay end\n")
	s.enqueue("j", sequence(20))
	line := []string{"work", "j", "--batch", "4", "--", "./item.sh"}
	p := s.start(s.command(line...))
	s.until("11 runs", func() bool { return runs(s.log(), "start")["11"] == 1 })
	before := s.settledBefore()
	p.kill()
	s.write("fast", "")
	s.want(3, line...)
	events := s.log()
	s.notBeside(events)
	s.notAgain(events, []finished{before})
	starts, ends := runs(events, "start"), runs(events, "end")
	for _, key := range sequence(20) {
		want := 1
		if key == "11" {
			want = 2
		}
		if starts[key] != want || ends[key] != want-btoi(slices.Contains([]string{"2", "3", "7"}, key))-2*btoi(key == "11") {
			t.Errorf("item %s: %d starts, %d ends", key, starts[key], ends[key])
		}
	}
	s.wantTotals(map[string]int{"done": 16, "dead": 4})
	s.tidy()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// An item that kills its run each time ends in the dead-letter list after
// --max-crashes, and only that one (sidekiq#4633, faktory#99): the 99 others
// are done, and none of them is charged.
func TestCrash_Poison(t *testing.T) {
	t.Parallel()
	for name, lane := range map[string][]string{"Serial": nil, "Parallel": {"--lane", "parallel", "-j", "4"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("item.sh", "#!/bin/sh\n[ $1 != 50 ] || { kill -9 $PPID; exit; }\necho $1 >>ran\n")
			s.enqueue("j", sequence(100))
			line := append(append([]string{"work", "j"}, lane...), "--", "./item.sh")
			crashes := 0
			for code := 0; ; crashes++ {
				if code = s.result(s.command(line...)).code; code == 3 {
					break
				}
				if code != 128+int(syscall.SIGKILL) || crashes > 5 {
					t.Fatalf("exit %d after %d crashes", code, crashes)
				}
			}
			if crashes != 3 {
				t.Errorf("it took %d crashes", crashes)
			}
			s.wantTotals(map[string]int{"done": 99, "dead": 1})
			n, repeated := distinct(s.lines("ran"))
			if n != 99 || lane == nil && repeated != nil {
				t.Errorf("%d ran; more than once: %s", n, keysOf(repeated))
			}
			for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
				// Side by side nobody can know who it was, the first time; from
				// then on the suspects are kept apart.
				if it.Failures > 0 || it.Crashes > 1 || it.Crashes > 0 && lane == nil {
					t.Errorf("item %s was charged %d failures, %d crashes", it.Key, it.Failures, it.Crashes)
				}
			}
			s.tidy()
		})
	}
}

// Killed while it rescues: what a dead run left is found by the next one, and
// nothing is charged twice.
func TestCrash_WhileRescuing(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("slow.sh", logged+"trap '' TERM\nsay start\nwhile [ ! -e fast ]; do sleep 0.05; done\nsay end\n")
	s.enqueue("j", sequence(6))
	line := []string{"work", "j", "--lane", "parallel", "-j", "3", "--kill-after", "1h", "--", "./slow.sh"}
	p := s.start(s.command(line...))
	s.until("three run", func() bool { return s.count("start") == 3 })
	p.kill()
	// The items hear no TERM, so each of these is killed while it waits for them.
	for range 3 {
		p := s.start(s.command(line...))
		s.until("it has taken over", func() bool { return s.totals()["running"] == 3 })
		time.Sleep(time.Duration(s.rand.IntN(200)) * time.Millisecond)
		p.kill()
	}
	s.write("fast", "")
	s.want(0, line...)
	events := s.log()
	s.notBeside(events)
	for _, it := range s.items(store.Selection{}) {
		if it.Crashes > 1 {
			t.Errorf("item %s was charged %d crashes", it.Key, it.Crashes)
		}
	}
	s.wantTotals(map[string]int{"done": 6})
	s.tidy()
}
