package jobs

import "time"

// Breaker says when a job is held back because what it depends on seems to be
// down: after Failures different items in a row that failed in a way that may
// recover, with no success between. It is held for Cooldown, twice as long
// after each attempt that fails again, and then one item at a time is tried
// until one succeeds. It saves what is down from a herd, and the items from
// spending their attempts on it.
type Breaker struct {
	Failures int           `json:"failures"` // 0: never held
	Cooldown time.Duration `json:"cooldown"`
}

// longestHold is as far as a cooldown is doubled.
const longestHold = 30 * time.Minute

// Counts says whether a result adds to the failures in a row.
func (b Breaker) Counts(v Verdict) bool {
	return b.Failures > 0 && v.Charge == ChargeFailure && (v.Class == ClassRetry || v.Class == ClassTimeout)
}

// Hold is how long the job is held when the breaker opens for the nth time in
// a row (n from 1): Cooldown, doubled with each, to half an hour at most or to
// the cooldown itself where that is longer.
func (b Breaker) Hold(n int) time.Duration {
	longest := b.Longest()
	d := b.Cooldown
	for i := 1; i < n && d < longest; i++ {
		d *= 2 // below longest before, so it can't overflow
	}
	return min(d, longest)
}

// Longest bounds every hold of this breaker.
func (b Breaker) Longest() time.Duration { return max(longestHold, b.Cooldown) }
