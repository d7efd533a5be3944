package worker

import (
	"time"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// write is one turn's transaction: what ended, what is known of processes,
// what starts.
func (w *Worker) write() error {
	if time.Now().Before(w.retryAt) {
		return nil
	}
	w.retryAt = time.Time{}
	if w.closing != "" {
		if err := w.release(func(*held) bool { return true }); err != nil {
			return err
		}
	}
	a := store.Advance{Run: w.run.Info.ID, Limits: w.limits, Close: w.empty}
	for _, p := range w.pending {
		a.Settle = append(a.Settle, store.Settlement{Held: p.Held, Attempt: p.number, Result: p.result, Verdict: p.verdict, Breaker: p.spec.Policy.Breaker})
	}
	a.Start = w.starts()
	if len(a.Settle)+len(a.Start) > 0 || !w.pidsAt.IsZero() && !time.Now().Before(w.pidsAt) {
		a.Pids = w.pids()
	}
	if len(a.Settle)+len(a.Start)+len(a.Pids) == 0 {
		return nil
	}
	out, err := w.store.Advance(w.last, a)
	if err != nil {
		if w.patient(err) {
			return nil
		}
		return err
	}
	w.failing, w.empty = false, nil
	for _, p := range a.Pids {
		w.inFlight[p.Item].noted = true
	}
	w.settled(out)
	w.sayBreakers(out)
	now := time.Now()
	for name, wait := range out.Paced {
		j := w.jobs[name]
		j.paceAt, j.slowed = now.Add(wait), true
	}
	if err := w.launchAll(a, out); err != nil {
		return err
	}
	if len(out.Stale)+len(out.Lost) > 0 {
		w.checkDeposed()
	}
	return nil
}

// starts offers, lane by lane, what may start now.
func (w *Worker) starts() (all []store.Start) {
	if w.closing != "" || w.hard.Err() != nil {
		return nil
	}
	// Two items whose run died under them are never in flight together: the
	// one that kills it would drag the other along.
	crashed, now := w.crashedInFlight(), time.Now()
	w.offered = now
	for _, l := range w.lanes {
		want := l.Slots - l.running
		for _, p := range w.pending {
			if p.lane == l {
				want++
			}
		}
		if want <= 0 || len(l.held) == 0 {
			continue
		}
		s := store.Start{Lane: l.Name, Want: want}
		plain := 0 // of those, none can be passed over
		for _, h := range l.held {
			if plain == want {
				break
			}
			if j := w.jobs[h.item.Job]; j.out != "" || j.paced(now) {
				continue
			}
			if h.item.Crashes > 0 {
				if crashed {
					w.sayCrashed()
					continue
				}
				crashed = true
			}
			if len(h.spec.Uses) == 0 && h.spec.InFlight == 0 && h.spec.Rate.Count == 0 {
				plain++
			}
			s.Items = append(s.Items, store.StartItem{Held: h.Held, Spec: h.spec})
		}
		if len(s.Items) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// crashedInFlight says whether an item whose run has died under it is running.
func (w *Worker) crashedInFlight() bool {
	for _, a := range w.inFlight {
		if a.item.Crashes > 0 && !a.ended {
			return true
		}
	}
	return false
}

// sayCrashed tells once why there are free slots beside items that are ready.
func (w *Worker) sayCrashed() {
	if !w.saidCrashed {
		w.saidCrashed = true
		w.note(jobs.NoteInfo, "items under which a run has died are worked one at a time, so that the one that ends its run is found")
	}
}

// pidPause is how long a pid may go unrecorded when nothing else is written:
// short enough for a rescuer, long enough that a short command never costs a
// write of its own for it.
const pidPause = 20 * time.Millisecond

func (w *Worker) pidsSoon() {
	if w.pidsAt.IsZero() {
		w.pidsAt = time.Now().Add(pidPause)
	}
}

// pids gathers what is known of processes and not yet recorded.
func (w *Worker) pids() (all []store.Process) {
	w.pidsAt = time.Time{}
	for _, a := range w.inFlight {
		if a.noted || a.ended {
			continue
		}
		select {
		case p := <-a.process:
			a.pid = p
		default:
		}
		if a.pid.PID != 0 {
			all = append(all, a.pid)
		} else {
			w.pidsSoon() // it is being started right now
		}
	}
	return all
}

// settled takes note of results that are recorded now.
func (w *Worker) settled(out store.Advanced) {
	stale := map[int64]bool{}
	for _, h := range out.Stale {
		stale[h.Item] = true
	}
	for _, p := range w.pending {
		delete(w.inFlight, p.Item)
		p.lane.running--
		w.letGo(p.held)
		if stale[p.Item] {
			w.summary.Stale++
			w.progress.Refused(p.item)
		} else {
			w.count(p)
			w.progress.Settled(p.item, p.result, p.verdict)
		}
		if w.plan.Print != nil {
			w.plan.Print(p.item, &p.printed)
		}
		p.printed.Close()
		w.afterwards(p)
	}
	w.pending = w.pending[:0]
}

// count keeps the run's own numbers.
func (w *Worker) count(p *attempt) {
	switch {
	case p.verdict.To == jobs.Done:
		w.summary.Done++
	case p.verdict.To == jobs.Dead:
		w.summary.Dead++
	case p.verdict.Charge == jobs.ChargeFailure:
		w.summary.Retried++
	case p.verdict.Charge == jobs.ChargeDefer:
		w.summary.Deferred++
	case p.result.Ending == jobs.Stopped:
		w.summary.Interrupted++
	}
}

// afterwards draws the consequences of a result for its lane and job.
func (w *Worker) afterwards(p *attempt) {
	j := w.jobs[p.item.Job]
	p.lane.look = true // a slot is free
	for _, l := range w.lanes {
		l.look = l.look || l.passed // and perhaps a share of a pool
	}
	if p.verdict.To == jobs.Delayed {
		p.lane.dueSoon(time.Now(), p.verdict.Delay)
	}
	switch {
	case p.verdict.Class == jobs.ClassSuspect:
		w.skip[p.Item] = true
	case p.result.Ending == jobs.CantFork:
		// It is tried again later, not at once.
		w.skip[p.Item] = true
		w.unforked = append(w.unforked, p.Item)
		if w.forkAt.IsZero() {
			w.forkAt = time.Now().Add(forkPause)
		}
		w.note(jobs.NoteInfo, "job %s, item %d: %s: released", j.spec.Name, p.Item, p.verdict.Reason)
	case j.proven && len(j.suspects) > 0 && j.out == "":
		// The command is there after all: what looked like a missing one is
		// tried again, as the item's own failure.
		for id := range j.suspects {
			delete(w.skip, id)
		}
		clear(j.suspects)
	}
}

// forkPause is how long a run that stays leaves an item alone for which no
// process could be made: the handler has tried for a while already.
const forkPause = 2 * time.Second

// forkAgain ends that pause.
func (w *Worker) forkAgain(now time.Time) {
	if w.forkAt.IsZero() || now.Before(w.forkAt) {
		return
	}
	w.forkAt = time.Time{}
	for _, id := range w.unforked {
		delete(w.skip, id)
	}
	w.unforked = nil
	w.lookEverywhere()
}

// giveUp decides whether a result means that the run starts no more of the
// job. It is asked before the write that records the result, so that nothing
// of the job rides along with it.
func (w *Worker) giveUp(j *job, v jobs.Verdict) {
	switch {
	case v.Class == jobs.ClassBroken:
		w.broken(j, v.Reason)
	case len(j.suspects) >= brokenAfter:
		w.broken(j, j.suspicion())
	case w.plan.StopAfter > 0 && len(j.failed) >= w.plan.StopAfter && j.out == "":
		j.out = "halted"
		w.summary.Halted[j.spec.Name] = v.Reason
		w.note(jobs.NoteMust, "job %s: %d different items failed in a row, the last with %q: starting no more of it in this run",
			j.spec.Name, len(j.failed), v.Reason)
	}
}

// broken gives a job up for this run: nobody is charged for it.
func (w *Worker) broken(j *job, reason string) {
	if j.out != "" {
		return
	}
	j.out = "broken"
	w.summary.Broken[j.spec.Name] = reason
	if source := j.spec.CommandSource(); j.spec.Source != source {
		w.note(jobs.NoteMust, "job %s can't be run: %s; mend that, or change %s", j.spec.Name, reason, source)
		return
	}
	w.note(jobs.NoteMust, "job %s can't be run: %s (%s)", j.spec.Name, reason, j.spec.Source)
}

// letGo notes that an item is no longer held; a claim whose last one that was
// is closed with the next write.
func (w *Worker) letGo(h *held) {
	if w.claims[h.Claim]--; w.claims[h.Claim] <= 0 {
		delete(w.claims, h.Claim)
		w.run.LetGo(h.Claim)
		w.empty = append(w.empty, h.Claim)
	}
}

// launchAll executes what was started, and notes what could not be.
func (w *Worker) launchAll(a store.Advance, out store.Advanced) error {
	started := map[int64]store.Started{}
	for _, st := range out.Started {
		started[st.Item] = st
	}
	lost := map[int64]bool{}
	for _, h := range out.Lost {
		lost[h.Item] = true
	}
	for _, s := range a.Start {
		l := w.laneNamed(s.Lane)
		before := len(l.held)
		for _, h := range l.remove(func(h *held) bool { _, ok := started[h.Item]; return ok || lost[h.Item] }) {
			if st, ok := started[h.Item]; ok {
				w.launch(h, st)
				// What was left alone while its rate let nothing start.
				l.look = l.look || h.spec.Rate.Count > 0 || w.jobs[h.item.Job].slowed
			} else {
				w.forgo(h)
				l.look = true
			}
		}
		f, full := out.Full[s.Lane]
		l.full, l.passed = nil, f.Passed > 0
		if full && f.Lane {
			l.full = &FullLane{Name: l.Name, Slots: l.Slots, InUse: f.InUse, Holders: f.Holders}
		}
		// A slot is free for us and nothing that we hold can start: others may
		// have use for it, and another claim may find what can. What only waits
		// for its rate stays: it is next.
		if full && (f.Lane || f.Passed > 0) && len(l.held) == before && l.free() > 0 {
			if err := w.release(func(h *held) bool { return h.lane == l }); err != nil {
				return err
			}
			l.look = !f.Lane
		}
	}
	return nil
}

func (w *Worker) laneNamed(name string) *lane {
	for _, l := range w.lanes {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// forgo lets go of an item that was not started: what --once and --limit
// allowed for it may be claimed anew.
func (w *Worker) forgo(h *held) {
	if h.lane.allow >= 0 {
		h.lane.allow++
	}
	if w.limit >= 0 {
		w.limit++
	}
	w.letGo(h)
}

// release gives unstarted items back that pick names.
func (w *Worker) release(pick func(*held) bool) error {
	var all []store.Held
	var gone []*held
	for _, l := range w.lanes {
		for _, h := range l.held {
			if pick(h) {
				all, gone = append(all, h.Held), append(gone, h)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	for len(all) > 0 {
		n := min(len(all), store.MaxRows)
		if _, err := w.store.Release(w.last, w.run.Info.ID, all[:n]); err != nil {
			if w.patient(err) {
				return nil
			}
			return err
		}
		all = all[n:]
	}
	w.failing = false
	out := map[*held]bool{}
	for _, h := range gone {
		out[h] = true
		w.forgo(h)
	}
	for _, l := range w.lanes {
		l.remove(func(h *held) bool { return out[h] })
	}
	return nil
}

// lose ends what runs under claims that are no longer ours and forgets what
// was held under them.
func (w *Worker) lose(claims []int64) {
	for _, id := range claims {
		for _, a := range w.inFlight {
			if a.Claim == id {
				a.cancel(handler.ErrLost)
			}
		}
		for _, l := range w.lanes {
			for _, h := range l.remove(func(h *held) bool { return h.Claim == id }) {
				w.forgo(h)
				l.look = true
			}
		}
		w.run.LetGo(id)
	}
	w.checkDeposed()
}

// checkDeposed ends a run that another one has taken for dead: whatever it
// claimed from now on would be taken from it too, and charged as a crash.
func (w *Worker) checkDeposed() {
	if w.closing != "" {
		return
	}
	deposed, err := w.run.Deposed(w.hard)
	if err != nil {
		w.note(jobs.NoteDetail, "asking whether this run was taken for dead: %v", err)
	}
	if deposed {
		w.closing = "another run took it for dead"
		w.note(jobs.NoteMust, "another run took this one for dead after its lease had lapsed: starting nothing more")
	}
}
