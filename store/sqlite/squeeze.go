package sqlite

import (
	"time"

	"batchq/jobs"
	"batchq/store"
)

// squeeze is a job that is passed over for a full pool.
type squeeze struct {
	job          int64
	name, lane   string
	uses         map[string]int
	since, until int64
	kept, span   int64 // since when, and for how long, the pool is kept for it
}

// loadSqueezes reads which jobs are squeezed and finds the one for which pools
// are kept: the one that has waited longest, longer than patience. Only one at
// a time, or two could keep a pool from each other for ever.
func (g *gate) loadSqueezes() error {
	g.squeezed = map[int64]*squeeze{}
	patience := g.limits.Patience.Milliseconds()
	var all []*squeeze
	err := g.t.rows(`SELECT q.job, j.name, q.lane, q.uses, q.since, q.until, q.kept, q.span FROM squeeze q JOIN job j ON j.id = q.job
		ORDER BY q.since, q.job`, nil, func(scan func(...any) error) error {
		s := &squeeze{}
		var uses string
		if err := scan(&s.job, &s.name, &s.lane, &uses, &s.since, &s.until, &s.kept, &s.span); err != nil {
			return err
		}
		var err error
		s.uses, err = decodeUses(uses)
		// Else nobody has wanted it for a while, or the clock was set back since.
		if s.until > g.t.now && s.since <= g.t.now {
			g.squeezed[s.job] = s
			all = append(all, s)
		}
		return err
	})
	if err != nil || patience == 0 {
		return err
	}
	for _, s := range all {
		// The clock was set back by less, or a run with more patience wrote it.
		if s.until > g.t.now+patience {
			s.until = g.t.now + patience
			if err := g.note(s); err != nil {
				return err
			}
		}
		if g.keeper != 0 || g.t.now-s.since < patience {
			continue
		}
		if keeps, err := g.keeps(s, patience); err != nil {
			return err
		} else if keeps {
			g.keeper = s.job
		}
	}
	return nil
}

// keeps says whether pools are kept for a squeezed job now. They are for as
// long as patience; when that was not enough because something runs on that had
// started before, to keep them longer would not help, and they are free for
// all until those attempts have ended. Then they are kept twice as long: so a
// long item never brings a pool to a standstill, and the job has its turn all
// the same.
func (g *gate) keeps(s *squeeze, patience int64) (bool, error) {
	if wanted, err := g.wants(s); err != nil || !wanted {
		return false, err
	}
	switch now := g.t.now; {
	case s.kept == 0 || s.kept > now: // or the clock was set back
		s.kept, s.span = now, max(s.span, patience)
	case now < s.kept+s.span:
		return true, nil
	case g.runsSince(s):
		return false, nil
	default:
		s.kept, s.span = now, min(2*s.span, longestKept.Milliseconds())
	}
	return true, g.note(s)
}

// longestKept bounds how long a pool is kept at a stretch.
const longestKept = 24 * time.Hour

// wants says whether a squeezed job has something that could start if it had
// the room: nothing is kept for what was dropped, paused or is held back.
func (g *gate) wants(s *squeeze) (bool, error) {
	h := g.throttles[s.job]
	if g.pauseOf(s.lane, s.name) != nil || g.breakers[s.job] != nil || h != nil && !h.proven {
		return false, nil
	}
	var n int64
	err := g.t.row("SELECT coalesce(sum(ready + claimed), 0) FROM tally WHERE job = ?", []any{s.job}, &n)
	for k, c := range g.t.books.tally { // what this transaction has moved already
		if k.job == s.job {
			n += c.state[jobs.Ready] + c.state[jobs.Claimed]
		}
	}
	return n > 0, err
}

// runsSince says whether an attempt that uses one of its pools has been
// running since before they were kept.
func (g *gate) runsSince(s *squeeze) bool {
	for pool := range s.uses {
		if t, any := g.oldest[pool]; any && t <= s.kept {
			return true
		}
	}
	return false
}

// squeeze notes that a job was passed over for a full pool. The note lasts for
// as long as the patience, and is written anew when half of it is over: so it
// ends by itself when no run wants the job any more.
func (g *gate) squeeze(job int64, lane string, spec *jobs.Spec) error {
	for pool, amount := range spec.Uses {
		if size, ok := g.limits.Pools[pool]; ok && amount > size {
			return nil // no wait makes room for it
		}
	}
	patience := g.limits.Patience.Milliseconds()
	s := g.squeezed[job]
	if patience == 0 || s != nil && s.until-g.t.now > patience/2 {
		return nil
	}
	if s == nil {
		s = &squeeze{job: job, name: spec.Name, since: g.t.now}
		g.squeezed[job] = s
	}
	s.lane, s.uses, s.until = lane, spec.Uses, g.t.now+patience
	return g.note(s)
}

func (g *gate) note(s *squeeze) error {
	return g.t.exec(`INSERT INTO squeeze (job, lane, uses, since, until, kept, span) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET lane = excluded.lane, uses = excluded.uses, since = excluded.since, until = excluded.until,
		kept = excluded.kept, span = excluded.span`, s.job, s.lane, encodeUses(s.uses), s.since, s.until, s.kept, s.span)
}

// foundRoom forgets that a job was squeezed.
func (g *gate) foundRoom(job int64) error {
	if g.squeezed[job] == nil {
		return nil
	}
	delete(g.squeezed, job)
	if g.keeper == job {
		g.keeper = 0 // the next one's turn comes with the next transaction
	}
	return g.t.exec("DELETE FROM squeeze WHERE job = ?", job)
}

// squeezes lists the jobs that are passed over for a full pool, the longest first.
func (s *snapshot) squeezes() (all []store.Squeezed, err error) {
	err = s.rows("SELECT j.name, q.since FROM squeeze q JOIN job j ON j.id = q.job WHERE q.until > ?1 AND q.since <= ?1 ORDER BY q.since, q.job",
		[]any{s.now}, func(scan func(...any) error) error {
			var one store.Squeezed
			var since int64
			err := scan(&one.Job, &since)
			one.Since = time.UnixMilli(since).UTC()
			all = append(all, one)
			return err
		})
	return all, err
}
