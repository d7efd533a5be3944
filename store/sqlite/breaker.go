package sqlite

import (
	"context"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// breaker is one row of that table: a job whose items failed in a row.
type breaker struct {
	failed int
	times  int
	opened int64 // milliseconds; 0: closed
	until  int64
	reason string
	trying int // attempts in flight that started since it opened
}

func (b *breaker) open() bool { return b.opened != 0 }

// holds says whether nothing may start yet. One that opened in the future did
// so before the clock was set back: it must not hold for longer than it was to.
// No hold is honoured beyond what the run that asks would ever set.
func (b *breaker) holds(now int64, settings jobs.Breaker) bool {
	return now < b.until && now >= b.opened && b.until-now <= settings.Longest().Milliseconds()
}

// public is an open breaker as reports know it.
func (b *breaker) public() *store.Breaker {
	return &store.Breaker{Opened: time.UnixMilli(b.opened).UTC(), Until: time.UnixMilli(b.until).UTC(), Times: b.times, Reason: b.reason}
}

const breakerColumns = "failed, times, coalesce(opened, 0), coalesce(until, 0), reason"

func (b *breaker) dest() []any { return []any{&b.failed, &b.times, &b.opened, &b.until, &b.reason} }

// openBreakers reads those that are open or half open.
func (t *tx) openBreakers() (map[int64]*breaker, error) {
	open := map[int64]*breaker{}
	err := t.rows("SELECT job, "+breakerColumns+" FROM breaker WHERE opened IS NOT NULL", nil, func(scan func(...any) error) error {
		var job int64
		b := &breaker{}
		err := scan(append([]any{&job}, b.dest()...)...)
		open[job] = b
		return err
	})
	for job, b := range open {
		if err := t.startedAfter(job, b.opened, &b.trying); err != nil {
			return nil, err
		}
	}
	return open, err
}

// startedAfter counts a job's attempts in flight that started after a time.
func (t *tx) startedAfter(job, at int64, n *int) error {
	return t.row("SELECT count(*) FROM slot WHERE job = ? AND started > ?", []any{job, at}, n)
}

// noSlot is no slot's number.
const noSlot = 0

// startedBy makes a job's attempts in flight have started by a time, but for that
// in one slot (or noSlot): they did, whatever a clock said that was set back.
func (t *tx) startedBy(job, at, but int64) error {
	return t.exec("UPDATE slot SET started = ?1 WHERE job = ?2 AND id <> ?3 AND started > ?1", at, job, but)
}

// trying notes the start of the one attempt that a half-open breaker allows.
// What decides about a result is whether its attempt began after the breaker
// opened, so that must be so also on a clock that was set back since: for this
// one, and not for those that were in flight when it opened.
func (t *tx) trying(job, slot int64, b *breaker) error {
	b.trying++
	if b.opened < t.now {
		return nil
	}
	b.opened, b.until = t.now-1, t.now
	if err := t.startedBy(job, b.opened, slot); err != nil {
		return err
	}
	return t.exec("UPDATE breaker SET opened = ?, until = ? WHERE job = ?", b.opened, b.until, job)
}

// feed tells a job's breaker of one result. Those of attempts that began before
// it opened are old news: they neither close it nor hold the job longer.
func (t *tx) feed(job, started int64, s *store.Settlement, out *store.Advanced) error {
	failed := s.Breaker.Counts(s.Verdict)
	if !failed && s.Verdict.To != jobs.Done {
		return nil
	}
	b, err := t.breakerOf(job)
	if err != nil {
		return err
	}
	old := b != nil && b.open() && started <= b.opened
	switch {
	case old, !failed && b == nil:
		return nil
	case !failed:
		return t.mend(job, b, out)
	case b != nil && b.open():
		return t.trip(job, b, s, out)
	}
	return t.streak(job, b, s, out)
}

// breakerOf reads a job's row; nil when there is none.
func (t *tx) breakerOf(job int64) (*breaker, error) {
	b := &breaker{}
	none, err := missing(t.row("SELECT "+breakerColumns+" FROM breaker WHERE job = ?", []any{job}, b.dest()...))
	if err != nil || none {
		return nil, err
	}
	return b, nil
}

// mend forgets the failures: an item has succeeded.
func (t *tx) mend(job int64, b *breaker, out *store.Advanced) error {
	if b.open() {
		name, err := t.jobName(job)
		if err != nil {
			return err
		}
		out.Mended = append(out.Mended, name)
	}
	return t.exec("DELETE FROM breaker WHERE job = ?", job) // its streak goes with it
}

// streak counts a failure of a closed breaker. The same item twice is one.
func (t *tx) streak(job int64, b *breaker, s *store.Settlement, out *store.Advanced) error {
	if b == nil {
		b = &breaker{}
		if err := t.exec("INSERT INTO breaker (job, failed, reason) VALUES (?, 0, '')", job); err != nil {
			return err
		}
	}
	n, err := t.change("INSERT INTO streak (job, item) VALUES (?, ?) ON CONFLICT DO NOTHING", job, s.Item)
	if err != nil {
		return err
	}
	b.failed += int(n)
	if b.failed >= s.Breaker.Failures {
		return t.trip(job, b, s, out)
	}
	return t.exec("UPDATE breaker SET failed = ?, reason = ? WHERE job = ?", b.failed, s.Verdict.Reason, job)
}

// trip holds the job back, for longer each time in a row.
func (t *tx) trip(job int64, b *breaker, s *store.Settlement, out *store.Advanced) error {
	name, err := t.jobName(job)
	if err != nil {
		return err
	}
	hold := s.Breaker.Hold(b.times + 1)
	out.Tripped = append(out.Tripped, store.Tripped{Job: name, Failures: b.failed, For: hold, Reason: s.Verdict.Reason})
	if err := t.exec("DELETE FROM streak WHERE job = ?", job); err != nil {
		return err
	}
	fault.Here("settle", "tripping")
	if err := t.startedBy(job, t.now, noSlot); err != nil {
		return err
	}
	return t.exec("UPDATE breaker SET failed = 0, times = ?, opened = ?, until = ?, reason = ? WHERE job = ?",
		b.times+1, t.now, t.now+hold.Milliseconds(), s.Verdict.Reason, job)
}

// TryNow ends the wait of open breakers: for who has repaired what was down.
func (db *DB) TryNow(ctx context.Context, jobNames []string) (waited []string, err error) {
	err = db.write(ctx, "ending a breaker's wait", synced, func(t *tx) error {
		waited = nil
		var names any
		if jobNames != nil {
			names = nameList(jobNames)
		}
		return t.rows(`UPDATE breaker SET until = ?1 WHERE until > ?1 AND (?2 IS NULL OR job IN
			(SELECT id FROM job WHERE name IN (SELECT value FROM json_each(?2)))) RETURNING (SELECT name FROM job WHERE id = breaker.job)`,
			[]any{t.now, names}, func(scan func(...any) error) error {
				var name string
				err := scan(&name)
				waited = append(waited, name)
				return err
			})
	})
	slices.Sort(waited)
	return waited, err
}

// Unthrottle ends throttles: for who knows that a server takes more again.
func (db *DB) Unthrottle(ctx context.Context, jobNames []string) (held []string, err error) {
	err = db.write(ctx, "ending a throttle", synced, func(t *tx) (err error) {
		var names any
		if jobNames != nil {
			names = nameList(jobNames)
		}
		held, err = t.lift(names)
		return err
	})
	return held, err
}

// jobName is the name behind an id.
func (t *tx) jobName(id int64) (name string, err error) {
	return name, t.row("SELECT name FROM job WHERE id = ?", []any{id}, &name)
}

// breakers reads those that are open or half open, by job, for a report.
func (s *snapshot) breakers() (map[int64]*store.Breaker, error) {
	open := map[int64]*store.Breaker{}
	if s.schema < 2 {
		return open, nil
	}
	err := s.rows("SELECT job, "+breakerColumns+" FROM breaker WHERE opened IS NOT NULL", nil, func(scan func(...any) error) error {
		var job int64
		b := &breaker{}
		err := scan(append([]any{&job}, b.dest()...)...)
		open[job] = b.public()
		return err
	})
	return open, err
}
