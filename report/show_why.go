package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// The codes of Why.
const (
	whyDelayed    = "delayed"     // it is not due yet
	whyDue        = "due"         // it is, and the next claim of any run makes it ready
	whyPaused     = "paused"      // its job, its lane or everything
	whyBreaker    = "breaker"     // its job is held because its items failed in a row
	whyThrottled  = "throttled"   // its job is held because a server has said that it is too much
	whyLaneFull   = "lane_full"   //
	whyJobFull    = "job_full"    // its job's own in_flight
	whyPoolFull   = "pool_full"   //
	whyPoolKept   = "pool_kept"   // for a job that has waited longer
	whyCrashed    = "crashed"     // another item whose run died under it is in flight
	whyRate       = "rate"        //
	whyBehind     = "behind"      // others of its job start first
	whyUndeclared = "undeclared"  // no file says how its job runs
	whyBroken     = "broken"      // its command could not be run, and that was charged to nobody
	whyNoRun      = "no_run"      // nobody is at work, or nobody who takes it
	whyFree       = "free"        // nothing is in its way
	whyClaimed    = "claimed"     // a run holds it and has not started it
	whyLapsed     = "lapsed"      // that run has not renewed its lease
	whyRunDead    = "run_dead"    // the run that has it is no more, and nobody has taken over
	whyRunning    = "running"     //
	whyLeft       = "left_behind" // a dead run's, held until what that left behind has ended
	whyProcess    = "process"     // one that a dead run left behind, and that lives
	whyDead       = "dead"        // set aside
	whyDone       = "done"        //
	whyDropped    = "dropped"     //
)

// why makes a reason; what else is known of it is set by the caller.
func why(code, format string, args ...any) Why {
	return Why{Code: code, Text: fmt.Sprintf(format, args...), Hints: []Hint{}}
}

// telling finds the reasons for one item.
type telling struct {
	*store.Story
	Around
	now  time.Time
	lane string
}

// all lists what there is to say, by the state that the item is in.
func (t *telling) all() []Why {
	switch it := &t.Item; it.State {
	case jobs.Delayed:
		if it.Due.After(t.now) {
			return append([]Why{t.delayed()}, t.held()...)
		}
		first := why(whyDue, "it was due at %s, %s ago: the next claim of any run makes it ready", Moment(it.Due, t.now), age(it.Due, t.now))
		return append([]Why{first}, t.waits()...)
	case jobs.Ready:
		return t.waits()
	case jobs.Claimed:
		return t.claimed()
	case jobs.Running:
		return t.running()
	case jobs.Done:
		return []Why{t.done()}
	case jobs.Dead:
		return []Why{t.dead()}
	default:
		return []Why{t.dropped()}
	}
}

// delayed is one that is not due yet.
func (t *telling) delayed() Why {
	it := &t.Item
	at := fmt.Sprintf("%s, in %s", Moment(it.Due, t.now), Duration(it.Due.Sub(t.now)))
	w := why(whyDelayed, "it was added for %s", at)
	if n := len(t.Attempts); n > 0 {
		last := &t.Attempts[n-1]
		w.Text = fmt.Sprintf("it waits until %s, after attempt %d (%s)%s", at, last.Number, last.Class, because(last.Reason))
	}
	w.Until = maybe(it.Due)
	w.Hints = []Hint{t.hint("to have it due now", "requeue %d --state delayed", it.ID)}
	return w
}

// held is what a person or a breaker holds back.
func (t *telling) held() (list []Why) {
	for _, p := range NewPauses(t.Pauses) {
		target := p.pause.Target
		if target.Job != "" && target.Job != t.Item.Job || target.Lane != "" && target.Lane != t.lane {
			continue
		}
		w := why(whyPaused, "%s is paused %s", target, p.said(t.now))
		w.Since = maybe(p.pause.Since)
		to, which := "to end that", target.Job // names need no quotes in a shell
		switch {
		case target.Lane != "":
			which = "--lane " + target.Lane
		case target.Job == "":
			which = "--all"
			// No form of resume ends it alone.
			if more := len(t.Pauses) - 1; more == 1 {
				to = "to end that, and the other pause that there is"
			} else if more > 1 {
				to = fmt.Sprintf("to end that, and the %d other pauses that there are", more)
			}
		}
		w.Hints = []Hint{t.hint(to, "resume %s", which)}
		list = append(list, w)
	}
	if b := breaker(t.Breaker); b != nil && (t.Declared == nil || t.Declared.Policy.Breaker.Failures > 0) {
		w := why(whyBreaker, "job %s is held %s", t.Item.Job, b.said(t.now))
		w.Since, w.Until = maybe(b.opened), maybe(b.until)
		w.Hints = []Hint{t.hint("to have one item tried at once", "resume %s", t.Item.Job)}
		list = append(list, w)
	}
	if h := throttle(t.Throttle); h != nil && (h.holds(t.now) || !h.Proven) {
		w := why(whyThrottled, "job %s %s", t.Item.Job, h.said(t.now))
		w.Since, w.Until = maybe(h.since), maybe(h.until)
		w.Hints = []Hint{t.hint("to go on at once, when you know that the server takes more", "resume %s", t.Item.Job)}
		list = append(list, w)
	}
	return list
}

