package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Reasons that have nothing in common don't fill the memory: what fits no group
// is counted, and nothing else is lost.
func TestDeadGroups_Bounded(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	d := NewDeadGroups(ByError, now)
	word := func(i int) string { // no number, which would be masked
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(i))
	}
	rows := make([]store.ItemRow, groupsKept+500)
	for i := range rows {
		rows[i] = store.ItemRow{Item: jobs.Item{ID: int64(i + 1), Job: "j"}, Class: jobs.ClassPermanent,
			Reason: word(i) + strings.Repeat(" long", 100), Finished: now.Add(time.Duration(i) * time.Second)}
	}
	d.Add(rows)
	d.Add(rows[7:9])
	d.Sort(3)
	if d.Items != len(rows)+2 || d.Apart != 500 || len(d.Groups) != 3 || d.More != groupsKept-3 {
		t.Errorf("%d items, %d apart, %d groups, %d more", d.Items, d.Apart, len(d.Groups), d.More)
	}
	for i, want := range []string{"j: 2 like [9 9]", "j: 2 like [8 8]", fmt.Sprintf("j: 1 like [%d]", groupsKept)} {
		g := d.Groups[i]
		if got := fmt.Sprintf("%s: %d like %d", g.Jobs[0], g.Count, g.Examples); got != want {
			t.Errorf("group %d is %s, want %s", i, got, want)
		}
		if len(g.Text) > textKept+len("…") || len(g.Part) > longestPart {
			t.Errorf("group %d keeps %d and %d bytes", i, len(g.Text), len(g.Part))
		}
	}
}
