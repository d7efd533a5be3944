package report

import (
	"fmt"
	"slices"

	"batchq/jobs"
	"batchq/store"
)

// claimed is one that a run holds and has not started.
func (t *telling) claimed() []Why {
	g := t.Grip
	switch t.life(&g.Run) {
	case Dead, Ended:
		return []Why{t.runDead("which had claimed it, ", "the next work makes it ready again, free")}
	}
	if g.Run.ID == 0 {
		return []Why{t.stray()}
	}
	w := why(whyClaimed, "%s has claimed it at %s, %s ago, and not started it yet; the lease runs until %s unless it is renewed",
		t.run(&g.Run), Moment(g.Since, t.now), age(g.Since, t.now), Moment(g.Until, t.now))
	w.Since, w.Until, w.Run = maybe(g.Since), maybe(g.Until), &g.Run.ID
	return slices.Concat([]Why{w}, t.lapsed(), t.held(), t.noRoom())
}

// running is one that is on record as started.
func (t *telling) running() []Why {
	g := t.Grip
	switch {
	case g.Orphan != nil:
		return t.leftBehind(g.Orphan)
	case g.Run.ID == 0:
		return []Why{t.stray()}
	case t.life(&g.Run) == Dead, t.life(&g.Run) == Ended:
		return []Why{t.runDead(fmt.Sprintf("which started it at %s (attempt %d), ", Moment(t.Item.Started, t.now), t.Item.Attempt),
			"the next work ends what it left behind, and "+t.afterCrash())}
	}
	since := t.Item.Started
	process := ", its process not on record yet"
	if t.Spec != nil && t.Spec.Handler.HTTP != nil {
		process = ", its request under way"
	}
	if g.Slot != nil {
		since = g.Slot.Since
		if g.Slot.PID != 0 {
			process = fmt.Sprintf(", process %d", g.Slot.PID)
			if t.Elsewhere[g.Run.ID] {
				process += " there"
			}
		}
	}
	w := why(whyRunning, "%s has it at work since %s, for %s: attempt %d%s", t.run(&g.Run), Moment(since, t.now), age(since, t.now), t.Item.Attempt, process)
	w.Since, w.Run = maybe(since), &g.Run.ID
	switch at := timeoutAt(t.Story); {
	case at.IsZero() && t.Spec != nil:
		w.Text += "; it has no timeout"
	case at.IsZero():
	case at.After(t.now):
		w.Text += fmt.Sprintf("; its timeout ends it at %s, in %s", Moment(at, t.now), Duration(at.Sub(t.now)))
		w.Until = maybe(at)
	default:
		w.Text += fmt.Sprintf("; its timeout was over at %s", Moment(at, t.now))
		w.Until = maybe(at)
	}
	return append([]Why{w}, t.lapsed()...)
}

// afterCrash is what a rescuer makes of the item, as its job says.
func (t *telling) afterCrash() string {
	policy := jobs.DefaultPolicy()
	if t.Spec != nil {
		policy = t.Spec.Policy
	}
	it := &t.Item.Item
	if v := policy.AfterCrash(it); v.To == jobs.Dead {
		return "sets the item aside, because " + v.Reason
	}
	return fmt.Sprintf("makes the item ready again (crash %d of %d)", it.Crashes+1, policy.MaxCrashes)
}

// run names a run of which nobody knows that it is dead.
func (t *telling) run(r *store.RunInfo) string {
	s := fmt.Sprintf("run %d (%s)", r.ID, t.pid(r))
	if t.life(r) == Unknown {
		s += ", of which can't be told from here whether it lives,"
	}
	return s
}

// pid is the pid of a run, with a word when it is none here.
func (t *telling) pid(r *store.RunInfo) string {
	if t.Elsewhere[r.ID] {
		return fmt.Sprintf("pid %d in another pid namespace", r.PID)
	}
	return fmt.Sprintf("pid %d", r.PID)
}

// lapsed is a lease that its run has not renewed.
func (t *telling) lapsed() []Why {
	g := t.Grip
	if g.Until.IsZero() || g.Until.After(t.now) {
		return nil
	}
	w := why(whyLapsed, "the lease ran out at %s: run %d hangs or is stopped; another run that finds it so for half a lease ends it and takes over",
		Moment(g.Until, t.now), g.Run.ID)
	w.Since, w.Run = maybe(g.Until), &g.Run.ID
	return []Why{w}
}

// runDead is a run that is no more and from which nobody has taken over yet.
func (t *telling) runDead(which, what string) Why {
	r := &t.Grip.Run
	state := "is dead"
	switch {
	case r.Foreign:
		state = "worked another copy of this database"
	case t.life(r) == Ended:
		state = "has ended"
	}
	w := why(whyRunDead, "run %d (%s), %s%s: %s", r.ID, t.pid(r), which, state, what)
	w.Run = &r.ID
	w.Hints = t.nextWork()
	return w
}

// stray is an item whose claim leads to no run.
func (t *telling) stray() Why {
	w := why(whyRunDead, "it is %s, and no run in the book holds it: the next work takes it back", t.Item.State)
	w.Hints = t.nextWork()
	return w
}

