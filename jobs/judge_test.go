package jobs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"batchq/jobs"
)

func half() float64 { return 0.5 }

func exit(code int) jobs.Result { return jobs.Result{ExitCode: code} }

func killed(name string, number int) jobs.Result {
	return jobs.Result{Signal: number, SignalName: name}
}

func answer(a jobs.Answer) jobs.Result { return jobs.Result{ExitCode: 1, Answer: &a} }

// Each row of the class table, in the order in which the first match wins.
func TestPolicy_Judge(t *testing.T) {
	p := jobs.DefaultPolicy()
	retry := func(class jobs.Class, reason string) jobs.Verdict {
		return jobs.Verdict{To: jobs.Delayed, Class: class, Delay: 5 * time.Second, Charge: jobs.ChargeFailure, Reason: reason}
	}
	dead := func(reason string) jobs.Verdict {
		return jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: reason}
	}
	free := func(class jobs.Class, reason string) jobs.Verdict {
		return jobs.Verdict{To: jobs.Ready, Class: class, Reason: reason}
	}
	done := jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}
	for _, c := range []struct {
		name   string
		result jobs.Result
		want   jobs.Verdict
	}{
		{"Timeout", jobs.Result{Ending: jobs.TimedOut}, retry(jobs.ClassTimeout, "timed out after 1h0m0s")},
		{"TimeoutWhateverItsStatus", jobs.Result{Ending: jobs.TimedOut, ExitCode: 65, Answer: &jobs.Answer{Class: jobs.ClassDone}},
			retry(jobs.ClassTimeout, "timed out after 1h0m0s")},
		{"Stop", jobs.Result{Ending: jobs.Stopped, Signal: 15, SignalName: "SIGTERM"}, free(jobs.ClassFree, "interrupted: the run was stopped")},
		{"LostClaim", jobs.Result{Ending: jobs.Lost}, free(jobs.ClassFree, "interrupted: the claim was no longer this run's")},
		{"CantExec", jobs.Result{Ending: jobs.CantExec, Error: "./x: no such file"}, free(jobs.ClassBroken, "./x: no such file")},
		{"CantFork", jobs.Result{Ending: jobs.CantFork, Error: "try again"}, free(jobs.ClassFree, "try again")},
		{"TooLong", jobs.Result{Ending: jobs.TooLong, Error: "argument list too long"}, dead("argument list too long")},
		{"Unresolved", jobs.Result{Ending: jobs.Unresolved, Error: "no field"}, dead("no field")},
		{"TimeoutOfAStream", jobs.Result{Ending: jobs.TimedOut, Error: "no answer at all"}, retry(jobs.ClassTimeout, "timed out after 1h0m0s: no answer at all")},
		{"NoAnswerThatCanBeUsed", jobs.Result{Ending: jobs.Unanswered, Error: "it answered twice"}, retry(jobs.ClassRetry, "it answered twice")},
		{"DeathOfAStreamWithOthers", jobs.Result{Ending: jobs.Abandoned, Error: "with others"}, free(jobs.ClassShared, "with others")},
		{"NeverSent", jobs.Result{Ending: jobs.Undelivered, Error: "too late"}, free(jobs.ClassFree, "too late")},
		{"StreamExit0", jobs.Result{Streamed: true}, retry(jobs.ClassRetry, "its stream ended without an answer to it: exit 0")},
		{"StreamExit65", jobs.Result{Streamed: true, ExitCode: 65}, dead("exit 65")},
		{"StreamSEGV", jobs.Result{Streamed: true, Signal: 11, SignalName: "SIGSEGV"}, dead("killed by SIGSEGV")},
		{"AnswerDone", answer(jobs.Answer{Class: jobs.ClassDone}), done},
		{"AnswerPermanent", answer(jobs.Answer{Class: jobs.ClassPermanent, Error: "closed account"}), dead("closed account")},
		{"AnswerRetry", answer(jobs.Answer{Class: jobs.ClassRetry, Error: "later"}), retry(jobs.ClassRetry, "later")},
		{"AnswerRetryWithoutWords", answer(jobs.Answer{Class: jobs.ClassRetry}), retry(jobs.ClassRetry, "the command answered retry")},
		{"AnswerDefer", answer(jobs.Answer{Class: jobs.ClassDefer, After: 30 * time.Second, Error: "not yet"}),
			jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassDefer, Delay: 30 * time.Second, Charge: jobs.ChargeDefer, Reason: "not yet"}},
		{"BadAnswerIsNamedAndTheStatusDecides", jobs.Result{ExitCode: 65, AnswerError: "no JSON"}, dead("exit 65; no JSON")},
		{"Exit0", exit(0), done},
		{"Exit126Unproven", exit(126), free(jobs.ClassSuspect, "exit 126")},
		{"Exit127Unproven", exit(127), free(jobs.ClassSuspect, "exit 127")},
		{"Exit127Proven", jobs.Result{ExitCode: 127, Proven: true}, retry(jobs.ClassRetry, "exit 127")},
		{"Exit1", exit(1), retry(jobs.ClassRetry, "exit 1")},
		// xe#6: 128 to 255 are one failed item, not the end of the batch.
		{"Exit128", exit(128), retry(jobs.ClassRetry, "exit 128")},
		{"Exit255", exit(255), retry(jobs.ClassRetry, "exit 255")},
		{"KILL", killed("SIGKILL", 9), retry(jobs.ClassRetry, "killed by SIGKILL")},
		{"TERM", killed("SIGTERM", 15), retry(jobs.ClassRetry, "killed by SIGTERM")},
		{"SEGV", killed("SIGSEGV", 11), dead("killed by SIGSEGV")},
		{"BUS", killed("SIGBUS", 7), dead("killed by SIGBUS")},
		{"ILL", killed("SIGILL", 4), dead("killed by SIGILL")},
		{"FPE", killed("SIGFPE", 8), dead("killed by SIGFPE")},
		{"ABRT", killed("SIGABRT", 6), dead("killed by SIGABRT")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, p.Judge(&jobs.Item{}, c.result, half)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPolicy_Judge_ExitCodes(t *testing.T) {
	p := jobs.DefaultPolicy()
	for code := 1; code < 256; code++ {
		want := jobs.ClassRetry
		switch {
		case code >= 64 && code <= 68, code == 70, code == 72, code == 73, code >= 76 && code <= 78, code == 100, code == 112:
			want = jobs.ClassPermanent
		case code == 126, code == 127:
			want = jobs.ClassSuspect
		}
		if got := p.Judge(&jobs.Item{}, exit(code), half).Class; got != want {
			t.Errorf("exit %d: %s, want %s", code, got, want)
		}
	}
	p.Codes = jobs.ExitCodes{Done: []int{24}, Retry: []int{65}, Permanent: []int{127}, Otherwise: jobs.ClassPermanent}
	for code, want := range map[int]jobs.Class{24: jobs.ClassDone, 65: jobs.ClassRetry, 127: jobs.ClassPermanent, 1: jobs.ClassPermanent} {
		if got := p.Judge(&jobs.Item{}, exit(code), half).Class; got != want {
			t.Errorf("exit %d with lists of its own: %s, want %s", code, got, want)
		}
	}
}

func TestPolicy_Judge_Budgets(t *testing.T) {
	p := jobs.DefaultPolicy()
	if v := p.Judge(&jobs.Item{Failures: 6}, exit(75), half); v.To != jobs.Delayed {
		t.Errorf("7 failures of 8: %+v", v)
	}
	if v := p.Judge(&jobs.Item{Failures: 7}, exit(75), half); v.To != jobs.Dead || v.Reason != "exit 75 (failure 8 of 8)" {
		t.Errorf("8 failures of 8: %+v", v)
	}
	deferred := answer(jobs.Answer{Class: jobs.ClassDefer})
	if v := p.Judge(&jobs.Item{Defers: 99}, deferred, half); v.To != jobs.Delayed {
		t.Errorf("100 deferrals of 100: %+v", v)
	}
	if v := p.Judge(&jobs.Item{Defers: 100}, deferred, half); v.To != jobs.Dead || !strings.HasPrefix(v.Reason, "deferred too often") {
		t.Errorf("101 deferrals of 100: %+v", v)
	}
}

// svix#2203, livery#47: a wish for more time only ever lengthens, within a cap.
func TestPolicy_Judge_After(t *testing.T) {
	p := jobs.DefaultPolicy()
	for after, want := range map[time.Duration]time.Duration{
		0: 5 * time.Second, time.Second: 5 * time.Second, time.Minute: time.Minute, 1 << 62: time.Hour,
	} {
		if v := p.Judge(&jobs.Item{}, answer(jobs.Answer{Class: jobs.ClassRetry, After: after}), half); v.Delay != want {
			t.Errorf("after %s: delay %s, want %s", after, v.Delay, want)
		}
	}
}

func TestPolicy_OnCrashDead(t *testing.T) {
	p := jobs.DefaultPolicy()
	p.OnCrash = jobs.CrashDead
	for name, r := range map[string]jobs.Result{"timeout": {Ending: jobs.TimedOut}, "stop": {Ending: jobs.Stopped}} {
		v := p.Judge(&jobs.Item{}, r, half)
		if v.To != jobs.Dead || v.Delay != 0 || !strings.Contains(v.Reason, "the outcome is unknown") {
			t.Errorf("%s: %+v", name, v)
		}
	}
	if v := p.AfterCrash(&jobs.Item{}); v.To != jobs.Dead || v.Charge != jobs.ChargeCrash {
		t.Errorf("crash: %+v", v)
	}
	if v := p.Judge(&jobs.Item{}, exit(75), half); v.To != jobs.Delayed {
		t.Errorf("a failure whose outcome is known: %+v", v)
	}
}

// sidekiq#4633, faktory#99: what kills its runner each time is set aside.
func TestPolicy_AfterCrash(t *testing.T) {
	p := jobs.DefaultPolicy()
	for crashes, want := range map[int]jobs.State{0: jobs.Ready, 1: jobs.Ready, 2: jobs.Dead, 50: jobs.Dead} {
		if v := p.AfterCrash(&jobs.Item{Crashes: crashes}); v.To != want || v.Charge != jobs.ChargeCrash {
			t.Errorf("after %d crashes: %+v, want %s", crashes, v, want)
		}
	}
}

// river PR#698, onos-lib-go#127: no exponent may overflow into a hot loop.
func TestPolicy_Backoff(t *testing.T) {
	p := jobs.DefaultPolicy()
	for _, failures := range []int{0, 1, 2, 7, 8, 31, 63, 64, 80, 400, 1 << 30} {
		for _, r := range []float64{0, 0.5, 0.999999999} {
			if d := p.Backoff(failures, func() float64 { return r }); d < time.Millisecond || d > p.BackoffCap {
				t.Errorf("failure %d, random %g: %s is outside 1ms to %s", failures, r, d, p.BackoffCap)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := jobs.Policy{BackoffBase: time.Duration(rapid.Int64Range(1, 1<<62).Draw(t, "base"))}
		p.BackoffCap = p.BackoffBase + time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "more"))
		r := rapid.Float64Range(0, 0.999999).Draw(t, "random")
		d := p.Backoff(rapid.IntRange(1, 1000).Draw(t, "failures"), func() float64 { return r })
		if d < time.Millisecond || d > max(p.BackoffCap, time.Millisecond) {
			t.Fatalf("%s with %+v", d, p)
		}
	})
}

