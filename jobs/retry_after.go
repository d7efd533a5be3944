package jobs

import (
	"strings"
	"time"
)

// datesOfHTTP are the three forms of a date that a server may send (RFC 9110,
// section 5.6.7).
var datesOfHTTP = []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC}

// longestRetryAfter is as far as any answer is believed, so that no arithmetic
// on it overflows; a job's retry_after_cap is far below.
const longestRetryAfter = 10 * 365 * 24 * time.Hour

// ParseRetryAfter reads the value of a Retry-After header: seconds or a date,
// which is compared with now, the server's clock where that is known. What is
// neither, or names no time to come, is no wish: 0.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, whole, fraction := digits(value); whole {
		if fraction && seconds == 0 {
			return time.Second // less than one is not none
		}
		return min(time.Duration(seconds)*time.Second, longestRetryAfter)
	}
	for _, layout := range datesOfHTTP {
		if at, err := time.Parse(layout, value); err == nil {
			// Sub saturates, and a date that has passed asks for nothing.
			return max(0, min(at.Sub(now), longestRetryAfter))
		}
	}
	return 0
}

// digits reads a number of seconds, of which some servers send a fraction. One
// that is too large is the largest that is believed.
func digits(text string) (seconds int64, whole, fraction bool) {
	text, part, dotted := strings.Cut(text, ".")
	if text == "" || strings.Trim(text+part, "0123456789") != "" {
		return 0, false, false
	}
	for _, c := range text {
		seconds = min(seconds*10+int64(c-'0'), int64(longestRetryAfter/time.Second))
	}
	return seconds, true, dotted && strings.Trim(part, "0") != ""
}
