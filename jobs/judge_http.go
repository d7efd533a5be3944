package jobs

import (
	"fmt"
	"slices"
	"time"
)

// retryStatuses are answers of a client's fault that may recover all the same:
// too slow, too early, too many.
var retryStatuses = []int{408, 425, 429}

// RetryStatuses lists the 4xx answers after which an item is tried again.
func RetryStatuses() []int { return slices.Clone(retryStatuses) }

// answeredHTTP judges a whole answer by its status.
func (p Policy) answeredHTTP(it *Item, r Result, random func() float64) Verdict {
	reason := statusReason(r)
	switch s := r.Status; {
	case s >= 200 && s < 300:
		return Verdict{To: Done, Class: ClassDone}
	case s == 429, s == 503 && r.RetryAfter > 0:
		return p.throttled(it, reason, r.RetryAfter, random)
	case s >= 500, slices.Contains(retryStatuses, s): // beyond 599 as 5xx: RFC 9110, section 15
		return p.failed(it, ClassRetry, reason, r.RetryAfter, random)
	}
	return Verdict{To: Dead, Class: ClassPermanent, Charge: ChargeFailure, Reason: reason}
}

// throttled is a server that wants less: the item is charged once, and its whole
// job is held until the time that the server names, or for as long as the item
// itself waits.
func (p Policy) throttled(it *Item, reason string, after time.Duration, random func() float64) Verdict {
	v := p.failed(it, ClassThrottled, reason, after, random)
	v.Hold = min(after, p.RetryAfterCap)
	if v.Hold <= 0 {
		if v.Hold = v.Delay; v.To == Dead {
			v.Hold = p.Backoff(it.Failures+1, random)
		}
	}
	// No hold is honoured beyond this cap, whoever asked for it.
	v.Hold = min(v.Hold, max(p.RetryAfterCap, time.Second))
	return v
}

func statusReason(r Result) string {
	reason := fmt.Sprintf("HTTP %d", r.Status)
	if r.StatusText != "" {
		reason += " " + r.StatusText
	}
	if r.Status >= 300 && r.Status < 400 {
		switch {
		case r.Error != "":
			reason += ": " + r.Error
		case r.Location != "":
			reason += ", not followed: to " + r.Location
		}
		return reason
	}
	if r.RetryAfter > 0 {
		reason += fmt.Sprintf(" (Retry-After %s)", r.RetryAfter)
	}
	if r.Said != "" {
		reason += ": " + r.Said
	}
	return reason
}
