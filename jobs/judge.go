package jobs

import (
	"fmt"
	"slices"
	"time"
)

// Judge says what one attempt's result means for its item. It is the only
// place that does. random returns a number in [0,1) and is used for jitter.
//
// The first rule that fits wins: what we ended ourselves, then the item's own
// answer, then whether the command could be executed, then its exit.
func (p Policy) Judge(it *Item, r Result, random func() float64) Verdict {
	switch r.Ending {
	case Stopped, Lost:
		return p.unlessUnsent(r, Verdict{To: Ready, Class: ClassFree, Reason: stopReason(r.Ending)})
	case TimedOut:
		return p.unlessUnsent(r, p.failed(it, ClassTimeout, timeoutReason(p, r), 0, random))
	case Severed, Unanswered:
		return p.unknownOutcome(p.failed(it, ClassRetry, r.Error, 0, random))
	case Unreached:
		return p.failed(it, ClassRetry, r.Error, 0, random)
	case Answered:
		return p.answeredHTTP(it, r, random)
	case CantExec:
		return Verdict{To: Ready, Class: ClassBroken, Reason: r.Error}
	case CantFork, Undelivered:
		return Verdict{To: Ready, Class: ClassFree, Reason: r.Error}
	case Abandoned:
		return p.unknownOutcome(Verdict{To: Ready, Class: ClassShared, Reason: r.Error})
	case TooLong, Unresolved:
		return Verdict{To: Dead, Class: ClassPermanent, Charge: ChargeFailure, Reason: r.Error}
	}
	if r.Answer != nil {
		return p.answered(it, *r.Answer, random)
	}
	reason := exitReason(r)
	class := p.classOf(r)
	if r.Signal == 0 && (r.ExitCode == 126 || r.ExitCode == 127) && !r.Proven && !p.names(r.ExitCode) {
		return Verdict{To: Ready, Class: ClassSuspect, Reason: reason}
	}
	switch {
	case class == ClassDone && r.Streamed:
		return p.unknownOutcome(p.failed(it, ClassRetry, "its stream ended without an answer to it: "+reason, 0, random))
	case class == ClassDone:
		return Verdict{To: Done, Class: ClassDone}
	case class == ClassPermanent:
		return Verdict{To: Dead, Class: ClassPermanent, Charge: ChargeFailure, Reason: reason}
	default:
		return p.failed(it, ClassRetry, reason, 0, random)
	}
}

// AfterCrash says what happens to an item whose run died while it was running.
func (p Policy) AfterCrash(it *Item) Verdict {
	crashes := it.Crashes + 1
	switch {
	case p.OnCrash == CrashDead:
		return Verdict{To: Dead, Class: ClassCrash, Charge: ChargeCrash,
			Reason: `its run died while it was running, and the job says on_crash = "dead"`}
	case crashes >= p.MaxCrashes:
		return Verdict{To: Dead, Class: ClassCrash, Charge: ChargeCrash,
			Reason: fmt.Sprintf("its run died while it was running (crash %d of %d)", crashes, p.MaxCrashes)}
	}
	return Verdict{To: Ready, Class: ClassCrash, Charge: ChargeCrash,
		Reason: fmt.Sprintf("its run died while it was running (crash %d of %d)", crashes, p.MaxCrashes)}
}

// unknownOutcome turns a verdict over an attempt that we killed into dead for
// jobs that must not be repeated when nobody knows how far they came.
func (p Policy) unknownOutcome(v Verdict) Verdict {
	if p.OnCrash != CrashDead || v.To == Dead {
		return v
	}
	v.To, v.Delay = Dead, 0
	v.Reason += `; the outcome is unknown and the job says on_crash = "dead"`
	return v
}

// unlessUnsent is unknownOutcome but for a request that never left: nobody can
// have acted on it.
func (p Policy) unlessUnsent(r Result, v Verdict) Verdict {
	if r.Unsent {
		return v
	}
	return p.unknownOutcome(v)
}

