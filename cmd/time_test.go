package cmd

import (
	"testing"
	"time"
)

func TestParseSince(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	// 26 October 2026 is the day after the clocks went back: the day before has 25 hours.
	now := time.Date(2026, 10, 26, 9, 0, 0, 0, zone)
	for text, want := range map[string]time.Duration{
		"24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "90s": 90 * time.Second,
		"today": 9 * time.Hour, "yesterday": (9 + 25) * time.Hour,
		"2026-10-26 08:30":     30 * time.Minute,
		"2026-10-25":           (9 + 25) * time.Hour,
		"2026-10-26T07:00:00Z": time.Hour,
	} {
		if got, err := parseSince(text, now); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "0s", "-1h", "tomorrow", "2026-10-27", "5", "2026-13-01"} {
		if got, err := parseSince(text, now); err == nil {
			t.Errorf("%s: %v", text, got)
		} else if codeOf(err) != exitUsage {
			t.Errorf("%s: %v is no usage error", text, err)
		}
	}
}

func TestParseTime(t *testing.T) {
	zone := time.FixedZone("", -8*3600)
	for text, want := range map[string]string{
		"2026-11-29 08:00":          "2026-11-29T08:00:00-08:00",
		"2026-11-29 08:00:01":       "2026-11-29T08:00:01-08:00",
		"2026-11-29T08:00":          "2026-11-29T08:00:00-08:00",
		"2026-11-29":                "2026-11-29T00:00:00-08:00",
		"2026-11-29T08:00:00Z":      "2026-11-29T08:00:00Z",
		"2026-11-29T08:00:00+05:30": "2026-11-29T08:00:00+05:30",
	} {
		if got, err := parseTime(text, zone); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
}
