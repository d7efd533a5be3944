package cmd

import (
	"errors"
	"strings"
	"syscall"
	"testing"
)

// What a command may leave when its run is killed, whatever it did to hide: it
// has ended before its item runs again.
// The file pid names the one that is hard to find. Its short naps don't hold the
// lock by which two at once are seen: one that lies between two looks may
// outlive it by a moment.
func TestOwn_Orphans(t *testing.T) {
	t.Parallel()
	const loop = `sh -c "trap '' TERM; echo \$\$ >pid; while :; do sleep 0.05 9>&-; done"`
	for name, body := range map[string]string{
		"Grandchild":    "(sh -c '" + strings.ReplaceAll(loop, "'", `'\''`) + " & wait' & wait)",
		"Setsid":        "setsid " + loop + " &\nwait",
		"SetsidAlone":   "setsid " + loop + " &\nuntil [ -s pid ]; do sleep 0.01; done\nkill -9 $$",
		"IgnoresTERM":   "exec " + loop,
		"Cleared":       `env -i PATH="$PATH" ` + loop + " &\nwait",
		"ClearedSetsid": `env -i PATH="$PATH" setsid ` + loop + " &\nwait",
		"Emptied":       "env -i /bin/sh -c \"trap '' TERM; echo \\$\\$ >pid; while :; do /bin/sleep 0.05 9>&-; done\" &\nwait",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("slow.sh", logged+"say start\n"+body+"\nsay end\n")
			s.enqueue("j", []string{"a", "b"})
			line := []string{"work", "j", "--kill-after", "300ms", "--max-attempts", "1", "--", "./slow.sh"}
			p := s.running(line...)
			pid := s.pidIn("pid")
			p.kill()
			// Now it tells whether that one is alive when it starts.
			s.write("slow.sh", logged+"case $(cut -d' ' -f3 /proc/$(cat pid)/stat 2>/dev/null) in '' | Z | X) ;; *) say beside ;; esac\nsay start\nsay end\n")
			s.want(0, line...)
			if working(pid) {
				t.Error("it lives")
			}
			s.wantStarts("a", 2)
			s.wantStarts("b", 1)
			s.charged("a", 0, 1)
			s.wantTotals(map[string]int{"done": 2})
			s.tidy()
		})
	}
}

// A process that may be the item's and may be a stranger's is neither ended nor
// run beside: the item stays held, that is said once, and it is settled when
// the process has gone.
func TestOwn_DoubtfulOrphan(t *testing.T) {
	t.Parallel()
	const loop = `env -i PATH="$PATH" sh -c 'echo $$ >pid; while :; do sleep 0.05; done'`
	for name, c := range map[string]struct{ fault, body string }{
		// The leader was killed along with the run.
		"LeaderGone": {"", loop + " &\nuntil [ -s pid ]; do sleep 0.01; done\nwhile [ ! -e go ]; do sleep 0.01; done\nkill -9 $$"},
		// Its own group, as bash gives to a job with set -m; its parent has left.
		"OwnGroup": {"", "exec bash -c '" + strings.ReplaceAll("set -m; ( "+loop+" & ); sleep 600", "'", `'\''`) + "'"},
		// The run died between the fork and the record of the pid.
		"NoPID": {"exec/forked", "exec " + loop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setupFaulty(t)
			s.write("slow.sh", "#!/bin/sh\n"+c.body)
			s.enqueue("j", []string{"a", "b"})
			first := s.command("work", "j", "--", "./slow.sh")
			if c.fault != "" {
				first.Env = append(first.Env, "BATCHQ_FAULT="+c.fault)
			}
			p := s.start(first)
			pid := s.pidIn("pid")
			if c.fault == "" {
				leader, err := syscall.Getpgid(pid)
				s.must(err)
				p.kill()
				s.write("go", "")
				// As a zombie it would still prove the group.
				s.until("its leader is reaped", func() bool { return state(leader) == "" })
			}
			p.wait()
			s.write("fast.sh", logged+"say start\nsay end\n")
			line := []string{"work", "j", "--", "./fast.sh"}
			for range 2 {
				r := s.want(75, line...)
				if strings.Count(r.stderr, "which the dead run 1 may have left, is not ended: it may be another's: end it yourself if it belongs to the item") != 1 {
					t.Error(r)
				}
				if !working(pid) {
					t.Fatal("it was ended")
				}
			}
			s.wantTotals(map[string]int{"running": 1, "ready": 1}) // in serial, whose slot it has
			waits := s.running("work", "j", "--wait", "--lease", "1s", "--", "./fast.sh")
			s.until("it has taken over", func() bool { return waits.ended() || s.holder() == 4 })
			s.must(syscall.Kill(pid, syscall.SIGKILL))
			waits.endsWith(0)
			s.wantTotals(map[string]int{"done": 2})
			s.wantStarts("a", 1)
			s.charged("a", 0, 1)
			s.tidy()
		})
	}
}

// In a container that was entered from outside, the session's number reads 0:
// its leader is nobody who could be named there. That is a session like any
// other.
func TestOwn_DoubtfulOrphanOfASessionFromOutside(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("slow.sh", "#!/bin/sh\n"+`env -i PATH="$PATH" sh -c 'echo $$ >pid; while :; do sleep 0.05; done' &
while [ ! -e go ]; do sleep 0.01; done
kill -9 $$
`)
	s.write("fast.sh", logged+"say start\nsay end\n")
	s.write("inside.sh", `#!/bin/sh
self=$1
awk '{ print $6 }' /proc/self/stat >session
"$self" work j -- ./slow.sh &
run=$!
until [ -s pid ]; do sleep 0.01; done
read pid <pid
leader=$(awk '{ print $5 }' /proc/$pid/stat)
kill -9 $run
wait $run
: >go
while [ -e /proc/$leader ]; do sleep 0.01; done
"$self" work j -- ./fast.sh
echo $? >first
kill -9 $pid
"$self" work j --wait -- ./fast.sh
echo $? >second
`)
	s.enqueue("j", []string{"a"})
	r := s.result(s.inNamespace("./inside.sh", s.self))
	if got := s.file("session"); got != "0\n" {
		t.Fatalf("the session is %s", got)
	}
	if s.file("first") != "75\n" || s.file("second") != "0\n" || strings.Count(r.stderr, "is not ended: it may be another's") != 1 {
		t.Errorf("first %s, second %s\n%s", s.file("first"), s.file("second"), r.stderr)
	}
	s.wantStarts("a", 1)
	s.charged("a", 0, 1)
	s.wantTotals(map[string]int{"done": 1})
	s.tidy()
}

// holder is the run that holds what is running.
func (s *site) holder() (run int64) {
	s.Helper()
	db := s.open()
	st, err := db.Stats(s.Context())
	s.must(errors.Join(err, db.Close()))
	for _, slot := range st.Slots {
		run = slot.Run
	}
	return run
}
