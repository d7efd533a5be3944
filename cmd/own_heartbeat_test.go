package cmd

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// renewals watches the lease of what is claimed until stop is closed, and
// returns the longest time between two renewals.
func (s *site) renewals(stop <-chan struct{}) (worst time.Duration, n int) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+s.db+"?mode=ro")
	s.must(err)
	defer db.Close()
	var last int64
	for {
		var at int64
		if err := db.QueryRow("SELECT min(until - lease) FROM claim").Scan(&at); err == nil && at > 0 {
			if last > 0 && at > last {
				worst, n = max(worst, time.Duration(at-last)*time.Millisecond), n+1
			}
			last = at
		}
		select {
		case <-stop:
			return max(worst, time.Since(time.UnixMilli(last))), n
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// SQLite starved a heartbeat for 15 s behind busy writers, and the job ran
// twice (DotNetWorkQueue#328, #294). Here four loops enqueue without a pause
// beside one long item and a second run that looks on: it runs once, and its
// lease never comes near its end.
func TestOwn_HeartbeatBesideWriters(t *testing.T) {
	t.Parallel()
	s := setup(t)
	item, lease, many := short(5, 40), time.Duration(short(2, 10))*time.Second, short(20_000, 100_000)
	s.write("item.sh", logged+fmt.Sprintf("say start\nsleep %d\nsay end\n", item))
	s.write("list", strings.Join(sequence(many), "\n"))
	s.enqueue("j", []string{"a"})
	line := []string{"work", "j", "--wait", "--lease", lease.String(), "--", "./item.sh"}
	p := s.running(line...)
	s.until("it runs", func() bool { return s.count("start") == 1 })
	second := s.running(line...)

	var writing, watching sync.WaitGroup
	rounds := make([]int, 4)
	for i := range rounds {
		writing.Go(func() {
			for ; !p.ended(); rounds[i]++ {
				r := s.start(s.command("enqueue", "k", "--scope", fmt.Sprint(i, "-", rounds[i]), "list")).wait()
				if r.code != 0 {
					t.Errorf("enqueue: %s", r)
					return
				}
			}
		})
	}
	var worst time.Duration
	var renewed int
	stop := make(chan struct{})
	watching.Go(func() { worst, renewed = s.renewals(stop) })
	s.until("its end", func() bool { return s.count("end") == 1 || p.ended() })
	close(stop)
	watching.Wait()
	first, other := p.endsWith(0), second.endsWith(0)
	writing.Wait()
	t.Logf("%d renewals, at most %s apart where %s is meant; %v lists of %d", renewed, worst, lease/4, rounds, many)
	if worst > lease {
		t.Errorf("the lease of %s lapsed: %s without a renewal", lease, worst)
	}
	if text := first.stderr + other.stderr; strings.Contains(text, "is dead") || strings.Contains(text, "lapse") || strings.Contains(text, "could not be renewed") {
		t.Error(text)
	}
	s.wantStarts("a", 1)
	s.charged("a", 0, 0)
}

// The heartbeat stopped at SIGTERM, before what ran was waited for, and another
// worker took it (solid_queue#568). Here a run that was told to stop keeps its
// lease until its item has come to its end.
func TestOwn_HeartbeatWhileStopping(t *testing.T) {
	t.Parallel()
	s := setup(t)
	lease := time.Duration(short(1, 5)) * time.Second
	s.write("item.sh", logged+fmt.Sprintf("say start\n[ $key != a ] || sleep %d\nsay end\n", short(4, 20)))
	s.enqueue("j", []string{"a", "b"})
	line := []string{"work", "j", "--wait", "--lease", lease.String(), "--grace", "1m", "--", "./item.sh"}
	p := s.running(line...)
	s.until("a runs", func() bool { return s.count("start") == 1 })
	second := s.running(line...)
	p.signal(syscall.SIGTERM)
	r := p.endsWith(143)
	if !strings.HasPrefix(r.stdout, "done 1, ") {
		t.Error(r)
	}
	if n := s.count("start"); n > 2 {
		t.Errorf("%d starts", n)
	}
	if r := second.endsWith(0); r.stdout != "done 1, left 0\n" || strings.Contains(r.stderr, "is dead") {
		t.Error(r)
	}
	events := s.log()
	for i, e := range events {
		if e.key == "b" && e.what == "start" && (i < 2 || events[1].key != "a" || events[1].what != "end") {
			t.Errorf("b began before a had ended: %v", events)
		}
	}
	s.wantStarts("a", 1)
	s.wantStarts("b", 1)
	s.charged("a", 0, 0)
	s.tidy()
}
