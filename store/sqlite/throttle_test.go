package sqlite

import (
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// A job that goes as fast as it can is throttled no more.
func TestThrottle_Ends(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir()+"/batchq.db", Options{Create: true})
	noError(t, err)
	t.Cleanup(func() { noError(t, db.Close()) })
	add(t, db, "a", "b")
	run := register(t, db, "r")
	end := func(v jobs.Verdict) {
		started := start(t, db, run, claim(t, db, run, 1))
		_, err := db.Advance(t.Context(), store.Advance{Run: run, Settle: []store.Settlement{settlement(started[0], v)}})
		noError(t, err)
	}
	end(jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassThrottled, Charge: jobs.ChargeFailure, Delay: time.Hour, Hold: time.Minute, Reason: "HTTP 429"})
	execute(t, raw(t, db.Path()), "UPDATE throttle SET since = since - 1000, until = since, gap = 1001")
	end(done)
	s, err := db.Stats(t.Context())
	noError(t, err)
	if h := s.Jobs[0].Throttle; h != nil {
		t.Errorf("%+v", h)
	}
}
