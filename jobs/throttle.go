package jobs

import "time"

// Throttle is the pace of a job whose server has said that it is too much: the
// gap between two starts. It doubles with each such answer that is not of one
// wave with the last, and shrinks with each success. So the job feels its way to
// what the server takes, as TCP does with a network, instead of running into the
// wall with all that it may have in flight after every hold.
// Source of the method: "Congestion Avoidance and Control", Van Jacobson, 1988.
type Throttle struct {
	Gap    time.Duration
	Steady time.Duration // down to which Gap shrinks fast; 0: any
}

const (
	// firstGap is where a pace begins of which nothing is known: slow enough for
	// nearly any server, and some seconds from a thousand a second.
	firstGap = 100 * time.Millisecond
	// leastGap is where a pace ends: what is faster, batchq does not hold back.
	leastGap = time.Millisecond
	// mostGap bounds how slow a job may become.
	mostGap = time.Minute
	// A pace grows with time and not with each success, or it would run away from
	// a server that refuses late, because it has room for a burst: e-fold in fastTime
	// while it is far from where the server refused, then in slowTime.
	fastTime = 7 * time.Second
	slowTime = 2 * time.Minute
	// The least share of the gap that a success takes off by that, or one at a
	// minute would be over with the next.
	fastShare = 16
	slowShare = 128
)

// Slower is the pace after an answer that it was too much.
func (t Throttle) Slower() Throttle {
	if t.Gap == 0 {
		return Throttle{Gap: firstGap}
	}
	// Half as fast, and quickly back to two thirds.
	return Throttle{Gap: min(2*t.Gap, mostGap), Steady: min(t.Gap+t.Gap/2, mostGap).Truncate(time.Microsecond)}
}

// Faster is the pace after a success; over says that there is none any more.
func (t Throttle) Faster() (faster Throttle, over bool) {
	share := max(slowShare, slowTime/t.Gap)
	if t.Gap > t.Steady {
		share = max(fastShare, fastTime/t.Gap)
	}
	t.Gap = (t.Gap - max(t.Gap/share, time.Microsecond)).Truncate(time.Microsecond)
	return t, t.Gap <= leastGap
}
