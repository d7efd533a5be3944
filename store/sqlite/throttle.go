package sqlite

import (
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// throttle is one row of that table: a job whose server has said that it is too
// much.
type throttle struct {
	since, until int64
	proven       bool
	pace         jobs.Throttle
	next         int64 // microseconds
	reason       string
	trying       int // attempts in flight that started since
}

// holds says whether nothing may start yet. A hold that began in the future did
// so before the clock was set back, and none is honoured for longer than the run
// that asks allows.
func (h *throttle) holds(now int64, longest time.Duration) bool {
	return now < h.until && now >= h.since && h.until-now <= max(longest, time.Second).Milliseconds()
}

// waits is how long it is until the pace lets the next one start.
func (h *throttle) waits(now int64) time.Duration {
	ahead := time.Duration(h.next-now*1000) * time.Microsecond
	if ahead > h.pace.Gap { // further than one start can have moved it: the clock was set back
		return 0
	}
	return max(0, ahead)
}

// public is a throttle as reports know it.
func (h *throttle) public() *store.Throttle {
	return &store.Throttle{Since: time.UnixMilli(h.since).UTC(), Until: time.UnixMilli(h.until).UTC(), Proven: h.proven, Gap: h.pace.Gap, Reason: h.reason}
}

const throttleColumns = "since, until, proven, gap, steady, next, reason"

// scanThrottle reads them; before are columns that stand before them.
func scanThrottle(scan func(...any) error, before ...any) (*throttle, error) {
	h := &throttle{}
	var gap, steady int64
	err := scan(append(before, &h.since, &h.until, &h.proven, &gap, &steady, &h.next, &h.reason)...)
	h.pace = jobs.Throttle{Gap: time.Duration(gap) * time.Microsecond, Steady: time.Duration(steady) * time.Microsecond}
	return h, err
}

// throttles reads all of them.
func (t *tx) throttles() (map[int64]*throttle, error) {
	all := map[int64]*throttle{}
	err := t.rows("SELECT job, "+throttleColumns+" FROM throttle", nil, func(scan func(...any) error) error {
		var job int64
		h, err := scanThrottle(scan, &job)
		all[job] = h
		return err
	})
	for job, h := range all {
		if !h.proven && err == nil {
			err = t.startedAfter(job, h.since, &h.trying)
		}
	}
	return all, err
}

func (t *tx) throttleOf(job int64) (h *throttle, err error) {
	err = t.rows("SELECT "+throttleColumns+" FROM throttle WHERE job = ?", []any{job}, func(scan func(...any) error) (err error) {
		h, err = scanThrottle(scan)
		return err
	})
	return h, err
}

// tellThrottle tells a job's throttle of one result. Those of attempts that began
// before its hold are of the same wave: they may lengthen the hold, and say
// nothing new of the pace.
func (t *tx) tellThrottle(job, started int64, s *store.Settlement, out *store.Advanced) error {
	taken := s.Verdict.To == jobs.Done || s.Verdict.Class == jobs.ClassPermanent
	if s.Verdict.Hold <= 0 && !taken {
		return nil
	}
	h, err := t.throttleOf(job)
	switch {
	case err != nil, h == nil && taken:
		return err
	case taken:
		return t.ease(job, started, h, s.Verdict.To == jobs.Done)
	}
	return t.throttle(job, started, h, s, out)
}

// ease notes that the server has taken one.
func (t *tx) ease(job, started int64, h *throttle, success bool) error {
	if started <= h.since {
		return nil
	}
	if success {
		var over bool
		if h.pace, over = h.pace.Faster(); over {
			return t.exec("DELETE FROM throttle WHERE job = ?", job)
		}
	}
	return t.exec("UPDATE throttle SET proven = 1, gap = ? WHERE job = ?", h.pace.Gap.Microseconds(), job)
}

// throttle holds a job, for as long as the longest of a wave says.
func (t *tx) throttle(job, started int64, h *throttle, s *store.Settlement, out *store.Advanced) error {
	until := t.now + s.Verdict.Hold.Milliseconds()
	if h != nil && started <= h.since && h.since <= t.now {
		return t.exec("UPDATE throttle SET until = max(until, ?), reason = ? WHERE job = ?", until, s.Verdict.Reason, job)
	}
	name, err := t.jobName(job)
	if err != nil {
		return err
	}
	out.Throttled = append(out.Throttled, store.Throttled{Job: name, For: s.Verdict.Hold, Reason: s.Verdict.Reason})
	if h == nil {
		h = &throttle{}
	}
	h.pace = h.pace.Slower()
	if err := t.startedBy(job, t.now, noSlot); err != nil {
		return err
	}
	return t.exec(`INSERT INTO throttle (job, since, until, proven, gap, steady, next, reason) VALUES (?, ?, ?, 0, ?, ?, 0, ?)
		ON CONFLICT DO UPDATE SET since = excluded.since, until = excluded.until, proven = 0, gap = excluded.gap, steady = excluded.steady,
		next = 0, reason = excluded.reason`, job, t.now, until, h.pace.Gap.Microseconds(), h.pace.Steady.Microseconds(), s.Verdict.Reason)
}

// tookThrottle notes a start under a throttle. What decides about its result is
// whether it began after the hold, so that must be so also on a clock that was
// set back since.
func (t *tx) tookThrottle(job, slot int64, h *throttle) error {
	h.trying++
	h.next = t.now*1000 + h.pace.Gap.Microseconds()
	if h.since >= t.now {
		h.since, h.until = t.now-1, t.now
		if err := t.startedBy(job, h.since, slot); err != nil {
			return err
		}
	}
	return t.exec("UPDATE throttle SET since = ?, until = ?, next = ? WHERE job = ?", h.since, h.until, h.next, job)
}

// lift ends throttles: somebody knows better than the last answer.
func (t *tx) lift(names any) (lifted []string, err error) {
	err = t.rows(`DELETE FROM throttle WHERE ?1 IS NULL OR job IN (SELECT id FROM job WHERE name IN (SELECT value FROM json_each(?1)))
		RETURNING until, (SELECT name FROM job WHERE id = throttle.job)`, []any{names}, func(scan func(...any) error) error {
		var until int64
		var name string
		err := scan(&until, &name)
		if until > t.now {
			lifted = append(lifted, name)
		}
		return err
	})
	slices.Sort(lifted)
	return lifted, err
}

// throttles reads them by job, for a report.
func (s *snapshot) throttles() (map[int64]*store.Throttle, error) {
	all := map[int64]*store.Throttle{}
	if s.schema < 4 {
		return all, nil
	}
	err := s.rows("SELECT job, "+throttleColumns+" FROM throttle", nil, func(scan func(...any) error) error {
		var job int64
		h, err := scanThrottle(scan, &job)
		all[job] = h.public()
		return err
	})
	return all, err
}
