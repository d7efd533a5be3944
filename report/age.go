package report

import (
	"fmt"
	"time"
)

// Duration is a length of time for people, in at most two units: "340ms",
// "12s", "3m12s", "5h 40m", "2d 4h". Negative ones count as none.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Millisecond:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d/day), int(d.Hours())%24)
}

// age is how long ago t was; "-" for the zero time.
func age(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return Duration(now.Sub(t))
}

// Moment is a time for people, in the zone of now: with the date only when it
// is not today's.
func Moment(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	t = t.In(now.Location())
	y, m, d := t.Date()
	ny, nm, nd := now.Date()
	if y == ny && m == nm && d == nd {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}
