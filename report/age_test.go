package report

import (
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	zone := time.FixedZone("here", 3*3600)
	now := time.Date(2026, 11, 29, 1, 30, 0, 0, zone)
	for _, c := range []struct {
		t    time.Time
		want string
	}{
		{time.Time{}, "-"},
		{time.Date(2026, 11, 28, 22, 0, 1, 0, time.UTC), "01:00:01"}, // today, here
		{time.Date(2026, 11, 28, 20, 0, 1, 0, time.UTC), "2026-11-28 23:00:01"},
	} {
		if got := Moment(c.t, now); got != c.want {
			t.Errorf("Moment(%v) = %q, want %q", c.t, got, c.want)
		}
	}
}
