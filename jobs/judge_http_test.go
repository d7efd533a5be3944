package jobs_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
)

func status(code int) jobs.Result { return jobs.Result{Ending: jobs.Answered, Status: code} }

// Each row of the class table for HTTP.
func TestPolicy_Judge_HTTP(t *testing.T) {
	p := jobs.DefaultPolicy()
	retry := func(class jobs.Class, delay, hold time.Duration, reason string) jobs.Verdict {
		return jobs.Verdict{To: jobs.Delayed, Class: class, Delay: delay, Hold: hold, Charge: jobs.ChargeFailure, Reason: reason}
	}
	dead := func(reason string) jobs.Verdict {
		return jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: reason}
	}
	with := func(code int, after time.Duration) jobs.Result {
		return jobs.Result{Ending: jobs.Answered, Status: code, RetryAfter: after}
	}
	const jitter = 5 * time.Second // half of the base
	done := jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}
	for _, c := range []struct {
		name   string
		result jobs.Result
		want   jobs.Verdict
	}{
		{"200", status(200), done},
		{"201", status(201), done},
		{"204", status(204), done},
		{"299", status(299), done},
		{"101", status(101), dead("HTTP 101")},
		{"301", jobs.Result{Ending: jobs.Answered, Status: 301, Location: "https://b/x"}, dead("HTTP 301, not followed: to https://b/x")},
		{"301Why", jobs.Result{Ending: jobs.Answered, Status: 301, Location: "/x", Error: "more than 10 redirects"}, dead("HTTP 301: more than 10 redirects")},
		{"304", status(304), dead("HTTP 304")},
		{"400", jobs.Result{Ending: jobs.Answered, Status: 400, StatusText: "Bad Request", Said: "no amount"}, dead("HTTP 400 Bad Request: no amount")},
		{"401", status(401), dead("HTTP 401")},
		{"404", status(404), dead("HTTP 404")},
		{"409", status(409), dead("HTTP 409")},
		{"408", status(408), retry(jobs.ClassRetry, jitter, 0, "HTTP 408")},
		{"425", status(425), retry(jobs.ClassRetry, jitter, 0, "HTTP 425")},
		{"429", status(429), retry(jobs.ClassThrottled, jitter, jitter, "HTTP 429")},
		{"429After", with(429, time.Minute), retry(jobs.ClassThrottled, time.Minute, time.Minute, "HTTP 429 (Retry-After 1m0s)")},
		{"429AfterLess", with(429, time.Second), retry(jobs.ClassThrottled, jitter, time.Second, "HTTP 429 (Retry-After 1s)")},
		{"429AfterBeyondTheCap", with(429, 3*time.Hour), retry(jobs.ClassThrottled, time.Hour, time.Hour, "HTTP 429 (Retry-After 3h0m0s)")},
		{"500", status(500), retry(jobs.ClassRetry, jitter, 0, "HTTP 500")},
		{"500After", with(500, time.Minute), retry(jobs.ClassRetry, time.Minute, 0, "HTTP 500 (Retry-After 1m0s)")},
		{"503", status(503), retry(jobs.ClassRetry, jitter, 0, "HTTP 503")},
		{"503After", with(503, time.Minute), retry(jobs.ClassThrottled, time.Minute, time.Minute, "HTTP 503 (Retry-After 1m0s)")},
		{"599", status(599), retry(jobs.ClassRetry, jitter, 0, "HTTP 599")},
		{"999", status(999), retry(jobs.ClassRetry, jitter, 0, "HTTP 999")},
		{"Unreached", jobs.Result{Ending: jobs.Unreached, Error: "connection refused"}, retry(jobs.ClassRetry, jitter, 0, "connection refused")},
		{"Severed", jobs.Result{Ending: jobs.Severed, Error: "reset"}, retry(jobs.ClassRetry, jitter, 0, "reset")},
		{"TimedOut", jobs.Result{Ending: jobs.TimedOut, Unsent: true, Error: "no connection"}, retry(jobs.ClassTimeout, jitter, 0, "timed out after 1h0m0s: no connection")},
		{"Unresolved", jobs.Result{Ending: jobs.Unresolved, Error: "no field"}, dead("no field")},
		{"NoSecret", jobs.Result{Ending: jobs.CantExec, Error: "not set"}, jobs.Verdict{To: jobs.Ready, Class: jobs.ClassBroken, Reason: "not set"}},
		{"Stopped", jobs.Result{Ending: jobs.Stopped}, jobs.Verdict{To: jobs.Ready, Class: jobs.ClassFree, Reason: "interrupted: the run was stopped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, p.Judge(&jobs.Item{}, c.result, half)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What must not be repeated blindly is set aside where a server may have got
// it, and only there.
func TestPolicy_Judge_HTTP_OnCrashDead(t *testing.T) {
	p := jobs.DefaultPolicy()
	p.OnCrash = jobs.CrashDead
	for _, c := range []struct {
		name   string
		result jobs.Result
		want   jobs.State
	}{
		{"Severed", jobs.Result{Ending: jobs.Severed}, jobs.Dead},
		{"TimedOut", jobs.Result{Ending: jobs.TimedOut}, jobs.Dead},
		{"Stopped", jobs.Result{Ending: jobs.Stopped}, jobs.Dead},
		{"Lost", jobs.Result{Ending: jobs.Lost}, jobs.Dead},
		{"Unreached", jobs.Result{Ending: jobs.Unreached, Unsent: true}, jobs.Delayed},
		{"TimedOutUnsent", jobs.Result{Ending: jobs.TimedOut, Unsent: true}, jobs.Delayed},
		{"StoppedUnsent", jobs.Result{Ending: jobs.Stopped, Unsent: true}, jobs.Ready},
		// An answer is an outcome.
		{"500", status(500), jobs.Delayed},
		{"429", status(429), jobs.Delayed},
		{"200", status(200), jobs.Done},
	} {
		if v := p.Judge(&jobs.Item{}, c.result, half); v.To != c.want {
			t.Errorf("%s: %+v, want %s", c.name, v, c.want)
		}
	}
}

// The last failure is charged once and holds the job all the same.
func TestPolicy_Judge_Throttled(t *testing.T) {
	p := jobs.DefaultPolicy()
	v := p.Judge(&jobs.Item{Failures: 7}, status(429), half)
	want := jobs.Verdict{To: jobs.Dead, Class: jobs.ClassThrottled, Charge: jobs.ChargeFailure, Hold: p.Backoff(8, half), Reason: "HTTP 429 (failure 8 of 8)"}
	if diff := cmp.Diff(want, v); diff != "" {
		t.Error(diff)
	}
	if p.Breaker.Counts(v) {
		t.Error("it feeds the breaker")
	}
	p.RetryAfterCap = 3 * time.Second
	if v := p.Judge(&jobs.Item{Failures: 6}, status(429), half); v.Hold != 3*time.Second {
		t.Errorf("held for %s, and the cap is %s", v.Hold, p.RetryAfterCap)
	}
}
