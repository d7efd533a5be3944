package cmd

import (
	"fmt"
	"strings"
)

// logged is the beginning of a command that writes into the file log when it
// starts and ends ("KEY start|end PID NANOSECONDS"), and "KEY beside PID" when
// another one is at work on the same key: the kernel gives a lock back at any
// death.
const logged = `#!/bin/sh
key=$1
say() { at=$(date +%s%N) && echo "$key $1 $$ $at" >>log; } # date may be ended alone
exec 9>>"lock.$key"
flock -n 9 || [ $? != 1 ] || say beside # more than 1: flock itself was ended
`

// event is a line of log.
type event struct {
	key, what string
	pid       int
	at        int64
}

func (s *site) log() (events []event) {
	s.Helper()
	for _, line := range s.lines("log") {
		var e event
		if _, err := fmt.Sscan(line, &e.key, &e.what, &e.pid, &e.at); err != nil {
			s.Fatalf("line %q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// runs counts the log's lines of a kind for each key.
func runs(events []event, what string) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		if e.what == what {
			n[e.key]++
		}
	}
	return n
}

// notBeside checks that no item was ever worked beside itself.
func (s *site) notBeside(events []event) {
	s.Helper()
	for _, e := range events {
		if e.what == "beside" {
			s.Errorf("%s was run beside itself", e.key)
		}
	}
}

// distinct is how many different lines there are, and which occur more than once.
func distinct(lines []string) (n int, repeated []string) {
	seen := map[string]int{}
	for _, l := range lines {
		if seen[l]++; seen[l] == 2 {
			repeated = append(repeated, l)
		}
	}
	return len(seen), repeated
}

// finished is what was recorded as done before a rerun, and how long the log
// was then: nothing of it may stand further on.
type finished struct {
	keys map[string]bool
	from int // lines of log
}

// settledBefore asks the database what is done. The log is read after it: what
// has started and ended between the two looks did not run again.
func (s *site) settledBefore() finished {
	s.Helper()
	f := finished{keys: map[string]bool{}}
	for _, key := range s.doneKeys() {
		f.keys[key] = true
	}
	f.from = len(s.lines("log"))
	return f
}

// notAgain checks that nothing ran again after it was recorded as done.
func (s *site) notAgain(events []event, before []finished) {
	s.Helper()
	for _, f := range before {
		for _, e := range events[f.from:] {
			if e.what == "start" && f.keys[e.key] {
				s.Errorf("%s was recorded as done, and ran again", e.key)
			}
		}
	}
}

// keysOf joins keys for a message.
func keysOf(keys []string) string {
	if len(keys) > 10 {
		return strings.Join(keys[:10], " ") + " …"
	}
	return strings.Join(keys, " ")
}