func (p Policy) answered(it *Item, a Answer, random func() float64) Verdict {
	reason := a.Error
	if reason == "" {
		reason = "the command answered " + string(a.Class)
	}
	switch a.Class {
	case ClassDone:
		return Verdict{To: Done, Class: ClassDone}
	case ClassPermanent:
		return Verdict{To: Dead, Class: ClassPermanent, Charge: ChargeFailure, Reason: reason}
	case ClassDefer:
		if it.Defers+1 > p.DeferCap {
			return Verdict{To: Dead, Class: ClassDefer, Charge: ChargeDefer,
				Reason: fmt.Sprintf("deferred too often (%d times): %s", it.Defers+1, reason)}
		}
		delay := min(a.After, p.RetryAfterCap)
		if delay <= 0 {
			delay = p.Backoff(it.Defers+1, random)
		}
		return Verdict{To: Delayed, Class: ClassDefer, Charge: ChargeDefer, Delay: delay, Reason: reason}
	default:
		return p.failed(it, ClassRetry, reason, a.After, random)
	}
}

// failed charges a failure: tried again later, or dead when the attempts are spent.
func (p Policy) failed(it *Item, class Class, reason string, after time.Duration, random func() float64) Verdict {
	failures := it.Failures + 1
	if failures >= p.MaxAttempts {
		return Verdict{To: Dead, Class: class, Charge: ChargeFailure,
			Reason: fmt.Sprintf("%s (failure %d of %d)", reason, failures, p.MaxAttempts)}
	}
	// A wish for more time only ever lengthens the delay, and within a cap:
	// an absurd one must not bury the item.
	delay := max(p.Backoff(failures, random), min(after, p.RetryAfterCap))
	return Verdict{To: Delayed, Class: class, Charge: ChargeFailure, Delay: delay, Reason: reason}
}

// Backoff is the delay before the retry that follows the given number of
// failures (1 or more): exponential from BackoffBase to BackoffCap with full
// jitter, so that what failed together does not come back together. It is
// always within [1ms, BackoffCap], whatever the number.
// Source of the method: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
func (p Policy) Backoff(failures int, random func() float64) time.Duration {
	ceiling := p.BackoffCap
	// Doubling step by step can't overflow, because it ends at the cap.
	d := p.BackoffBase
	for i := 1; i < failures && d < ceiling; i++ {
		if d > ceiling/2 {
			d = ceiling
			break
		}
		d *= 2
	}
	ceiling = min(d, ceiling)
	return max(time.Duration(random()*float64(ceiling)), time.Millisecond)
}

// permanentSignals tell that the program itself is at fault on this input: a
// repetition ends the same way.
var permanentSignals = []string{"SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT"}

// PermanentSignals lists the signals after which an item is dead at once.
func PermanentSignals() []string { return slices.Clone(permanentSignals) }

// classOf maps an exit to a class by the job's own lists, then by the defaults.
func (p Policy) classOf(r Result) Class {
	if r.Signal != 0 {
		if slices.Contains(permanentSignals, r.SignalName) {
			return ClassPermanent
		}
		return ClassRetry
	}
	switch {
	case r.ExitCode == 0 || slices.Contains(p.Codes.Done, r.ExitCode):
		return ClassDone
	case slices.Contains(p.Codes.Permanent, r.ExitCode):
		return ClassPermanent
	case slices.Contains(p.Codes.Retry, r.ExitCode):
		return ClassRetry
	}
	return p.Codes.Otherwise
}

// names says whether the job itself gives code a meaning.
func (p Policy) names(code int) bool {
	return slices.Contains(p.Codes.Done, code) || slices.Contains(p.Codes.Retry, code) || slices.Contains(p.Codes.Permanent, code)
}

func exitReason(r Result) string {
	reason := fmt.Sprintf("exit %d", r.ExitCode)
	if r.Signal != 0 {
		reason = "killed by " + r.SignalName
	}
	// What the command said last is nearly always why. It tells like failures
	// from unlike ones, in a list of ten thousand.
	if line := r.Output.LastLine(); line != "" {
		reason += ": " + line
	}
	if r.AnswerError != "" {
		reason += "; " + r.AnswerError
	}
	return reason
}

func timeoutReason(p Policy, r Result) string {
	reason := fmt.Sprintf("timed out after %s", p.Timeout)
	if r.Error != "" {
		reason += ": " + r.Error
	}
	return reason
}

func stopReason(e Ending) string {
	if e == Lost {
		return "interrupted: the claim was no longer this run's"
	}
	return "interrupted: the run was stopped"
}