// noRoom is what is full.
func (t *telling) noRoom() (list []Why) {
	inLane := t.slots(func(s *store.SlotRow) bool { return s.Lane == t.lane })
	limit, declared := t.Lanes[t.lane]
	if t.lane == jobs.Serial {
		limit, declared = 1, true
	}
	if declared && len(inLane) >= limit {
		list = append(list, t.full(whyLaneFull, inLane, "lane %s is full: %d of %d", t.lane, len(inLane), limit))
	}
	spec := t.Declared
	if spec == nil {
		spec = t.Spec
	}
	if spec == nil {
		return list
	}
	ofJob := t.slots(func(s *store.SlotRow) bool { return s.Job == t.Item.Job })
	if spec.InFlight > 0 && len(ofJob) >= spec.InFlight {
		list = append(list, t.full(whyJobFull, ofJob, "job %s is at its own limit: %d of %d in flight", t.Item.Job, len(ofJob), spec.InFlight))
	}
	for _, pool := range slices.Sorted(maps.Keys(spec.Uses)) {
		list = append(list, t.pool(pool, spec.Uses[pool])...)
	}
	if len(t.Crashed) > 0 {
		s := &t.Crashed[0]
		w := why(whyCrashed, "its run has died under it before, and item %d, to which that has happened too, is in flight in run %d: a run has one of them at a time", s.Item, s.Run)
		w.Since, w.Run = maybe(s.Since), &s.Run
		list = append(list, w)
	}
	if next := t.NextStart; spec.Rate.Count > 0 && !next.IsZero() {
		// As the engine takes it: further than one start can have moved it, it
		// was written before the clock was set back, or under another rate.
		wait := next.Sub(t.now) - jobs.RateSlack
		if wait > 0 && wait <= spec.Rate.Interval() {
			w := why(whyRate, "the rate of job %s, %s, lets the next one start in %s", t.Item.Job, spec.Rate, Duration(wait))
			w.Until = maybe(t.now.Add(wait))
			list = append(list, w)
		}
	}
	return list
}

// pool is what keeps an attempt that takes so much of it out of a pool.
func (t *telling) pool(pool string, takes int) []Why {
	size, known := t.Pools[pool]
	if !known {
		return nil
	}
	users := t.slots(func(s *store.SlotRow) bool { return s.Uses[pool] > 0 })
	used, kept := 0, 0
	for _, s := range users {
		used += s.Uses[pool]
	}
	if t.Kept != nil {
		kept = t.Kept.Uses[pool]
	}
	switch {
	case used+takes > size:
		return []Why{t.full(whyPoolFull, users, "pool %s is full: %d of %d in use, and it takes %d", pool, used, size, takes)}
	case used+takes+kept > size:
		w := why(whyPoolKept, "pool %s is kept free until %s for job %s, which has waited longer: %d of %d in use, and it takes %d",
			pool, Moment(t.Kept.Until, t.now), t.Kept.Job, used, size, takes)
		w.Until = maybe(t.Kept.Until)
		return []Why{w}
	}
	return nil
}

func (t *telling) slots(ok func(*store.SlotRow) bool) (some []*store.SlotRow) {
	for i := range t.Slots {
		if s := &t.Slots[i]; ok(s) {
			some = append(some, s)
		}
	}
	return some
}

// holdersShown is how many runs a sentence names.
const holdersShown = 4

// full is a limit that is reached, and by whom: one run after the other, the
// one that has had it longest first, as the slots come.
func (t *telling) full(code string, slots []*store.SlotRow, format string, args ...any) Why {
	w := why(code, format, args...)
	var order []int64
	of := map[int64][]*store.SlotRow{}
	for _, s := range slots {
		if of[s.Run] == nil {
			order = append(order, s.Run)
		}
		of[s.Run] = append(of[s.Run], s)
	}
	for i, run := range order {
		if i == holdersShown {
			w.Text += fmt.Sprintf(", and %d more runs", len(order)-i)
			break
		}
		has := of[run]
		what := fmt.Sprintf("item %d of job %s", has[0].Item, has[0].Job)
		if len(has) > 1 {
			what = fmt.Sprintf("%d items", len(has))
		}
		w.Text += fmt.Sprintf(", %s since %s (%s)", t.who(run, has[0].Orphan), clock(has[0].Since, t.now), what)
	}
	if len(slots) > 0 {
		w.Since, w.Run = maybe(slots[0].Since), &slots[0].Run
		if has := slots[0]; len(slots) == 1 && has.Item != 0 {
			w.Hints = []Hint{t.hint("to see that one", "show %d", has.Item)}
		}
	}
	return w
}