// graphile/worker, no jitter: what failed together must not come back together.
func TestPolicy_Backoff_Spread(t *testing.T) {
	p := jobs.DefaultPolicy()
	var tenths [10]int
	seed := uint64(1)
	random := func() float64 { // a plain linear congruence: the test is the same each time
		seed = seed*6364136223846793005 + 1442695040888963407
		return float64(seed>>11) / (1 << 53)
	}
	for range 1000 {
		tenths[int(p.Backoff(4, random)*10/(80*time.Second))]++
	}
	for i, n := range tenths {
		if n > 200 {
			t.Errorf("%d of 1000 fall into tenth %d of the window", n, i)
		}
	}
}

func TestPolicy_Validate(t *testing.T) {
	if err := jobs.DefaultPolicy().Validate(); err != nil {
		t.Errorf("the default: %v", err)
	}
	bad := jobs.Policy{Timeout: -1, KillAfter: -1, BackoffBase: 0, BackoffCap: -1, RetryAfterCap: -1, DeferCap: -1, OnCrash: "x",
		Codes: jobs.ExitCodes{Done: []int{0, 7}, Retry: []int{7}, Otherwise: "x"}}
	err := bad.Validate()
	for _, part := range []string{"timeout", "kill_after", "max_attempts 0", "max_crashes 0", "backoff.base", "backoff.cap", "retry_after_cap",
		"defer_cap", "on_crash", "exit_codes.otherwise", "0 is no exit code", "exit code 7 is in exit_codes.done and exit_codes.retry"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not among the faults: %v", part, err)
		}
	}
}
