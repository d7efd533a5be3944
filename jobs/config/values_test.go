package config

import (
	"strings"
	"testing"
	"time"

	"batchq/jobs"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "60s": time.Minute, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, "-1d1h": -25 * time.Hour,
		"+2d": 48 * time.Hour, "0d": 0, "-5s": -5 * time.Second, "106751d": 106751 * 24 * time.Hour,
	} {
		got, err := ParseDuration(text)
		if err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"60":  `"60" has no unit: write "60s"`,
		"1.5": `"1.5" has no unit: write "1.5s"`,
	} {
		if _, err := ParseDuration(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{"", "s", "d", "1h30", "1x", "1 h", " 1h", "1d 2h", "1d-2h", "2h1d", "1d2d", "1dd", "-+1d", "1d2", "106752d", "106751d24h", "9999999999h", strings.Repeat("9", 500) + "d"} {
		want := show(text) + ` is not a duration: write one like "500ms", "60s", "1h30m" or "7d"`
		if d, err := ParseDuration(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v, want %s", text, d, err, want)
		}
	}
}

func TestExpandScope(t *testing.T) {
	tokyo := time.FixedZone("+9", 9*3600)
	// In UTC this is still the day before.
	now := time.Date(2026, 11, 29, 4, 30, 0, 0, tokyo)
	for text, want := range map[string]string{
		"":                  "",
		"fixed":             "fixed",
		"@today":            "2026-11-29",
		"@yesterday":        "2026-11-28",
		"@hour":             "2026-11-29T04",
		"eu-@today":         "eu-2026-11-29",
		"@today-eu":         "2026-11-29-eu",
		"@today_eu":         "2026-11-29_eu",
		"@yesterday/@today": "2026-11-28/2026-11-29",
		"me@@example":       "me@example",
		"@@today":           "@today",
		"@@@today":          "@2026-11-29",
	} {
		got, err := ExpandScope(text, now)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for text, word := range map[string]string{
		"@tomorrow": "@tomorrow", "x@": "@", "a@-b": "@", "@today2": "@today2", "@Today": "@Today", "@todayeu": "@todayeu", "@@@": "@",
	} {
		want := `no scope word is called "` + word + `": want @today, @yesterday or @hour, or @@ for a literal @`
		if _, err := ExpandScope(text, now); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Where the clocks jump at midnight, "now less 24 hours" is the wrong day.
func TestExpandScope_YesterdayIsOfTheCalendar(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Skip(err)
	}
	for now, want := range map[time.Time]string{
		time.Date(2026, 9, 7, 0, 30, 0, 0, zone): "2026-09-06", // 00:30 of that day does not exist
		time.Date(2026, 3, 1, 0, 0, 0, 0, zone):  "2026-02-28",
		time.Date(2027, 1, 1, 12, 0, 0, 0, zone): "2026-12-31",
	} {
		if got, err := ExpandScope("@yesterday", now); err != nil || got != want {
			t.Errorf("%v: %q, %v, want %q", now, got, err, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"timeout", "lane", "uses", "backoff.base"}
	for word, want := range map[string]string{
		"timout": "timeout", "lanes": "lane", "use": "uses", "backoff_base": "backoff.base",
		"rate": "", "x": "", "": "", "colour": "", strings.Repeat("timeout", 99): "",
	} {
		if got := jobs.Nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
