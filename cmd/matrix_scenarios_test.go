package cmd

import (
	"database/sql"
	"errors"
	"os"
	"strings"
	"syscall"
)

// item is a command whose key says by its first letter how it behaves.
const item = logged + `say start
once() { [ -e "once.$key" ] || { : >"once.$key"; return 0; }; return 1; }
case $key in
b*) exit 65 ;;                                          # bad
f*) ! once || exit 75 ;;                                # fails once
r*) exit 75 ;;                                          # fails each time
s*) sleep 0.3 ;;                                        # slow
t*) ! once || sleep 600 ;;                              # hangs once
u*) ! once || { trap '' TERM; sleep 600 & wait; } ;;    # as t, and hears no TERM
w*) [ -e go ] || sleep 600 ;;                           # at work when its run dies
x*) [ -e go ] || { trap '' TERM; sleep 600 & wait; } ;; # as w, and hears no TERM
esac
say end
`

// lanesFile declares two jobs that share a lane and a pool, one beside them,
// and one whose breaker opens at once.
const lanesFile = `[defaults]
kill_after = "100ms"
backoff.base = "10ms"
backoff.cap = "20ms"
max_attempts = 2
[pools]
db = 3
[lanes.parallel]
in_flight = 3
[jobs.heavy]
lane = "parallel"
uses = { db = 2 }
rate = "200/s"
command = ["./item.sh", "{key}"]
[jobs.light]
lane = "parallel"
uses = { db = 1 }
command = ["./item.sh", "{key}"]
[jobs.plain]
command = ["./item.sh", "{key}"]
[jobs.down]
breaker.failures = 2
breaker.cooldown = "1h"
command = ["./item.sh", "{key}"]
`

// lines joins keys for an enqueue's stdin.
func lines(keys ...string) string { return strings.Join(keys, "\n") + "\n" }

// numbered is PREFIX1 … PREFIXn.
func numbered(prefix string, n int) []string {
	keys := sequence(n)
	for i := range keys {
		keys[i] = prefix + keys[i]
	}
	return keys
}

// words splits a command line at its spaces.
func words(line string) []string { return strings.Fields(line) }

// strand makes a run that is killed when so many of its items are at work;
// these live on, and those that come after them need not wait any more.
func strand(starts int, line string) func(*site) {
	return func(s *site) {
		p := s.start(s.command(words(line)...))
		s.until("they run", func() bool { return p.ended() || s.count("start") >= starts })
		p.kill()
		s.write("go", "")
	}
}

// terminate stops a run when so many items are at work.
func terminate(starts int) func(*site, *started) {
	return func(s *site, p *started) {
		s.until("they run", func() bool { return p.ended() || s.count("start") >= starts })
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have been killed
		s.write("go", "")                         // what is started from now on need not wait
	}
}

// sql changes the database behind batchq's back. false: somebody holds it.
func (s *site) sql(query string) bool {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db+"?_pragma=busy_timeout(100)")
	s.must(err)
	_, err = db.Exec(query)
	if err != nil && strings.Contains(err.Error(), "locked") {
		s.must(db.Close())
		return false
	}
	s.must(errors.Join(err, db.Close()))
	return true
}

// stopped makes a run that stands still while its item is at work, and whose
// lease has been over for an hour.
func stopped(line string) func(*site) {
	return func(s *site) {
		p := s.start(s.command(words(line)...))
		s.until("it runs", func() bool { return s.count("start") >= 1 })
		for lapsed := false; !lapsed; {
			s.must(p.cmd.Process.Signal(syscall.SIGSTOP))
			// Not in the middle of a write: then everybody waits for it.
			if lapsed = s.sql("UPDATE claim SET until = until - 3600000"); !lapsed {
				s.must(p.cmd.Process.Signal(syscall.SIGCONT))
			}
		}
		s.write("go", "")
	}
}

// takeMany leaves behind two dead runs that had claimed more than one
// transaction may touch.
func takeMany(s *site) {
	var both []*started
	for _, line := range []string{"work w --batch 700 -- ./item.sh", "work v --lane parallel -j 1 --batch 700 -- ./item.sh"} {
		both = append(both, s.start(s.command(words(line)...)))
	}
	s.until("both work", func() bool { return s.count("start") == 2 })
	for _, p := range both {
		p.kill()
	}
	s.killAll()
	s.write("go", "")
}

