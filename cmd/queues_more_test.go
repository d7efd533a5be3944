package cmd

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/lease"
	"batchq/store"
)

// A full page of leases that had not run out hid the stuck ones behind it
// (river PR#1318). Here a run that lives has more than ten thousand leases, all
// older than the five of a run that is dead, and one command brings those back.
func TestQueues_ManyLiveLeases(t *testing.T) {
	t.Parallel()
	s := setup(t)
	n := short(1_501, 10_001)
	s.enqueue("j", sequence(n))
	release := s.holdEach("j", n)
	s.write("item.sh", logged+"say start\n[ -e free ] || exec sleep 600\nsay end\n")
	s.enqueue("j", []string{"x1", "x2", "x3", "x4", "x5"})
	line := []string{"work", "j", "--lane", "parallel", "-j", "5", "--", "./item.sh"}
	p := s.start(s.command(line...))
	s.until("five are running", func() bool { return s.count("start") == 5 })
	p.kill()
	s.write("free", "")
	// 75: what the other run holds is left.
	r := s.want(75, line...)
	if want := fmt.Sprintf("done 5, left %d (%d claimed)\n", n, n); r.stdout != want {
		t.Errorf("want %q: %s", want, r)
	}
	s.wantTotals(map[string]int{"done": 5, "claimed": n})
	s.notBeside(s.log())
	release()
	s.wantTotals(map[string]int{"done": 5, "ready": n})
	s.tidy()
}

// holdEach makes a run of this process that holds the first n items of a job,
// each under a lease of its own. It ends when the function is called.
func (s *site) holdEach(job string, n int) (release func()) {
	s.Helper()
	ctx, db := s.Context(), s.open()
	run, err := lease.Register(ctx, db, lease.Options{Database: db.Path(), Lease: time.Hour, Command: []string{"work", job}, Note: func(jobs.Note) {}})
	s.must(err)
	r := store.ClaimRequest{Run: run.Info.ID, Lane: jobs.Serial, Max: 1, Lease: time.Hour,
		Jobs: []*jobs.Spec{{Name: job, Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}}}
	for range n {
		c, err := db.Claim(ctx, r)
		s.must(err)
		if len(c.Items) != 1 {
			s.Fatalf("a claim brought %d items", len(c.Items))
		}
	}
	return func() {
		s.Helper()
		s.must(run.Close(ctx, store.RunEnd{Outcome: "finished"}))
		s.must(db.Close())
	}
}

// An unknown job panicked the runner (goqite) or its row was discarded (river).
// Here a job's definition goes while one of its items waits and one was running
// under a run that is dead: no crash, the others run, what cannot be run is
// told and kept, and goes on when the definition is back.
func TestQueues_DefinitionRemoved(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const stays = "[jobs.stays]\ncommand = [\"./item.sh\", \"{key}\"]\n"
	const goes = "[jobs.goes]\nmax_crashes = 5\ncommand = [\"./item.sh\", \"{key}\"]\n"
	s.write("item.sh", logged+"say start\n[ -e free ] || exec sleep 600\nsay end\n")
	s.write("batchq.toml", stays+goes)
	s.enqueue("goes", []string{"g1", "g2"})
	p := s.start(s.command("work"))
	s.until("one runs", func() bool { return s.count("start") == 1 })
	p.kill()
	s.enqueue("stays", []string{"s1", "s2"})
	s.write("free", "")
	s.write("batchq.toml", stays)
	r := s.want(0, "work")
	if r.stdout != "done 2, left 0\n" || !strings.Contains(r.stderr, "job goes is not declared: its 2 items are skipped; work them with: batchq work goes -- COMMAND {}\n") {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"done": 2, "ready": 2})
	// Who names it is told, and nothing of it is lost by that either.
	if r := s.want(78, "work", "goes"); !strings.Contains(r.stderr, `no job is called "goes"`) {
		t.Error(r)
	}
	if r := s.want(0, "stats"); !strings.Contains(r.stdout, "goes ") {
		t.Error(r)
	}
	for _, it := range s.items(store.Selection{Jobs: []string{"goes"}}) {
		if it.State != jobs.Ready || it.Crashes != map[string]int{"g1": 1, "g2": 0}[string(it.Key)] {
			t.Errorf("%s is %s with %d crashes", it.Key, it.State, it.Crashes)
		}
	}
	s.write("batchq.toml", stays+goes)
	s.want(0, "work")
	s.wantTotals(map[string]int{"done": 4})
	if starts := runs(s.log(), "start"); starts["g1"] != 2 || starts["g2"] != 1 || starts["s1"] != 1 || starts["s2"] != 1 {
		t.Errorf("starts: %v", starts)
	}
	s.notBeside(s.log())
	s.tidy()
}