// nextWork is how a person brings about that somebody takes over, where nobody
// who is at work will.
func (t *telling) nextWork() []Hint {
	runs, _ := t.atWork()
	switch {
	case len(runs) > 0:
		return []Hint{}
	case t.Declared == nil:
		return []Hint{t.hint("to have it taken back", "work %s -- COMMAND {}", t.Item.Job)}
	}
	return []Hint{t.hint("to have it taken back", "work %s", t.Item.Job)}
}

// leftBehind is an item that stays held for what a dead run left behind.
func (t *telling) leftBehind(o *store.Orphan) []Why {
	g, left := t.Grip, t.Remains
	if left == nil {
		left = &Remains{Failed: "nobody has looked"}
	}
	owner := "the run that started it"
	if o.Owner.ID != 0 {
		owner = fmt.Sprintf("run %d, which started it,", o.Owner.ID)
	}
	state := "is dead"
	if o.Owner.Foreign {
		state = "worked another copy of this database"
	}
	w := why(whyLeft, "%s %s, and run %d has taken over attempt %d, begun at %s: ", owner, state, g.Run.ID, t.Item.Attempt, Moment(g.Slot.Since, t.now))
	w.Since = maybe(g.Slot.Since)
	if o.Owner.ID != 0 {
		w.Run = &o.Owner.ID
	}
	drop := t.hint("to give the item up when you know that it has ended", "drop %d", t.Item.ID)
	bound, where := o.Policy.Timeout+o.Policy.KillAfter, "it began in another pid namespace, where nobody can be asked from here"
	if left.Request {
		bound, where = o.Policy.Timeout, "it is a request, which a server may be at work on still"
	}
	unasked := left.Elsewhere || left.Request
	switch {
	case left.Within:
		w.Text += "it stays held as long as this lives, because who asks is a part of what that run left behind"
		w.Hints = []Hint{drop}
	case left.Failed != "":
		w.Text += "what it left behind can't be looked for: " + left.Failed
		w.Hints = []Hint{drop}
	case unasked && o.Policy.Timeout <= 0:
		w.Text += where + ", and has no timeout: it stays held until a person drops it"
		w.Hints = []Hint{drop}
	case unasked && g.Slot.Since.Add(bound).After(t.now):
		over := g.Slot.Since.Add(bound)
		w.Text += fmt.Sprintf("%s: it stays held until its timeout is over, at %s, in %s", where,
			Moment(over, t.now), Duration(over.Sub(t.now)))
		w.Until, w.Hints = maybe(over), []Hint{drop}
	case len(left.Processes) > 0:
		w.Text += "it stays held until what that left behind has ended"
		w.Hints = append(t.nextWork(), drop)
	default:
		w.Text += "nothing of that is left, and the next look of a run makes it ready again"
		w.Hints = t.nextWork()
	}
	list := []Why{w}
	for _, p := range left.Processes {
		list = append(list, t.process(p))
	}
	return list
}

// processName bounds a name that anybody may have given a program.
const processName = 40

// process is one that lives and keeps an item held.
func (t *telling) process(p Process) Why {
	w := why(whyProcess, "process %d (%s) lives", p.PID, Short(p.Name, processName))
	if p.Doubtful {
		w.Text = fmt.Sprintf("process %d (%s), which may belong to it, lives", p.PID, Short(p.Name, processName))
	}
	if p.Reason == "" {
		w.Text += ": a run that looks ends it"
		return w
	}
	w.Text += " and is not ended from here: " + Short(p.Reason, reasonShown)
	w.Hints = []Hint{{To: "to end it, as who may", Command: fmt.Sprintf("kill %d", p.PID)}}
	return w
}

func (t *telling) done() Why {
	it := &t.Item
	w := why(whyDone, "attempt %d was done at %s, %s ago, in %s", it.Attempt, Moment(it.Finished, t.now), age(it.Finished, t.now), Duration(it.Finished.Sub(it.Started)))
	w.Since = maybe(it.Finished)
	return w
}

func (t *telling) dead() Why {
	it := &t.Item
	w := why(whyDead, "it was set aside at %s, %s ago (%s)%s", Moment(it.Finished, t.now), age(it.Finished, t.now), it.Class, because(it.Reason))
	w.Since = maybe(it.Finished)
	w.Hints = []Hint{t.hint("to see what was executed", "dlq show %d", it.ID),
		t.hint("to try it again", "requeue %d", it.ID), t.hint("to take it out of the list", "drop %d", it.ID)}
	return w
}

func (t *telling) dropped() Why {
	it := &t.Item
	w := why(whyDropped, "it was taken out of the list at %s, %s ago; ", Moment(it.Finished, t.now), age(it.Finished, t.now))
	w.Since = maybe(it.Finished)
	if t.Successor == 0 {
		w.Text += "its key is free: who wants it again enqueues it"
		return w
	}
	w.Text += fmt.Sprintf("its key is item %d now", t.Successor)
	w.Hints = []Hint{t.hint("to see that one", "show %d", t.Successor)}
	return w
}