// who names a run that has a slot, and says so where it is dead: then the slot
// is free when the next run has taken over.
func (t *telling) who(run int64, orphan bool) string {
	switch {
	case orphan:
		return fmt.Sprintf("run %d for what a dead run left behind", run)
	case t.Life[run] == Dead:
		return fmt.Sprintf("run %d, which is dead,", run)
	}
	return fmt.Sprintf("run %d", run)
}

// waits is what one that is due waits for.
func (t *telling) waits() []Why {
	list := slices.Concat(t.broken(), t.held(), t.noRoom())
	return append(list, t.turn(len(list) > 0)...)
}

// broken is a last attempt that could not run its command: the item is ready
// as before, and whoever starts a run has the same again until that is mended.
func (t *telling) broken() []Why {
	n := len(t.Attempts)
	if n == 0 || t.Attempts[n-1].Number != t.Item.Attempt {
		return nil
	}
	last := &t.Attempts[n-1]
	said, check := "attempt %d could not run its command, at %s, %s ago%s", "to see whether it can be run now"
	switch last.Class {
	case jobs.ClassBroken:
		if t.Declared != nil && t.Declared.Handler.HTTP != nil {
			said, check = "attempt %d could not send its request, at %s, %s ago%s", "to see whether it can be sent now"
		}
	case jobs.ClassSuspect: // which is all that an exit status tells
		said, check = "attempt %d could not find or execute its command, or one that this calls, at %s, %s ago%s", "to see what is executed"
	default:
		return nil
	}
	ended := last.Started.Add(last.Duration)
	w := why(whyBroken, said, last.Number, Moment(ended, t.now), age(ended, t.now), because(last.Reason))
	w.Since = maybe(ended)
	if t.Declared != nil {
		w.Hints = []Hint{t.hint(check, "check")}
	}
	return []Why{w}
}

// turn is whose turn it is when there is room; barred says that there is none.
func (t *telling) turn(barred bool) (list []Why) {
	working, takers := t.atWork()
	if t.Declared == nil && len(takers) == 0 {
		w := why(whyUndeclared, "job %s is not declared: %s", t.Item.Job, t.NoJob)
		w.Hints = []Hint{t.hint("to work it all the same", "work %s -- COMMAND {}", t.Item.Job)}
		list = append(list, w)
	}
	switch {
	case len(working) == 0:
		w := why(whyNoRun, "no run is at work")
		if t.Declared != nil {
			w.Hints = []Hint{t.hint("to start one", "work %s", t.Item.Job)}
		}
		list = append(list, w)
	case len(takers) == 0:
		w := why(whyNoRun, "no run that is at work takes it (at work: %s)", runNumbers(working))
		if t.Declared != nil {
			w.Hints = []Hint{t.hint("to start one that does", "work %s", t.Item.Job)}
		}
		list = append(list, w)
	case len(list) == 0 && !barred && (t.Line == nil || t.Line.Before == 0):
		list = append(list, why(whyFree, "nothing is in its way: a run that works job %s starts it as soon as it looks (at work: %s)", t.Item.Job, runNumbers(takers)))
	}
	if l := t.Line; l != nil && l.Before > 0 {
		others := fmt.Sprintf("%d items of job %s start", l.Before, t.Item.Job)
		switch {
		case l.More:
			others = "more than " + others
		case l.Before == 1:
			others = "1 item of job " + t.Item.Job + " starts"
		}
		list = append(list, why(whyBehind, "%s before it", others))
	}
	return list
}

// atWork lists the runs that live, or may, and those of them that take an item
// like this one.
func (t *telling) atWork() (runs, takers []int64) {
	for i := range t.Runs {
		r := &t.Runs[i]
		if t.Life[r.ID] == Dead {
			continue
		}
		runs = append(runs, r.ID)
		if t.Takers[r.ID] {
			takers = append(takers, r.ID)
		}
	}
	return runs, takers
}

func runNumbers(ids []int64) string {
	var parts []string
	for i, id := range ids {
		if i == holdersShown {
			parts = append(parts, fmt.Sprintf("%d more", len(ids)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("run %d", id))
	}
	return strings.Join(parts, ", ")
}

func (t *telling) hint(to, format string, args ...any) Hint {
	return Hint{To: to, Command: t.Self + " " + fmt.Sprintf(format, args...)}
}
