package cmd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// short is how often something is repeated under -short, and otherwise.
func short(few, many int) int {
	if testing.Short() {
		return few
	}
	return many
}

// Select, then update: two workers got the same item (huey#123,
// reinhardt-web#1549, apscheduler#959). Here each of 5,000 items runs exactly
// once, with one run of eight slots, and with eight runs.
func TestQueues_EachOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\necho $1 >>ran\n")
	n := short(2000, 5000)
	for round := range short(2, 10) {
		scope := fmt.Sprintf("round %d", round)
		s.enqueue("j", sequence(n), "--scope", scope)
		line := []string{"work", "j", "--scope", scope, "--lane", "parallel", "-j", "8", "--", "./item.sh"}
		var processes []*started
		for range 1 + 7*(round%2) {
			processes = append(processes, s.start(s.command(line...)))
		}
		done := 0
		for _, p := range processes {
			r := p.wait()
			// One that found all slots taken leaves the rest to the others.
			if r.code != 0 && (r.code != 75 || len(processes) == 1) {
				t.Errorf("batchq %s: %s", strings.Join(line, " "), r)
			}
			var one int
			if _, err := fmt.Sscanf(r.stdout, "done %d,", &one); err != nil {
				t.Errorf("summary %q: %v", r.stdout, err)
			}
			done += one
		}
		ran := s.lines("ran")
		different, repeated := distinct(ran)
		if done != n || len(ran) != n || different != n {
			t.Fatalf("%s: %d reported done, %d ran, %d different; more than once: %s", scope, done, len(ran), different, keysOf(repeated))
		}
		s.write("ran", "")
	}
	s.wantTotals(map[string]int{"done": n * short(2, 10)})
	s.tidy()
}

// The time-out was measured from the due time, and old items were queued anew
// while they ran (plainjob); later items of a serial batch lost their lease
// before they began (titen#151, deltallm#249). Here items wait for longer than
// the lease, before and after they are claimed, beside a second worker: each
// runs once and nothing is charged.
func TestQueues_LongerThanTheLease(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nsleep 0.1\nsay end\n")
	s.enqueue("j", sequence(30))
	time.Sleep(2100 * time.Millisecond)
	line := []string{"work", "j", "--lease", "2s", "--wait", "--", "./item.sh"}
	first := s.start(s.command(line...))
	second := s.start(s.command(line...))
	s.expect(first.wait(), 0, line...)
	s.expect(second.wait(), 0, line...)
	events := s.log()
	s.notBeside(events)
	for key, n := range runs(events, "start") {
		if n != 1 {
			t.Errorf("%s started %d times", key, n)
		}
	}
	for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
		if it.Attempt != 1 || it.Crashes+it.Failures != 0 {
			t.Errorf("item %s: %d attempts, %d crashes, %d failures", it.Key, it.Attempt, it.Crashes, it.Failures)
		}
	}
	s.wantTotals(map[string]int{"done": 30})
	s.tidy()
}

// Limit 1 ran 11 times at once after a restart (solid_queue#735): what is in
// flight is counted across runs, also while some of them are killed and their
// items go on.
func TestQueues_LimitAcrossRuns(t *testing.T) {
	t.Parallel()
	s := setup(t)
	// Each takes one of four places and keeps it until it is gone, however it
	// goes: the log alone can't tell when one was killed.
	s.write("item.sh", logged+`for place in 1 2 3 4 none; do
	exec 8>>"place.$place"
	flock -n 8 && break
done
[ $place != none ] || say crowded
say start
sleep 0.0$((key % 9))
say end
`)
	const n = 200
	s.enqueue("j", sequence(n))
	// A run that waits beside one that is killed looks for the dead with its
	// heartbeat, every quarter of a lease.
	line := []string{"work", "j", "--lane", "parallel", "-j", "4", "--wait", "--lease", "2s", "--", "./item.sh"}
	var before []finished
	for range short(4, 10) {
		a, b := s.start(s.command(line...)), s.start(s.command(line...))
		s.killAtRandom(a, len(s.lines("log")), 30)
		s.killAtRandom(b, len(s.lines("log")), 30)
		before = append(before, s.settledBefore())
	}
	s.want(0, line...)
	events := s.log()
	s.notBeside(events)
	s.notAgain(events, before)
	for _, e := range events {
		if e.what == "crowded" {
			t.Errorf("%s was one more than the lane holds", e.key)
		}
	}
	s.wantTotals(map[string]int{"done": n})
	s.tidy()
}
