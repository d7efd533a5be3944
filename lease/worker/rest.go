package worker

import (
	"maps"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// pollPause is how often an idle lane looks whether another process has
// brought something. The look costs no lock and no read of the list.
const pollPause = 250 * time.Millisecond

// over says whether the run is through. It is asked when a turn found nothing
// to do.
func (w *Worker) over() (bool, error) {
	if w.inHand() {
		return false, nil
	}
	if w.closing != "" || w.hard.Err() != nil {
		w.sayFull()
		return true, nil
	}
	if !w.retryAt.IsZero() {
		return false, nil // a claim failed, so nobody knows whether something is left
	}
	// What a dead run had started comes back as soon as its processes have
	// been ended: that is being done, and is worth waiting for.
	if orphans, stuck := w.run.Pending(); orphans > 0 && !stuck {
		return false, nil
	}
	if again, err := w.lookAgain(); again || err != nil {
		return false, err
	}
	if err := w.suspectJobs(); err != nil {
		_, err = w.later(err)
		return false, err
	}
	if w.plan.Follow && !w.allOut() {
		w.sayHolds()
		return false, nil
	}
	if w.plan.Wait {
		through, err := w.nothingLeft()
		if !through {
			w.sayHolds()
		}
		return through, err
	}
	w.sayFull()
	return true, nil
}

// allOut says whether the run has given up every job that it was to work: to
// follow would be to wait for nothing.
func (w *Worker) allOut() bool {
	for _, l := range w.lanes {
		for _, s := range l.Jobs {
			if w.jobs[s.Name].out == "" {
				return false
			}
		}
	}
	return true
}

// inHand says whether the run is responsible for anything: items in flight,
// results not yet recorded, items held and not started.
func (w *Worker) inHand() bool {
	if len(w.inFlight) > 0 {
		return true
	}
	return slices.ContainsFunc(w.lanes, func(l *lane) bool { return len(l.held) > 0 })
}

// lookAgain makes sure that nothing has come while the last look was made,
// and that no dead run is what fills a lane.
func (w *Worker) lookAgain() (again bool, err error) {
	changed, err := w.store.Changed(w.hard)
	if err != nil {
		return w.later(err)
	}
	full := false
	for _, l := range w.lanes {
		full = full || l.full != nil
	}
	if full && !w.rescued {
		w.rescued = true
		if err := w.run.Rescue(w.soft); err != nil {
			w.rescued = false
			return w.later(err)
		}
		changed = true
	}
	if changed && w.lookEverywhere() {
		// One look decides: a database that is never quiet must not keep a
		// run that has nothing to do.
		took, err := w.claim()
		if err != nil || took || !w.retryAt.IsZero() {
			return true, err
		}
		orphans, stuck := w.run.Pending()
		return orphans > 0 && !stuck, nil
	}
	return false, nil
}

// lookEverywhere lights every lane that may still claim, and says whether there is one.
func (w *Worker) lookEverywhere() (any bool) {
	for _, l := range w.lanes {
		if l.room(w.plan.Batch, w.limit) > 0 {
			l.look, any = true, true
		}
	}
	return any
}

// suspectJobs gives up jobs whose every item ended with 126 or 127, now that
// none is left to start that could prove the command.
func (w *Worker) suspectJobs() error {
	for _, j := range w.jobs {
		if len(j.suspects) == 0 || j.proven || j.out != "" {
			continue
		}
		if (w.plan.Wait || w.plan.Follow) && j.lane.room(w.plan.Batch, w.limit) > 0 {
			c, err := w.store.Counts(w.hard, []string{j.spec.Name}, w.plan.Scope)
			if err != nil {
				return err
			}
			if c.Left() > int64(len(j.suspects)) {
				continue // a delayed one, or another run's
			}
		}
		w.broken(j, j.suspicion())
	}
	return nil
}

// nothingLeft is the end of --wait: everything asked for is settled, or what
// is left can't be settled by this run.
func (w *Worker) nothingLeft() (bool, error) {
	var names []string
	for name, j := range w.jobs {
		if j.out == "" && j.lane.room(w.plan.Batch, w.limit) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return true, nil
	}
	c, err := w.store.Counts(w.hard, names, w.plan.Scope)
	if err != nil {
		_, err = w.later(err)
		return false, err
	}
	if c.Left() > 0 {
		w.sayLeft(c)
	}
	return c.Left() == 0, nil
}

// later says whether what failed with err is tried again: it is when that may
// help, and the loop goes on for its last turns when the run was told to stop.
func (w *Worker) later(err error) (again bool, _ error) {
	if w.soft.Err() != nil || w.hard.Err() != nil || w.patient(err) {
		return true, nil
	}
	return false, err
}

// sayFull records the lanes that are left because others hold all their slots,
// and what is held back.
func (w *Worker) sayFull() {
	for _, l := range w.lanes {
		if l.room(w.plan.Batch, w.limit) == 0 {
			continue // it wanted no more, so nothing stood in its way
		}
		if l.full != nil {
			w.summary.FullLanes = append(w.summary.FullLanes, *l.full)
		}
		for _, h := range l.holds {
			if !slices.ContainsFunc(w.summary.Holds, func(o store.Hold) bool { return o.Pause != nil && h.Pause != nil && *o.Pause == *h.Pause }) {
				w.summary.Holds = append(w.summary.Holds, h)
			}
		}
		maps.Copy(w.summary.NoRoom, l.noRoom)
		if t := w.summary.NextDue; !l.nextDue.IsZero() && (t.IsZero() || l.nextDue.Before(t)) {
			w.summary.NextDue = l.nextDue
		}
	}
}

// rest waits for the next thing to happen.
func (w *Worker) rest() error {
	w.sweepIfDue()
	timer := time.NewTimer(time.Until(w.nextTime()))
	defer timer.Stop()
	softly, hardly := w.soft.Done(), w.hard.Done()
	if !w.graceEnd.IsZero() {
		softly = nil // checkClock has seen it, and it stays so
	}
	if w.killed {
		hardly = nil
	}
	select {
	case a := <-w.ended:
		w.end(a)
	case claims := <-w.run.Lost():
		w.lose(claims)
	case <-w.run.Woken():
		w.lookEverywhere()
	case <-w.plan.Reload:
		w.reloading = true
	case err := <-w.fatal:
		w.note(jobs.NoteMust, "%v: ending what runs", err)
		return err
	case <-softly:
	case <-hardly:
	case <-timer.C:
		return w.poll()
	}
	return nil
}

// poll lights the lanes when another process has changed something.
func (w *Worker) poll() error {
	if w.closing != "" {
		return nil
	}
	changed, err := w.store.Changed(w.hard)
	if err != nil && w.patient(err) {
		return nil
	}
	if changed {
		w.lookEverywhere()
	}
	return err
}

// nextTime is when the loop has to turn again though nothing happens.
func (w *Worker) nextTime() time.Time {
	now := time.Now()
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	if w.attempts.Err() == nil {
		sooner(w.graceEnd)
	}
	if !w.retryAt.IsZero() {
		sooner(w.retryAt) // before it nothing is written, whatever is due
		return next
	}
	sooner(w.pidsAt)
	if w.closing != "" {
		return next
	}
	if w.plan.MaxRuntime > 0 {
		sooner(w.started.Add(w.plan.MaxRuntime))
	}
	sooner(w.forkAt)
	if w.plan.Follow {
		sooner(w.sweepAt)
	}
	for _, l := range w.lanes {
		if w.lacks(l) {
			sooner(now.Add(pollPause))
			sooner(l.nextDue)
		}
		if len(l.held) > 0 {
			sooner(l.held[0].since.Add(w.plan.Lease))
		}
		for _, s := range l.Jobs {
			// Its turn may have come since it was not offered: then at once.
			if j := w.jobs[s.Name]; j.paced(w.offered) && l.free() > 0 {
				sooner(j.paceAt)
			}
		}
	}
	return next
}
