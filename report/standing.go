package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"batchq/jobs"
)

// Standing is how far a long command has come.
type Standing struct {
	Unit        string  // of what is counted: "item", "record", "page"
	Done, Total int64   // Total 0: nobody knows
	Share       float64 // of the whole, 0 to 1, where Total is 0 and that is known; else 0
	// Mine is what this command itself has brought to an end. Its pace comes
	// from that alone: what was done before it began, or beside it, says
	// nothing of how fast it is.
	Mine     int64
	Troubles []Trouble
	InFlight int
	Longest  string        // what has been in flight for longest
	For      time.Duration // and how long
	Waits    string        // what the command waits for; "" while it is at work
}

// Working is how far a command has come that does all of it by itself; total 0:
// nobody knows.
func Working(unit string, done, total int64) Standing {
	return Standing{Unit: unit, Done: done, Total: total, Mine: done}
}

// Trouble is something that a person may want to look at, and how much of it.
type Trouble struct {
	N    int64
	What string // "dead", "rejected"
}

// Line says all of it in words; elapsed is how long the command has been at it.
func (s Standing) Line(elapsed time.Duration) string {
	parts := []string{s.amount()}
	if share := s.share(); share >= 0.01 {
		parts[0] += " (" + percent(share) + ")"
	}
	return strings.Join(append(parts, s.rest(elapsed)...), ", ")
}

// amount says "8,120 of 10,000 items" or "8,120 records".
func (s Standing) amount() string {
	if s.Total == 0 {
		return grouped(s.Done) + strings.TrimPrefix(jobs.Count(s.Done, s.Unit), strconv.FormatInt(s.Done, 10))
	}
	return grouped(s.Done) + " of " + grouped(s.Total) + strings.TrimPrefix(jobs.Count(s.Total, s.Unit), strconv.FormatInt(s.Total, 10))
}

func (s Standing) share() float64 {
	if s.Total == 0 {
		return s.Share
	}
	return min(1, float64(s.Done)/float64(s.Total))
}

// percent never says 100% before the end.
func percent(share float64) string { return strconv.Itoa(int(share*100)) + "%" }

// rest is all but the amount: pace, end, troubles, what is in flight.
func (s Standing) rest(elapsed time.Duration) (parts []string) {
	if s.Mine > 0 && elapsed > 0 {
		parts = append(parts, pace(float64(s.Mine)/elapsed.Seconds()))
	}
	if left, known := s.left(elapsed); known && s.Waits == "" {
		parts = append(parts, "eta "+whole(left))
	}
	for _, t := range s.Troubles {
		if t.N > 0 {
			parts = append(parts, grouped(t.N)+" "+t.What)
		}
	}
	if s.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("%d running (%s for %s)", s.InFlight, s.Longest, whole(s.For)))
	}
	if s.Waits != "" {
		parts = append(parts, jobs.Waiting+s.Waits)
	}
	return parts
}

// left is how long it will take at this command's own pace.
func (s Standing) left(elapsed time.Duration) (time.Duration, bool) {
	var times float64 // as long as it has taken
	switch {
	case s.Total > s.Done && s.Mine > 0:
		times = float64(s.Total-s.Done) / float64(s.Mine)
	case s.Total == 0 && s.Share > 0 && s.Share < 1:
		times = (1 - s.Share) / s.Share
	default:
		return 0, false
	}
	const most = 365 * 24 * time.Hour // further ahead it is no forecast
	if seconds := times * elapsed.Seconds(); seconds > 0 && seconds < most.Seconds() {
		return time.Duration(seconds * float64(time.Second)), true
	}
	return 0, false
}

// whole is Duration without what changes faster than one can read.
func whole(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return Duration(d)
}

// pace says how many a second, a minute or an hour, whichever is a number that
// one can imagine.
func pace(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return grouped(int64(perSecond)) + "/s"
	case perSecond >= 1:
		return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
	case perSecond*60 >= 1:
		return strconv.FormatFloat(perSecond*60, 'f', 1, 64) + "/min"
	}
	return strconv.FormatFloat(perSecond*3600, 'f', 1, 64) + "/h"
}

// grouped is a number with a comma between each three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
