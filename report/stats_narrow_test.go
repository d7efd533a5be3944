package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// No line of stats is wider than the terminal, and a count that a person may
// have to do something about is whole at 40 columns.
func TestStats_Narrow(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	one := 1
	totals := Totals{Ready: 765432, Dead: 54321, Done: 9876543}
	back := Backlog{Waiting: 765432, oldest: now.Add(-50 * time.Hour)}
	s := Stats{Path: "q.db", Lanes: []LaneStats{{Name: "serial", Slots: &one, Totals: totals, Backlog: back}},
		Jobs: []JobStats{{Name: strings.Repeat("settlement", 4), Lane: "serial", Totals: totals, Backlog: back}}, now: now}
	for _, width := range []int{20, 40, 60, 80} {
		var b bytes.Buffer
		if err := s.WriteText(&b, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := twwidth.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
		if n := strings.Count(b.String(), "54321\n"); width >= 40 && n != 2 {
			t.Errorf("%d columns: DEAD is whole in %d tables of 2:\n%s", width, n, b.String())
		}
	}
}
