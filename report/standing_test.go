package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/vbauerster/mpb/v8"

	"batchq/jobs"
	"batchq/store"
)

func TestStanding_Line(t *testing.T) {
	for want, s := range map[string]Standing{
		"0 items": {Unit: "item"},
		"1 item":  {Unit: "item", Done: 1},
		"8,120 of 10,000 items (81%), 12/s, eta 2m36s, 2 dead, 1 running (C-1006 for 3s)": {
			Unit: "item", Done: 8120, Total: 10000, Mine: 120, InFlight: 1, Longest: "C-1006", For: 3900 * time.Millisecond,
			Troubles: []Trouble{{2, "dead"}, {0, "retried"}}},
		"9,999 of 10,000 items (99%), 999/s, eta 0s": {Unit: "item", Done: 9999, Total: 10000, Mine: 9999},
		"3 of 3 items (100%), 18.0/min":              {Unit: "item", Done: 3, Total: 3, Mine: 3},
		"50 of 100 items (50%)":                      {Unit: "item", Done: 50, Total: 100}, // all of it by others
		"1,000,000 records (25%), 100,000/s, eta 30s": {
			Unit: "record", Done: 1_000_000, Mine: 1_000_000, Share: 0.25},
		"1 of 1,000,000 items, 6.0/min, eta 115d17h":          {Unit: "item", Done: 1, Total: 1_000_000, Mine: 1},
		"1 of 9,000,000 items, 6.0/min":                       {Unit: "item", Done: 1, Total: 9_000_000, Mine: 1}, // years
		"20 of 40 items (50%), 2.0/s, eta 10s, 1,234 refused": {Unit: "item", Done: 20, Total: 40, Mine: 20, Troubles: []Trouble{{1234, "refused"}}},
	} {
		if got := s.Line(10 * time.Second); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if got, want := (Standing{Unit: "item", Done: 2, Mine: 2}).Line(2*time.Hour), "2 items, 1.0/h"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestStanding_Draw(t *testing.T) {
	s := Standing{Unit: "item", Done: 8120, Total: 10000, Mine: 120, InFlight: 2, Longest: "日本-1006", For: 3 * time.Second, Troubles: []Trouble{{2, "dead"}}}
	style := mpb.BarStyle().Build()
	for _, width := range []int{1, 10, 20, 33, 47, 48, 60, 80, 120, 300} {
		for _, s := range []Standing{s, {Unit: "record", Done: 7, Mine: 7}} {
			var b bytes.Buffer
			if err := s.draw(&b, style, width, time.Minute); err != nil {
				t.Fatal(err)
			}
			if w := twwidth.Width(b.String()); w > width || strings.Contains(b.String(), "\n") {
				t.Errorf("%d columns: %q takes %d", width, b.String(), w)
			}
		}
	}
	var b bytes.Buffer
	if err := s.draw(&b, style, 80, time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "8,120 of 10,000 items [========>--] 81%  2.0/s  eta 15m40s  2 dead  2 running (…"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What was settled before a run began is a part of the whole of a scope, and
// of nothing else; it never makes the pace.
func TestProgress_Standing(t *testing.T) {
	quiet := func(string, ...any) {}
	to := Printer{Must: quiet, Note: quiet, Detail: quiet}
	for _, c := range []struct {
		whole bool
		want  Standing
	}{
		{true, Standing{Done: 8003, Total: 10000, Mine: 2}},
		{false, Standing{Done: 3, Total: 2000, Mine: 2}},
	} {
		p := NewProgress(to, "", c.whole)
		item := func(id int64) *jobs.Item { return &jobs.Item{ID: id, Job: "j", Key: []byte("k")} }
		for id := range int64(6) {
			p.Started(item(id))
		}
		if s := p.Standing(); s.Total != 0 || s.InFlight != 6 || s.Longest != "k" {
			t.Errorf("before the first look: %+v", s)
		}
		p.Look(store.Counts{Enqueued: 10100, Ready: 1994, Running: 6, Done: 7900, Dead: 100, Dropped: 60, Pruned: 40})
		p.Settled(item(0), jobs.Result{}, jobs.Verdict{To: jobs.Done})
		p.Settled(item(1), jobs.Result{}, jobs.Verdict{To: jobs.Delayed})
		p.Refused(item(2))
		p.Look(store.Counts{Enqueued: 10100, Ready: 1994, Delayed: 1, Running: 3, Done: 7902, Dead: 100, Dropped: 60, Pruned: 40}) // one is another run's
		p.Settled(item(3), jobs.Result{}, jobs.Verdict{To: jobs.Dead})
		s := p.Standing()
		if s.Done != c.want.Done || s.Total != c.want.Total || s.Mine != c.want.Mine || s.InFlight != 2 || s.Troubles[0].N != 1 || s.Troubles[1].N != 1 {
			t.Errorf("whole %v: got %+v, want %+v", c.whole, s, c.want)
		}
	}
}
