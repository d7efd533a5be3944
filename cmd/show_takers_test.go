package cmd

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/store"
)

// Who waits for an item is told of the runs that take it, and of no others.
func TestShow_Takers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "batchq.toml")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{Path: file, Jobs: map[string]*jobs.Spec{"mix": {Name: "mix", Lane: "fast"}}}
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	for _, c := range []struct {
		name, job string
		served    bool
		line      []string
		want      bool
	}{
		{"Named", "mix", false, []string{"work", "mix"}, true},
		{"NamedAmongOthers", "mix", false, []string{"--db", "q.db", "work", "--follow", "a", "mix", "-j", "2"}, true},
		{"AnotherJob", "mix", true, []string{"work", "left2"}, false},
		{"OnlyInItsCommand", "mix", false, []string{"work", "left2", "--", "echo", "mix"}, false},
		{"OnlyAFlagsValue", "mix", false, []string{"work", "left2", "--scope", "mix"}, false},
		{"WithACommand", "mix", false, []string{"work", "mix", "--", "true"}, true},
		{"All", "mix", false, []string{"work"}, true},
		{"AllThatAreDeclared", "loose", false, []string{"work"}, false},
		{"AllOfThisFile", "mix", false, []string{"work", "--config", file}, true},
		{"AllOfAnotherFile", "mix", false, []string{"work", "--config", dir}, false},
		{"AllOfAnotherFileAndServed", "mix", true, []string{"work", "--config", dir}, true},
		{"ItsScope", "mix", false, []string{"work", "mix", "--scope", "2026-11-29"}, true},
		{"ItsScopeByAWord", "mix", false, []string{"work", "--scope", "@today"}, true},
		{"AnotherScope", "mix", true, []string{"work", "mix", "--scope", "2026-11-28"}, false},
		{"ItsLane", "mix", false, []string{"work", "--lane", "fast"}, true},
		{"AnotherLane", "mix", true, []string{"work", "--lane", "serial"}, false},
		{"MovedToALane", "mix", false, []string{"work", "mix", "--lane", "serial", "--", "true"}, true},
		{"NoWork", "mix", false, []string{"pause", "mix", "--wait"}, false},
		{"NotUnderstood", "mix", false, []string{"work", "mix", "--flag-of-tomorrow"}, true},
		{"NotUnderstoodAnotherJob", "mix", false, []string{"work", "a", "--flag-of-tomorrow"}, false},
		{"NotUnderstoodAndServed", "mix", true, []string{"work", "--flag-of-tomorrow"}, true},
		{"Nothing", "mix", false, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &store.Story{Lane: "fast", Runs: []store.RunInfo{{ID: 7, Command: c.line, Started: began}}}
			s.Item.Job, s.Item.Scope = c.job, "2026-11-29"
			if c.served {
				s.Served = []int64{7}
			}
			if got := (&app{}).takers(s, cfg)[7]; got != c.want {
				t.Errorf("it takes it: %v", got)
			}
		})
	}
}

// A run of another job is at work, and show says what to type.
func TestShow_NobodyTakesIt(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("batchq.toml", "[lanes.fast]\nin_flight = 2\n[jobs.mix]\nlane = 'fast'\nshell = ':'\n")
	s.enqueue("mix", []string{"a"})
	s.enqueue("left2", []string{"b"})
	p := s.running("work", "left2", "--", "sh", "-c", "echo $$ > pid; while [ ! -e go ]; do sleep 0.02; done")
	s.pidIn("pid")
	doc, text := s.shows("mix", "a")
	s.wantCodes(doc, "no_run")
	s.wantText(text, "no run that is at work takes it (at work: run 1) to start one that does: batchq work mix")
	s.write("go", "")
	s.expect(p.wait(), 0, "work")

	p = s.running("work", "mix", "--follow")
	s.until("it is done", func() bool { doc, _ := s.shows("mix", "a"); return doc.State == "done" })
	s.want(0, "pause", "mix")
	s.enqueue("mix", []string{"c"})
	doc, _ = s.shows("mix", "c")
	s.wantCodes(doc, "paused") // and nothing of a run that is missing
	p.signal(15)
	p.wait()
	s.tidy()
}
