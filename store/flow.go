package store

import "time"

// Target is what can be paused: everything (both fields ""), a lane, or a job.
type Target struct {
	Lane string
	Job  string
}

func (t Target) String() string {
	switch {
	case t.Job != "":
		return "job " + t.Job
	case t.Lane != "":
		return "lane " + t.Lane
	}
	return "everything"
}

// Pause holds a target back, in every run, until a person resumes it. What
// runs may finish.
type Pause struct {
	Target
	Since  time.Time
	By     string // the user who said so
	Reason string // "" when none was given
}

// Breaker is a job that is held back because too many different items failed
// in a row (see jobs.Breaker).
type Breaker struct {
	Opened time.Time
	// Until is when one item is tried again; from then on one at a time.
	Until  time.Time
	Times  int    // how often it has opened since the last success
	Reason string // of the last failure
}

// Throttle is a job whose server has said that it is too much (see
// jobs.Throttle).
type Throttle struct {
	Since time.Time // when the last hold began
	// Until is when one item is tried again; from then on one at a time, until
	// the server has taken one.
	Until  time.Time
	Proven bool          // it has
	Gap    time.Duration // from one start to the next after that
	Reason string        // of the last answer
}

// Hold says why a job that has something ready may not start it now. Exactly
// one of Pause, Breaker and Throttle is set.
type Hold struct {
	Job      string // "" when a whole lane, or everything, is paused
	Pause    *Pause
	Breaker  *Breaker
	Throttle *Throttle
}

// Throttled is a job that the answer of a server holds from now on.
type Throttled struct {
	Job    string
	For    time.Duration
	Reason string
}

// Tripped is a job whose breaker a result has opened.
type Tripped struct {
	Job      string
	Failures int           // different items in a row; 0 when it was a try that failed again
	For      time.Duration // how long it is held
	Reason   string
}

// Squeezed is a job that is passed over for a full pool. After a whole lease
// the pool is kept free for the one that has waited longest.
type Squeezed struct {
	Job   string
	Since time.Time
}
