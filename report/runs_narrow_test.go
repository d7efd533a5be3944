package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"batchq/jobs"
	"batchq/store"
)

// No line is wider than the terminal, and how a run ended and what it was are
// there at every usual width.
func TestRuns_Narrow(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	info := func(id int64) store.RunInfo {
		return store.RunInfo{ID: id, PID: 4194304, Host: "h", Started: now.Add(-48 * time.Hour), Ended: now,
			Command: []string{"work", "settlement", "--scope", "2026-11-29", "--wait", "--", "sh", "-c", "echo a long command"}}
	}
	rows := []store.RunRow{
		{RunInfo: info(123456), Outcome: "died (crash)", Batches: 1234, PeakBytes: 123 << 20, Crashed: []store.CrashedItem{
			{Item: 1, Job: "settlement", Scope: "2026-11-29", Key: []byte("C-1006"), Attempt: 2, State: jobs.Ready},
			{Item: 2, Job: "settlement", Key: []byte(strings.Repeat("日", 60)), Attempt: 2, State: jobs.Ready}}},
		{RunInfo: info(7), Outcome: "stopped by TERM", Batches: 1},
	}
	for width := 20; width <= 200; width++ {
		list := NewRuns(rows, nil, nil, false, now)
		var b bytes.Buffer
		if err := list.WriteTable(&b, width); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		for line := range strings.Lines(text) {
			if w := twwidth.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
		if width < 60 {
			continue // lines are cut
		}
		for _, part := range []string{"123456", "died (crash)", "stopped", "batchq wor", "run 123456 died while this ran: job settlement"} {
			if !strings.Contains(text, part) {
				t.Errorf("no %q at %d:\n%s", part, width, text)
			}
		}
		if head, _, _ := strings.Cut(text, "\n"); strings.Contains(head, "BATCHES") == strings.Contains(text, "left out, for want of room: BATCHES") {
			t.Errorf("BATCHES at %d:\n%s", width, text)
		}
	}
	var b bytes.Buffer
	if err := NewRuns(rows, nil, nil, false, now).WriteTable(&b, 0); err != nil || strings.Contains(b.String(), "left out") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// A pid of another pid namespace is no process here, and that is said of those
// that may be at work.
func TestRuns_Elsewhere(t *testing.T) {
	now := time.Now()
	rows := []store.RunRow{{RunInfo: store.RunInfo{ID: 3, PID: 2, Started: now}}, {RunInfo: store.RunInfo{ID: 2, PID: 2, Started: now}},
		{RunInfo: store.RunInfo{ID: 1, PID: 2, Started: now, Ended: now}, Outcome: "finished"}}
	list := NewRuns(rows, map[int64]Life{2: Dead}, nil, false, now)
	list.MarkElsewhere(map[int64]bool{1: true, 2: true, 3: true})
	want := "run 3 is pid 2 in another pid namespace: that number is no process of it here"
	if got := list.Elsewhere(); len(got) != 1 || got[0] != want {
		t.Errorf("%q", got)
	}
	var b bytes.Buffer
	if err := list.WriteTable(&b, 0); err != nil || !strings.Contains(b.String(), fmt.Sprintf("\n%s\n", want)) {
		t.Errorf("%v:\n%s", err, b.String())
	}
}