func scenarios() []*scenario {
	big := lines(numbered("a", 1130)...)
	rows := `{"k":"c1","v":1}` + "\n" + `{"k":"c2","v":1}` + "\n"
	return []*scenario{{
		name:  "Enqueue",
		files: map[string]string{"rows.jsonl": rows, "new.jsonl": strings.ReplaceAll(rows, "1}", "2}")},
		steps: []step{
			{args: words("enqueue a"), stdin: big},
			{args: words("enqueue a"), stdin: lines("a1", "a2", "a1131")},
			{args: words("enqueue c rows.jsonl --key k")},
			{args: words("enqueue c new.jsonl --key k --on-duplicate replace")},
			{args: words("enqueue c new.jsonl --key k --on-duplicate fail"), ends: []int{3}, only: []string{"enqueue"}},
			{args: words("work c -- ./item.sh {key}"), only: []string{"close"}},
			{args: words("enqueue c new.jsonl --key k --on-duplicate requeue"), anew: true, only: []string{"enqueue"}},
		},
		totals: map[string]int{"ready": 1133},
	}, {
		name: "Work",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "f1", "b1", "r1", "a2", "f2", "b2", "a3"), only: []string{"create"}},
			{args: words("work j --wait --max-attempts 2 --backoff-base 10ms --backoff-cap 20ms -- ./item.sh"), ends: []int{0, 3}},
			{args: words("requeue --all")},
			{args: words("work j --once --max-attempts 1 -- ./item.sh"), ends: []int{0, 3, 75}, only: []string{"settle", "run", "ending"}},
			{args: words("drop --job j --state dead")},
		},
		totals: map[string]int{"done": 5, "dropped": 3}, spare: 1,
	}, {
		name: "Parallel",
		steps: []step{
			{args: words("enqueue j"), stdin: lines(append(numbered("a", 8), "s1", "s2")...), only: []string{}},
			{args: words("work j --lane parallel -j 3 --batch 4 --print -- ./item.sh")},
		},
		totals: map[string]int{"done": 10}, spare: 3,
	}, {
		name: "Delayed",
		steps: []step{
			{args: words("enqueue j --delay 300ms"), stdin: lines("a1", "a2"), only: []string{"enqueue"}},
			{args: words("work j --wait -- ./item.sh"), only: []string{"claim", "recording"}},
			{args: words("enqueue j --delay 1h"), stdin: lines("a3"), only: []string{}},
			{args: words("requeue --job j --state delayed")},
			{args: words("work j -- ./item.sh"), only: []string{"registering", "lock", "results"}},
		},
		totals: map[string]int{"done": 3}, spare: 1,
	}, {
		name:  "Lanes",
		files: map[string]string{"batchq.toml": lanesFile},
		steps: []step{
			{args: words("enqueue heavy"), stdin: lines("a1", "a2", "f1"), only: []string{}},
			{args: words("enqueue light"), stdin: lines("a3", "a4", "b1"), only: []string{}},
			{args: words("enqueue plain"), stdin: lines("a5", "r1"), only: []string{}},
			{args: words("work heavy light plain --wait"), ends: []int{0, 3}},
		},
		totals: map[string]int{"done": 6, "dead": 2}, spare: 4,
	}, {
		name:  "Breaker",
		files: map[string]string{"batchq.toml": lanesFile},
		steps: []step{
			{args: words("enqueue down"), stdin: lines("f1", "f2", "a1"), only: []string{}},
			{args: words("work down"), ends: []int{0, 75}, only: []string{"settle", "recording"}},
			{args: words("resume down"), only: []string{"resuming", "ending"}},
			{args: words("work down --wait"), only: []string{"settle"}},
		},
		totals: map[string]int{"done": 3}, spare: 1,
	}, {
		name: "Limit",
		steps: []step{
			{args: words("enqueue j"), stdin: lines(numbered("a", 6)...), only: []string{}},
			{args: words("work j --limit 2 -- ./item.sh"), ends: []int{0, 75}, only: []string{"claim", "recording", "ending"}},
			{args: words("work j --once --batch 2 -- ./item.sh"), ends: []int{0, 75}, only: []string{"claim", "recording", "ending"}},
			{args: words("work j -- ./item.sh"), only: []string{}},
		},
		totals: map[string]int{"done": 6}, spare: 1,
	}, {
		name: "Stop",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("s1", "a1", "a2", "a3"), only: []string{}},
			{args: words("work j -- ./item.sh"), ends: []int{0, 143}, meanwhile: terminate(1), only: []string{"release", "recording", "ending", "run", "exec"}},
			{args: words("work j -- ./item.sh"), only: []string{}},
		},
		totals: map[string]int{"done": 4}, spare: 1,
	}, {
		name: "StopNow",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("x1", "w1", "a1", "a2"), only: []string{}},
			{args: words("work j --lane parallel -j 2 --batch 4 --grace 0s --kill-after 100ms -- ./item.sh"), ends: []int{0, 143}, meanwhile: terminate(2),
				only: []string{"release", "hunt", "exec", "settle", "recording", "results"}},
			{args: words("work j --kill-after 100ms -- ./item.sh"), only: []string{}},
		},
		totals: map[string]int{"done": 4}, spare: 4,
	}, {
		name: "Timeout",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("t1", "u1"), only: []string{}},
			{args: words("work j --wait --timeout 200ms --kill-after 100ms --backoff-base 10ms -- ./item.sh"), only: []string{"exec", "hunt", "recording"}},
		},
		totals: map[string]int{"done": 2}, spare: 1,
	}, {
		name: "Rescue",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("w1", "w2", "a1", "a2"), only: []string{}},
			{args: words("work j --lane parallel -j 2 -- ./item.sh"),
				prepare: strand(2, "work j --lane parallel -j 2 -- ./item.sh")},
		},
		totals: map[string]int{"done": 4}, spare: 2,
	}, {
		name: "RescueDeaf",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("x1", "x2", "a1"), only: []string{}},
			{args: words("work j --lane parallel -j 2 -- ./item.sh"),
				prepare: strand(2, "work j --lane parallel -j 2 --kill-after 150ms -- ./item.sh"), only: []string{"rescue", "hunt", "taking", "settling", "lock"}},
		},
		totals: map[string]int{"done": 3}, spare: 2,
	}, {
		name: "RescueNothing",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("w1", "a1"), only: []string{}},
			{args: words("work j -- ./item.sh"), prepare: func(s *site) {
				strand(1, "work j -- ./item.sh")(s)
				s.killAll()
				s.must(os.WriteFile(s.db+"-run-"+strings.Repeat("q", 26), nil, 0o600)) // of one that was killed before it registered
			}, only: []string{"rescue", "taking", "settling", "lock"}},
		},
		totals: map[string]int{"done": 2}, spare: 1,
	}, {
		name: "Heartbeat",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("s1"), only: []string{}},
			{args: words("work j --lease 1s -- ./item.sh"), only: []string{"renewing", "heartbeat"}},
		},
		totals: map[string]int{"done": 1}, spare: 1,
	}, {
		name: "Lapse",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("w1", "a1"), only: []string{}},
			{args: words("work j --wait --lease 1s -- ./item.sh"), prepare: stopped("work j --lease 1s -- ./item.sh"),
				only: []string{"looking", "rescue", "taking", "settling"}},
		},
		totals: map[string]int{"done": 2}, spare: 1,
	}, {
		name:  "Pause",
		files: map[string]string{"batchq.toml": lanesFile},
		steps: []step{
			{args: words("enqueue plain"), stdin: lines("a1", "a2"), only: []string{}},
			{args: words("pause plain down")},
			{args: words("work plain"), ends: []int{75}, only: []string{}},
			{args: words("resume plain down")},
			{args: words("work plain"), only: []string{}},
		},
		totals: map[string]int{"done": 2},
	}, {
		name: "PauseMany",
		steps: []step{
			{args: words("enqueue w"), stdin: lines(numbered("w", 700)...), only: []string{}},
			{args: words("enqueue v"), stdin: lines(numbered("wv", 700)...), only: []string{}},
			{args: words("pause --all --wait"), prepare: takeMany, only: []string{"pausing", "giving", "taking", "ending"}},
			{args: words("resume --all"), only: []string{"resuming"}},
			// Clears the lock of a drain that was killed at its end: a second one had nothing to wait for.
			{args: words("work w --limit 1 -- ./item.sh"), ends: []int{75}, only: []string{}},
		},
		totals: map[string]int{"ready": 1399, "done": 1}, spare: 1,
	}, {
		name: "Migrate",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "a2"), only: []string{}},
			{args: words("enqueue j"), stdin: lines("a3"), prepare: (*site).older, only: []string{"migrate", "close"}},
			{args: words("work j -- ./item.sh"), prepare: (*site).older, only: []string{"migrate"}},
		},
		totals: map[string]int{"done": 3},
	}, {
		name: "Prune",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "a2", "f1"), only: []string{}},
			{args: words("work j --wait --backoff-base 10ms -- ./item.sh"), only: []string{}},
			{args: words("enqueue k"), stdin: lines("a3", "a4"), only: []string{}},
			{args: words("drop --job k"), only: []string{}},
			{args: words("prune --older-than 1ms"), ends: []int{0}},
		},
		totals: map[string]int{},
	}, {
		name:  "Sweep",
		files: map[string]string{"batchq.toml": "[jobs.j]\nkeep_done = \"1ms\"\ncommand = [\"./item.sh\", \"{key}\"]\n"},
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "a2"), only: []string{}},
			{args: words("work j"), only: []string{"prune"}},
			{args: words("enqueue j"), stdin: lines("b1"), only: []string{}},
			{args: words("work j"), ends: []int{0, 3}, only: []string{"prune"}},
		},
		totals: map[string]int{"dead": 1}, spare: 1,
	}, {
		name: "Backup",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "b1", "a2"), only: []string{}},
			{args: words("work j --limit 2 -- ./item.sh"), ends: []int{3}, only: []string{}},
			// Killed after it was put in its place the copy is whole, and is not made twice.
			{args: words("backup copy.db"), ends: []int{0, 1}},
			{args: words("doctor --db copy.db"), only: []string{}},
			{args: words("work j -- ./item.sh"), only: []string{}},
		},
		totals: map[string]int{"done": 2, "dead": 1},
	}, {
		name: "Fix",
		steps: []step{
			{args: words("enqueue j"), stdin: lines("a1", "a2"), only: []string{}},
			{args: words("doctor --fix"), damaged: true, prepare: func(s *site) {
				if !s.sql("UPDATE tally SET enqueued = 5, ready = 5; UPDATE book SET last_item = 0; INSERT INTO payload (item, body) VALUES (99, x'00')") {
					s.Fatal("somebody holds the database")
				}
			}},
			{args: words("work j -- ./item.sh"), only: []string{}},
		},
		totals: map[string]int{"done": 2},
	}}
}