// The conflict of one key was an internal error, and the page with the others
// was lost (riverui#622): the old ID of a dropped key that waits anew is refused
// in plain words, the other dead ones move, and the key is worked once.
func TestQueues_OldIDOfANewKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a", "K", "z"})
	s.want(3, "work", "j", "--", "sh", "-c", "exit 65")
	s.want(0, "drop", "2")
	s.enqueue("j", []string{"K"})
	r := s.want(3, "requeue", "1", "2", "3")
	if r.stdout != "requeued 2, refused 1\n" || r.stderr != "batchq: refused: item 2: it was dropped, and its key is item 4 now\n" {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"ready": 3, "dropped": 1})
	s.write("item.sh", logged+"say start\nsay end\n")
	s.want(0, "work", "j", "--", "./item.sh")
	if ends := runs(s.log(), "end"); len(ends) != 3 || ends["K"] != 1 {
		t.Errorf("ends: %v", ends)
	}
	s.wantTotals(map[string]int{"done": 3, "dropped": 1})
	s.tidy()
}

// A retry of all never ended, because what it moved failed at once and was
// there again (sidekiq#6481, #3436). Here a run follows and fails each item at
// once, and requeue --all moves those that were dead when it began, each once,
// and ends; they are more than one transaction takes.
func TestQueues_RequeueBesideAWorker(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const n = store.MaxRows + 100
	s.write("item.sh", "#!/bin/sh\necho $1 >>ran\nexit 65\n")
	s.enqueue("j", sequence(n))
	p := s.start(s.command("work", "j", "--follow", "--lane", "parallel", "-j", "4", "--", "./item.sh"))
	s.until("all are dead", func() bool { return s.totals()["dead"] == n })
	r := s.want(0, "requeue", "--all")
	if r.stdout != fmt.Sprintf("requeued %d\n", n) || r.stderr != "" {
		t.Error(r)
	}
	s.until("all are dead", func() bool { return s.totals()["dead"] == n })
	times := map[string]int{}
	for _, key := range s.lines("ran") {
		times[key]++
	}
	for key, got := range times {
		if got != 2 {
			t.Errorf("%s ran %d times, want twice", key, got)
		}
	}
	if len(times) != n {
		t.Errorf("%d items ran, want %d", len(times), n)
	}
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	p.wait()
	s.wantTotals(map[string]int{"dead": n})
	s.tidy()
}

// What is for later was counted as a backlog (pg-boss): a thousand items that
// are not due are delayed, none waits, and nothing is the oldest.
func TestQueues_LaterIsNoBacklog(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(1000), "--delay", "1h")
	text := s.want(0, "stats").stdout
	for _, row := range []string{"serial  0 of 1        0       -     1000        0     0     0\n", "j    serial        0       -     1000        0     0     0\n"} {
		if !strings.Contains(text, row) {
			t.Errorf("no row %q in\n%s", row, text)
		}
	}
	type row struct {
		Waiting, Delayed, Ready int
		Oldest                  *string  `json:"oldest_waiting"`
		Seconds                 *float64 `json:"oldest_waiting_seconds"`
	}
	var doc struct{ Lanes, Jobs []row }
	s.must(json.Unmarshal([]byte(s.want(0, "stats", "--json").stdout), &doc))
	for _, r := range append(doc.Lanes, doc.Jobs...) {
		if r != (row{Delayed: 1000}) {
			t.Errorf("stats --json: %+v", r)
		}
	}
	if len(doc.Lanes) != 1 || len(doc.Jobs) != 1 {
		t.Errorf("%d lanes, %d jobs", len(doc.Lanes), len(doc.Jobs))
	}
	if r := s.want(75, "work", "j", "--", "true"); r.stdout != "done 0, left 1000 (1000 delayed)\n" {
		t.Error(r)
	}
	s.tidy()
}
