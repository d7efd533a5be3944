package cmd

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// `batchq work` inside an item, on the same job and the same database: it finds
// the lane full and leaves, and nobody is ended. Where it is told to wait for
// itself, the item's timeout ends that.
func TestOwn_WorkInsideAnItem(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string]string{"Leaves": "", "Waits": "--wait "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("item.sh", logged+"say start\n[ $key = b ] || [ -e been ] || { touch been; "+s.self+" work j "+flags+"--lease 1s -- ./item.sh; echo $? >inner; }\nsay end\n")
			s.enqueue("j", []string{"a", "b"})
			r := s.running("work", "j", "--wait", "--lease", "1s", "--timeout", "3s", "--backoff-base", "10ms", "--backoff-cap", "10ms", "--", "./item.sh").endsWith(0)
			if got := s.file("inner"); name == "Leaves" && got != "75\n" {
				t.Errorf("the inner run ended with %s; %s", got, r)
			}
			starts := 1
			if name == "Waits" {
				starts = 2
			}
			s.wantStarts("a", starts)
			s.wantStarts("b", 1)
			s.charged("a", starts-1, 0)
			s.wantTotals(map[string]int{"done": 2})
			s.tidy()
		})
	}
}

// The same inside an item whose run is dead, or stands still: the inner run is
// a part of what has to be ended, and ends neither itself nor its ancestors;
// the item is not given away while it is a part of it. Who comes from outside
// can do both.
func TestOwn_WorkInsideAnOrphan(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"Dead": syscall.SIGKILL, "Stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("item.sh", logged+"say start\n[ ! -e go ] || { say end; exit 0; }\necho $$ >pid\nwhile [ ! -e in ]; do sleep 0.02; done\n"+
				// Twice: the second look comes after the lease and half of another.
				s.self+" work j --lease 1s -- ./item.sh 2>inner.err; sleep 1.2; "+s.self+" work j --lease 1s -- ./item.sh 2>>inner.err; sleep 1.2; "+
				s.self+" work j --lease 1s -- ./item.sh 2>>inner.err; echo $? >inner\nsleep 600\n")
			s.enqueue("j", []string{"a", "b"})
			p := s.running("work", "j", "--lease", "1s", "--", "./item.sh")
			pid := s.pidIn("pid")
			p.signal(sig)
			if sig == syscall.SIGKILL {
				p.wait()
			}
			s.write("in", "")
			s.until("the inner run has left", func() bool { return s.file("inner") != "" })
			if s.file("inner") != "75\n" || !working(pid) || sig == syscall.SIGSTOP && p.ended() {
				t.Errorf("inner: %s, its item lives: %v\n%s", s.file("inner"), working(pid), s.file("inner.err"))
			}
			if n := s.count("start"); n != 1 {
				t.Errorf("%d starts", n)
			}
			s.write("go", "")
			s.running("work", "j", "--wait", "--lease", "1s", "--kill-after", "1s", "--", "./item.sh").endsWith(0)
			if working(pid) {
				t.Error("the orphan lives")
			}
			s.wantStarts("a", 2)
			s.wantStarts("b", 1)
			s.charged("a", 0, 1)
			s.wantTotals(map[string]int{"done": 2})
			s.tidy()
		})
	}
}

// A pid on record that is a living stranger's by now: it is not touched, and
// keeps nothing waiting.
func TestOwn_PIDReused(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\n[ -e go ] || sleep 600\nsay end\n")
	s.enqueue("j", []string{"a", "b"})
	p := s.running("work", "j", "--lease", "1s", "--", "./item.sh")
	s.until("a runs", func() bool { return s.count("start") == 1 })
	p.kill()
	s.killAll()
	s.write("stranger.sh", "#!/bin/sh\nsleep 600\n")
	c := s.command()
	c.Path, c.Args, c.Env = filepath.Join(s.dir, "stranger.sh"), []string{"stranger.sh"}, []string{"PATH=" + os.Getenv("PATH")}
	stranger := s.start(c)
	defer func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }()
	db := s.other()
	for _, query := range []string{
		"UPDATE run SET pid = ?, pid_start = 1, session = 0", "UPDATE slot SET pid = ?, pid_start = 1",
	} {
		_, err := db.Exec(query, c.Process.Pid)
		s.must(err)
	}
	s.must(db.Close())
	s.write("go", "")
	s.want(0, "work", "j", "--", "./item.sh")
	if stranger.ended() {
		t.Error("a stranger was ended")
	}
	s.wantStarts("a", 2)
	s.charged("a", 0, 1)
	s.tidy()
}
