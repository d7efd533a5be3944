package worker

import (
	"fmt"
	"time"

	"batchq/jobs"
)

// job is what the run has seen of one job.
type job struct {
	spec *jobs.Spec
	lane *lane
	// proven: an attempt has ended with something else than 126/127, so the
	// command exists, and such a code is the item's own.
	proven    bool
	suspects  map[int64]string // items that ended with 126/127 before that, and the reason
	failed    map[int64]bool   // different items that failed in a row
	misread   bool             // a person was told of an answer that could not be read
	slowed    bool             // a rate or a throttle has kept something of it back
	throttled bool             // a person was told that its server wants less
	paceAt    time.Time        // when its rate or its throttle lets the next one start; zero: at once, for all we know
	out       string           // why the run starts nothing of it any more; "" while it does
}

// brokenAfter is how many different items may end with 126 or 127 in a row
// before the command itself is taken to be missing.
const brokenAfter = 3

// judge asks the job's policy and keeps count of what concerns the whole job.
func (j *job) judge(it *jobs.Item, r jobs.Result, random func() float64) jobs.Verdict {
	r.Proven = j.proven
	v := j.spec.Policy.Judge(it, r, random)
	switch v.Class {
	case jobs.ClassSuspect:
		j.suspects[it.ID] = v.Reason
	case jobs.ClassFree, jobs.ClassBroken:
	default:
		j.proven = true
	}
	switch {
	case v.To == jobs.Done:
		clear(j.failed)
	case v.Charge == jobs.ChargeFailure && (v.Class == jobs.ClassRetry || v.Class == jobs.ClassTimeout):
		j.failed[it.ID] = true
	}
	return v
}

// paced says whether the job's rate lets nothing start yet.
func (j *job) paced(now time.Time) bool { return now.Before(j.paceAt) }

// suspicion is the sentence with which a job is given up whose items all
// ended with 126 or 127.
func (j *job) suspicion() string {
	for _, reason := range j.suspects {
		return fmt.Sprintf("%s, and no item of it has ended otherwise: is the command there and executable?", reason)
	}
	return ""
}
