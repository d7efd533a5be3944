package sqlite

import (
	"context"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// Advance records results and starts in one transaction: what ended makes
// room for what starts, and one sync serves them all.
func (db *DB) Advance(ctx context.Context, a store.Advance) (store.Advanced, error) {
	out := store.Advanced{}
	err := db.write(ctx, "recording", durable(a), func(t *tx) error {
		out = store.Advanced{Full: map[string]store.Full{}, Paced: map[string]time.Duration{}}
		for i := range a.Settle {
			ours, err := t.settle(a.Run, &a.Settle[i], &out)
			if err != nil {
				return err
			}
			if !ours {
				out.Stale = append(out.Stale, a.Settle[i].Held)
			}
		}
		fault.Here("recording", "settled")
		for _, p := range a.Pids {
			// A slot's number is used again: news of an ended attempt must not
			// be taken for news of the one that has the slot now.
			err := t.exec(`UPDATE slot SET pid = ?, pid_start = ? WHERE id = ? AND run = ? AND item = ?
				AND EXISTS (SELECT 1 FROM item WHERE id = slot.item AND claim = ?)`, p.PID, int64(p.Start), p.Slot, a.Run, p.Item, p.Claim)
			if err != nil {
				return err
			}
		}
		for _, id := range a.Close {
			if err := t.closeClaim(id); err != nil {
				return err
			}
		}
		fault.Here("recording", "closed")
		return t.startAll(a, &out)
	})
	return out, err
}

// durable says whether a step must be on the disk before it counts. A result
// must. A start mark need not: after a power cut the item is simply not
// started, and no process of it is left; except where a second execution is
// not allowed at all.
func durable(a store.Advance) syncing {
	if len(a.Settle) > 0 {
		return synced
	}
	for _, s := range a.Start {
		for _, it := range s.Items {
			if it.Spec.Policy.OnCrash == jobs.CrashDead {
				return synced
			}
		}
	}
	return unsynced
}

// settle writes one result, if the item is still held under the claim named.
func (t *tx) settle(run int64, s *store.Settlement, out *store.Advanced) (ours bool, err error) {
	v := s.Verdict
	var job, scope, priority int64
	none, err := missing(t.row("SELECT job, scope, priority FROM item WHERE id = ? AND claim = ? AND state = 3 AND attempt = ?",
		[]any{s.Item, s.Claim, s.Attempt}, &job, &scope, &priority))
	if err != nil {
		return false, err
	}
	var lane string
	var started int64
	if none {
		return false, t.refuse(s.Item)
	}
	// A slot that a person has deleted by hand must not keep the result out.
	if _, err := missing(t.row("DELETE FROM slot WHERE id = ? AND run = ? RETURNING lane, started", []any{s.Slot, run}, &lane, &started)); err != nil {
		return false, err
	}
	fault.Here("settle", "freed")
	if err := t.place(s.Item, priority, v); err != nil {
		return false, err
	}
	fault.Here("settle", "placed")
	t.moved(job, scope, jobs.Running, v.To)
	t.note(job, lane, v)
	if err := t.feed(job, started, s, out); err != nil {
		return false, err
	}
	if err := t.tellThrottle(job, started, s, out); err != nil {
		return false, err
	}
	fault.Here("settle", "fed")
	if v.To == jobs.Done {
		t.tick(job, lane, s.Result.Duration)
		return true, nil
	}
	return true, t.attempted(run, s, started)
}

// place writes an item's next state as a verdict says. It is the one place
// that turns a delay into a time.
func (t *tx) place(item, priority int64, v jobs.Verdict) error {
	if v.To == jobs.Done {
		return t.exec("UPDATE item SET state = 4, claim = NULL, finished = ? WHERE id = ?", t.now, item)
	}
	var finished any
	if v.To.Settled() {
		finished = t.now
	}
	failure, crash, deferral := 0, 0, 0
	switch v.Charge {
	case jobs.ChargeFailure:
		failure = 1
	case jobs.ChargeCrash:
		crash = 1
	case jobs.ChargeDefer:
		deferral = 1
	}
	if v.Charge == jobs.ChargeNone && v.To != jobs.Delayed {
		// Free: it keeps its place in the line.
		return t.exec("UPDATE item SET state = ?, claim = NULL, finished = ?, class = ?, reason = ? WHERE id = ?",
			int64(v.To), finished, string(v.Class), v.Reason, item)
	}
	due := t.now + v.Delay.Milliseconds()
	return t.exec(`UPDATE item SET state = ?, claim = NULL, finished = ?, class = ?, reason = ?, due = ?, rank = ?,
		failures = failures + ?, crashes = crashes + ?, defers = defers + ? WHERE id = ?`,
		int64(v.To), finished, string(v.Class), v.Reason, due, rank(due, int(priority)), failure, crash, deferral, item)
}

// note counts what a verdict means for the day's numbers.
func (t *tx) note(job int64, lane string, v jobs.Verdict) {
	h := t.event(job, lane)
	switch {
	case v.To == jobs.Done:
		h.done++
	case v.To == jobs.Dead:
		h.dead++
	case v.Charge == jobs.ChargeFailure:
		h.retries++
	}
	switch v.Class {
	case jobs.ClassTimeout:
		h.timeouts++
	case jobs.ClassThrottled:
		h.throttled++
	case jobs.ClassCrash:
		h.crashes++
	}
}

// attempted keeps the story of an attempt that did not succeed.
func (t *tx) attempted(run int64, s *store.Settlement, started int64) error {
	r := s.Result
	var exit any
	if r.Ending == jobs.Exited && r.Signal == 0 {
		exit = r.ExitCode
	}
	var status any
	if r.Ending == jobs.Answered {
		status = r.Status
	}
	return t.exec(`INSERT INTO attempt (item, number, run, claim, class, exit_code, signal, http, reason, started, took, head, tail, omitted)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.Item, s.Attempt, run, s.Claim, string(s.Verdict.Class), exit, r.SignalName, status, s.Verdict.Reason,
		started, r.Duration.Microseconds(), r.Output.Head, r.Output.Tail, r.Output.Omitted)
}

// refuse counts a result that came too late.
func (t *tx) refuse(item int64) error {
	var job int64
	none, err := missing(t.row("SELECT job FROM item WHERE id = ?", []any{item}, &job))
	if err == nil && !none {
		t.event(job, "").stale++
	}
	return err
}

// closeClaim forgets a claim of which nothing is held any more.
func (t *tx) closeClaim(id int64) error {
	return t.exec("DELETE FROM claim WHERE id = ? AND NOT EXISTS (SELECT 1 FROM item WHERE claim = ?)", id, id)
}

// startAll starts what fits, lane by lane, against one count of what is in
// flight in the whole database.
func (t *tx) startAll(a store.Advance, out *store.Advanced) error {
	if len(a.Start) == 0 {
		return nil
	}
	g, err := t.openGate(a.Limits)
	if err != nil {
		return err
	}
	for _, s := range a.Start {
		if err := t.startLane(g, a.Run, s, out); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) startLane(g *gate, run int64, s store.Start, out *store.Advanced) (err error) {
	full := store.Full{}
	started, paced := 0, false
	for _, it := range s.Items {
		if started == s.Want {
			break
		}
		if full.Lane = g.laneFull(s.Lane); full.Lane {
			break
		}
		job, err := t.jobID(it.Spec.Name)
		if err != nil {
			return err
		}
		switch g.bars(job, s.Lane, it.Spec) {
		case free:
		case barPool:
			if err := g.squeeze(job, s.Lane, it.Spec); err != nil {
				return err
			}
			full.Passed++
			continue
		default:
			full.Passed++
			continue
		}
		// The rate comes last: what is kept back by something else does not
		// wait for its turn.
		if wait, err := g.pace(job, it.Spec.Rate); err != nil {
			return err
		} else if wait > 0 {
			out.Paced[it.Spec.Name], paced = wait, true
			continue
		}
		st, ours, err := t.start(run, s.Lane, job, it)
		if err != nil {
			return err
		}
		if !ours {
			out.Lost = append(out.Lost, it.Held)
			continue
		}
		if err := g.take(job, st.Slot, s.Lane, it.Spec); err != nil {
			return err
		}
		out.Started = append(out.Started, st)
		started++
	}
	if started == s.Want || !full.Lane && full.Passed == 0 && !paced {
		return nil
	}
	full.InUse = g.lane[s.Lane]
	if full.Lane {
		if full.Holders, err = t.holders(s.Lane); err != nil {
			return err
		}
	}
	out.Full[s.Lane] = full
	return nil
}

// start moves one item to running and takes a slot for it.
func (t *tx) start(run int64, lane string, job int64, it store.StartItem) (st store.Started, ours bool, err error) {
	st = store.Started{Held: it.Held}
	var scope int64
	none, err := missing(t.row(`UPDATE item SET state = 3, attempt = attempt + 1, started = ?
		WHERE id = ? AND claim = ? AND state = 2 RETURNING scope, attempt`, []any{t.now, it.Item, it.Claim}, &scope, &st.Attempt))
	if err != nil || none {
		return st, false, err
	}
	fault.Here("start", "moved")
	t.moved(job, scope, jobs.Claimed, jobs.Running)
	err = t.row("INSERT INTO slot (run, item, job, lane, uses, attempt, started) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id",
		[]any{run, it.Item, job, lane, encodeUses(it.Spec.Uses), st.Attempt, t.now}, &st.Slot)
	if err != nil {
		return st, false, err
	}
	fault.Here("start", "placed")
	none, err = missing(t.row("SELECT body FROM payload WHERE item = ?", []any{it.Item}, &st.Payload))
	if err == nil && !none && st.Payload == nil {
		st.Payload = []byte{} // the driver reads no bytes as nil; an empty payload is not none
	}
	return st, true, err
}

// Release gives unstarted items back, free and in their old place.
func (db *DB) Release(ctx context.Context, run int64, items []store.Held) (released int, err error) {
	err = db.write(ctx, "release", unsynced, func(t *tx) error {
		released = 0
		claims := map[int64]bool{}
		for _, h := range items {
			var job, scope int64
			none, err := missing(t.row("UPDATE item SET state = 0, claim = NULL WHERE id = ? AND claim = ? AND state = 2 RETURNING job, scope",
				[]any{h.Item, h.Claim}, &job, &scope))
			if err != nil {
				return err
			}
			claims[h.Claim] = true
			if !none {
				t.moved(job, scope, jobs.Claimed, jobs.Ready)
				released++
				fault.Here("release", "moved")
			}
		}
		for id := range claims {
			if err := t.closeClaim(id); err != nil {
				return err
			}
		}
		return nil
	})
	return released, err
}

// Changed says whether another connection has committed since the last call.
// It costs no lock.
func (db *DB) Changed(ctx context.Context) (bool, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.conn == nil {
		return false, db.outward("looking for changes", errClosed)
	}
	s, err := db.stmt("PRAGMA data_version")
	if err != nil {
		return false, db.outward("looking for changes", err)
	}
	var v int64
	err = db.patiently(ctx, func() error { return s.QueryRowContext(context.Background()).Scan(&v) })
	changed := v != db.changed
	db.changed = v
	return changed, db.outward("looking for changes", err)
}
