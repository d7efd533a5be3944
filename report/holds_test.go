package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"batchq/store"
)

// holding is a picture with everything in it that holds work back.
func holding(now time.Time) store.Stats {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	return store.Stats{Now: now, Path: "q.db",
		Pauses: []store.Pause{{Since: ago(50 * time.Hour), By: "ann\x1b[2J"}, {Target: store.Target{Job: "pos"}, Since: ago(time.Hour), By: "ann", Reason: "a\nb\xff"}},
		Jobs: []store.JobStats{
			{Name: "calm"},
			{Name: "held", Breaker: &store.Breaker{Opened: ago(time.Minute), Until: ago(-time.Minute), Times: 2, Reason: "exit\x1b 75"}},
			{Name: "half", Breaker: &store.Breaker{Opened: ago(time.Hour), Until: ago(time.Minute), Times: 1, Reason: "exit 1"}},
			{Name: "set-back", Breaker: &store.Breaker{Opened: ago(-time.Hour), Until: ago(-2 * time.Hour), Times: 1, Reason: "exit 1"}},
		},
		Squeezed: []store.Squeezed{{Job: "big", Since: ago(time.Minute)}}}
}

func TestStats_Holds(t *testing.T) {
	now := time.Date(2026, 11, 29, 9, 12, 0, 0, time.UTC).Local()
	s := NewStats(holding(now), Lanes{}, nil, now)
	at := func(d time.Duration) string { return now.Add(d).Format("15:04") }
	want := []string{
		"paused: everything since " + now.Add(-50*time.Hour).Format("2006-01-02 15:04") + ` by ann\x1b[2J`,
		"paused: job pos since " + clock(now.Add(-time.Hour), now) + ` by ann: a\nb\xff`,
		"held: job held until " + at(time.Minute) + `, opened 2 times, last failure: exit\x1b 75`,
		"held: job half to one item at a time since its breaker opened at " + clock(now.Add(-time.Hour), now) + ", opened once, last failure: exit 1",
		"held: job set-back to one item at a time since its breaker opened at " + clock(now.Add(time.Hour), now) + ", opened once, last failure: exit 1",
		"squeezed: job big finds no room in its pools since " + at(-time.Minute) + "; after a whole lease they are kept free for the one that waits longest",
	}
	var b bytes.Buffer
	if err := s.WriteText(&b, 0); err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(b.String(), "\n\n")
	if got := strings.Split(text, "\n")[2:]; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.Reset()
	if err := WriteJSON(&b, s); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		`"breaker": {
        "opened": "2026-11-29T09:11:00.000Z",
        "until": "2026-11-29T09:13:00.000Z",
        "times": 2,
        "reason": "exit\u001b 75"
      }`,
		`"breaker": null`,
		`"squeezed": [
    {
      "job": "big",
      "since": "2026-11-29T09:11:00.000Z"
    }
  ]`,
		`"reason": "a\nb\\xff"`,
	} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("no\n%s\nin\n%s", part, b.String())
		}
	}
}

// TestRuns_LookAt names ten items, then counts.
func TestRuns_LookAt(t *testing.T) {
	now := time.Now()
	rows := []store.RunRow{{RunInfo: store.RunInfo{ID: 7, Ended: now}, Outcome: "died (lease)"}, {RunInfo: store.RunInfo{ID: 6, Ended: now}, Outcome: "finished"}}
	for i := range 11 {
		rows[0].Crashed = append(rows[0].Crashed, store.CrashedItem{Item: int64(i + 1), Job: "j", Key: []byte("k")})
	}
	rows[1].Crashed = rows[0].Crashed[:1]
	lines := NewRuns(rows, nil, nil, false, now).LookAt()
	if len(lines) != Named+1 || lines[Named] != "and 2 more; all are in --json" {
		t.Errorf("%q", lines)
	}
	lines = NewRuns(rows[1:], nil, nil, false, now).LookAt()
	if len(lines) != 1 || lines[0] != "run 6 ended while this ran: job j, item 1, key k (attempt 0), now ready" {
		t.Errorf("%q", lines)
	}
}

// TestStillRunning also knows items that are held and do not run.
func TestStillRunning(t *testing.T) {
	now := time.Date(2026, 11, 29, 9, 12, 0, 0, time.Local)
	for _, c := range []struct {
		in   store.InHand
		want string
	}{
		{store.InHand{Running: 3, Holders: []store.Holder{{Run: 12, Slots: 2, Since: now}, {Run: 13, Slots: 1, Since: now.Add(time.Minute)}}},
			"job pos: 3 still running (run 12 since 09:12, run 13 since 09:13)"},
		{store.InHand{Claimed: 1}, "job pos: 1 still claimed"},
	} {
		if got := StillRunning(store.Target{Job: "pos"}, c.in, now); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
