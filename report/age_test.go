package report

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{-time.Hour, "0s"}, {0, "0s"}, {999 * time.Microsecond, "0s"}, {time.Millisecond, "1ms"}, {999 * time.Millisecond, "999ms"},
		{time.Second, "1s"}, {1040 * time.Millisecond, "1s"}, {1100 * time.Millisecond, "1.1s"}, {9999 * time.Millisecond, "9.9s"},
		{12400 * time.Millisecond, "12s"}, {59999 * time.Millisecond, "59s"}, {time.Minute, "1m00s"}, {192 * time.Second, "3m12s"},
		{time.Hour, "1h 0m"}, {5*time.Hour + 40*time.Minute + 59*time.Second, "5h 40m"}, {52 * time.Hour, "2d 4h"}, {400 * 24 * time.Hour, "400d 0h"},
	} {
		if got := Duration(c.d); got != c.want {
			t.Errorf("Duration(%v) = %q, want %q", c.d, got, c.want)
		}
	}
}

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
