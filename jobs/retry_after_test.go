package jobs_test

import (
	"testing"
	"time"

	"batchq/jobs"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// retryAfters are what servers send, and what it comes to at noon.
var retryAfters = []struct {
	value string
	want  time.Duration
}{
	{"120", 2 * time.Minute},
	{" 7 ", 7 * time.Second},
	{"0", 0},
	{"1.5", time.Second},
	{"0.2", time.Second}, // less than a second is not none
	{"0.0", 0},
	{"-5", 0},
	{"+5", 0},
	{"", 0},
	{"soon", 0},
	{"1e9", 0},
	{"0x10", 0},
	{"1, 2", 0},
	{".5", 0},
	{"99999999999999999999999999", 10 * 365 * 24 * time.Hour},
	{"Sun, 29 Nov 2026 12:00:30 GMT", 30 * time.Second},
	{"Sunday, 29-Nov-26 12:00:30 GMT", 30 * time.Second},
	{"Sun Nov 29 12:00:30 2026", 30 * time.Second},
	{"Sun, 29 Nov 2026 11:59:59 GMT", 0},
	{"Fri, 31 Dec 9999 23:59:59 GMT", 10 * 365 * 24 * time.Hour},
	{"Sun, 29 Nov 2026 12:00:30 CET", 0},
	{"Sun, 29 Nov 2026 25:00:00 GMT", 0},
}

func TestParseRetryAfter(t *testing.T) {
	for _, c := range retryAfters {
		if got := jobs.ParseRetryAfter(c.value, noon); got != c.want {
			t.Errorf("%q: %s, want %s", c.value, got, c.want)
		}
	}
}

// FuzzParseRetryAfter: whatever a server sends, the wait is no less than none
// and no more than is believed, and a job's cap bounds what becomes of it.
func FuzzParseRetryAfter(f *testing.F) {
	for _, c := range retryAfters {
		f.Add(c.value, int64(0))
	}
	f.Fuzz(func(t *testing.T, value string, at int64) {
		now := noon.Add(time.Duration(at))
		d := jobs.ParseRetryAfter(value, now)
		if d < 0 || d > 10*365*24*time.Hour {
			t.Fatalf("%q at %s: %s", value, now, d)
		}
		p := jobs.DefaultPolicy()
		v := p.Judge(&jobs.Item{}, jobs.Result{Ending: jobs.Answered, Status: 429, RetryAfter: d}, half)
		if v.Hold <= 0 || v.Hold > p.RetryAfterCap || v.Delay > p.RetryAfterCap {
			t.Fatalf("%q: %+v", value, v)
		}
	})
}
