package cmd

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A lane of four that share fifteen connections, and serial beside it. Those
// who are killed at random charge crashes, which is not what is looked at here.
const (
	soakLimit  = 4
	soakPool   = 15
	soakConfig = `[defaults]
lease = "2s"
kill_after = "300ms"
max_crashes = 1000
max_attempts = 1
[pools]
db = %d
[lanes.parallel]
in_flight = %d
[jobs.heavy]
lane = "parallel"
uses = { db = 7 }
command = ["./unit.sh", "{key}", "parallel", "%d", "7"]
[jobs.light]
lane = "parallel"
uses = { db = 4 }
command = ["./unit.sh", "{key}", "parallel", "%d", "4"]
[jobs.free]
lane = "parallel"
command = ["./unit.sh", "{key}", "parallel", "%d", "0"]
[jobs.s]
command = ["./unit.sh", "{key}", "serial", "1", "0"]
`
)

// unit is KEY LANE SLOTS USES: it takes one of the lane's slots and so many of
// the fifteen connections, holds them for a while, and says "over" where there
// are not as many. The locks are the kernel's, which gives them back at any
// death; what is left of a killed run keeps its own until it is gone. One
// looks at a time, so that a look misses nothing that is free.
const unit = `#!/bin/sh
key=$1 lane=$2 slots=$3 uses=$4
say() { echo "$key $1 $$ $(date +%s%N)" >>log; }
# take KIND SIZE FD...: one of KIND's SIZE locks for each descriptor
take() {
	kind=$1 size=$2 i=0
	shift 2
	while [ $# -gt 0 ]; do
		[ $((i += 1)) -le $size ] || { say over; return; }
		eval "exec $1>>unit.$kind.$i"
		if flock -n $1; then shift; fi
	done
}
say start
exec 1>>unit.look
flock 1
take $lane $slots 0
case $uses in
7) take db 15 3 4 5 6 7 8 9 ;;
4) take db 15 3 4 5 6 ;;
esac
exec 1>/dev/null
sleep 0.$((60 + $$ % 90))
say end
`

// Limits hold across runs whatever becomes of these: six runs share a lane of
// four and a pool of fifteen, are killed and stopped at random moments while
// what they had started lives on, and are started again, and new items keep
// coming. A limit of one ran eleven times after such a restart (solid_queue#735).
func TestLanes_KilledAndRestarted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", fmt.Sprintf(soakConfig, soakPool, soakLimit, soakLimit, soakLimit, soakLimit))
	s.write("unit.sh", unit)
	line := []string{"work", "--wait", "--grace", "20ms"}
	var added, kills, stops int
	produce := func() {
		for _, job := range []string{"heavy", "light", "free", "s"} {
			var keys []string
			for range 5 {
				added++
				keys = append(keys, fmt.Sprintf("%s-%d", job, added))
			}
			s.enqueue(job, keys)
		}
	}
	var six [6]*started
	for end := time.Now().Add(time.Duration(short(6, 60)) * time.Second); time.Now().Before(end) || kills < 5; {
		if added-s.count("end") < 20 {
			produce()
		}
		i := s.rand.IntN(len(six))
		switch p := six[i]; {
		case p == nil || p.ended():
			if p != nil {
				s.endedWell(p.wait())
			}
			args := line
			if s.rand.IntN(3) == 0 {
				args = []string{"work", "--batch", "3"} // leaves where a lane is full
			}
			six[i] = s.start(s.command(args...))
		case s.rand.IntN(4) == 0:
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			stops++
		default:
			p.kill()
			kills++
		}
		time.Sleep(time.Duration(s.rand.Int64N(int64(300 * time.Millisecond))))
	}
	for _, p := range six {
		if p != nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			s.endedWell(p.wait())
		}
	}
	s.want(0, line...)
	s.wantTotals(map[string]int{"done": added})
	events := s.log()
	most := s.wantLimits(events)
	ends := runs(events, "end")
	if len(ends) != added {
		t.Errorf("%d of %d items have ended", len(ends), added)
	}
	t.Logf("%d items, %d attempts, %d kills, %d stops; at most %v", added, s.count("start"), kills, stops, most)
	s.tidy()
}

// endedWell checks a run that was killed, stopped, or ended by itself.
func (s *site) endedWell(r result) {
	s.Helper()
	switch r.code {
	case 0, 75, 128 + int(syscall.SIGKILL), 128 + int(syscall.SIGTERM):
	default:
		s.Errorf("a run ended with %s", r)
	}
}

// wantLimits checks by the log that no limit was passed: no command found a
// lane or the pool overrun, and of the attempts that ended by themselves never
// more ran at once. Lines are appended while the command lives, so their order
// is that of what happened. It returns the most that ran at once.
func (s *site) wantLimits(events []event) map[string]int {
	s.Helper()
	type attempt struct {
		key string
		pid int
	}
	limits := map[string]int{"parallel": soakLimit, "db": soakPool, "serial": 1}
	takes := map[string]map[string]int{"heavy": {"parallel": 1, "db": 7}, "light": {"parallel": 1, "db": 4}, "free": {"parallel": 1}, "s": {"serial": 1}}
	ended := map[attempt]int{} // the line of the end: a process id may come again
	for n, e := range events {
		if e.what == "end" {
			ended[attempt{e.key, e.pid}] = n
		}
	}
	now, most := map[string]int{}, map[string]int{}
	for n, e := range events {
		job, _, _ := strings.Cut(e.key, "-")
		sign := 0
		switch end, whole := ended[attempt{e.key, e.pid}]; {
		case e.what == "over":
			s.Errorf("%s is over the limit", e.key)
		case e.what == "start" && whole && n < end:
			sign = 1
		case e.what == "end":
			sign = -1
		}
		for what, uses := range takes[job] {
			now[what] += sign * uses
			most[what] = max(most[what], now[what])
			if sign > 0 && now[what] > limits[what] {
				s.Errorf("%s: %d %s at once", e.key, now[what], what)
			}
		}
	}
	return most
}
