package worker

import (
	"errors"
	"maps"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// claim takes more for every lane that has a free slot and nothing held for
// it. It returns true when something was taken.
func (w *Worker) claim() (took bool, err error) {
	if !w.retryAt.IsZero() {
		return false, nil
	}
	if err := w.giveUpJobs(); err != nil {
		return false, err
	}
	if w.closing != "" {
		return false, nil
	}
	now := time.Now()
	w.forkAgain(now)
	for _, l := range w.lanes {
		if err := w.releaseStale(l, now); err != nil {
			return false, err
		}
		if !l.nextDue.IsZero() && !now.Before(l.nextDue) {
			l.look, l.nextDue = true, time.Time{}
		}
		if !l.look || !w.lacks(l) {
			continue
		}
		n := l.room(w.plan.Batch, w.limit)
		if n == 0 {
			continue
		}
		got, err := w.claimLane(l, n)
		if err != nil {
			return false, err
		}
		took = took || got
	}
	return took, nil
}

// lacks says whether the lane has a free slot that nothing which it holds can
// fill. Of items whose run has died under them, one at a time can start.
func (w *Worker) lacks(l *lane) bool {
	free, seen, now := l.free(), false, time.Now()
	for _, h := range l.held {
		if free == 0 {
			return false
		}
		if w.jobs[h.item.Job].paced(now) {
			continue
		}
		if h.item.Crashes > 0 {
			if seen || w.crashedInFlight() {
				continue
			}
			seen = true
		}
		free--
	}
	return free > 0
}

// giveUpJobs releases what is held of jobs that the run starts no more.
func (w *Worker) giveUpJobs() error {
	return w.release(func(h *held) bool { return w.jobs[h.item.Job].out != "" })
}

// releaseStale gives back what was held unstarted for a whole lease: a
// promotion, a pause or an urgent item must not wait behind a held batch.
func (w *Worker) releaseStale(l *lane, now time.Time) error {
	if len(l.held) == 0 || now.Sub(l.held[0].since) < w.plan.Lease {
		return nil
	}
	l.look = true
	return w.release(func(h *held) bool { return h.lane == l })
}

// leaveAlone is what a claim must not bring: what the run has skipped, and
// what it has in flight. The latter can only be ready when another run took it
// over, which we may not know yet; it must not start beside itself.
func (w *Worker) leaveAlone() map[int64]bool {
	ids := maps.Clone(w.skip)
	for id := range w.inFlight {
		ids[id] = true
	}
	return ids
}

func (w *Worker) claimLane(l *lane, n int) (took bool, err error) {
	var specs []*jobs.Spec
	now := time.Now()
	for _, s := range l.Jobs {
		// More of a job that has to wait for its rate would only fill the batch.
		if j := w.jobs[s.Name]; j.out == "" && !(j.paced(now) && l.has(s.Name)) {
			specs = append(specs, s)
		}
	}
	if len(specs) == 0 {
		l.look = false
		return false, nil
	}
	c, err := w.store.Claim(w.soft, store.ClaimRequest{Run: w.run.Info.ID, Lane: l.Name, Jobs: specs,
		Limits: w.limits, Scope: w.plan.Scope, Max: n, Skip: w.leaveAlone(), Lease: w.plan.Lease})
	if err != nil {
		if w.soft.Err() != nil {
			return false, nil
		}
		// Who has nothing in hand loses nothing by saying so and leaving; a
		// lock, unlike a full disk, is let go without anybody's doing.
		idle := !w.inHand() && !w.plan.Wait && !errors.Is(err, store.ErrBusy)
		if !idle && w.patient(err) {
			return false, nil
		}
		return false, err
	}
	w.failing = false
	l.look, l.full, l.passed, l.holds = false, nil, c.Passed > 0, c.Holds
	l.noRoom = c.NoRoom
	if c.LaneFull {
		l.full = &FullLane{Name: l.Name, Slots: l.Slots, InUse: c.InUse, Holders: c.Holders}
		return false, nil
	}
	if len(c.Items) == 0 {
		if c.NextDue >= 0 {
			l.dueSoon(time.Now(), c.NextDue)
		}
		return false, nil
	}
	w.run.Hold(c.ID)
	w.rescued, w.taken = false, true
	w.summary.Claims++
	w.claims[c.ID] = len(c.Items)
	since := time.Now()
	for _, it := range c.Items {
		l.held = append(l.held, &held{Held: store.Held{Item: it.ID, Claim: c.ID}, lane: l, item: it, spec: w.jobs[it.Job].spec, since: since})
	}
	if w.plan.Once {
		l.allow = 0 // its one claim is taken
	}
	if w.limit >= 0 {
		w.limit -= len(c.Items)
	}
	l.look = true // there may be more: ask again when these no longer fill the slots
	return true, nil
}
