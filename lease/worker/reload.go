package worker

import (
	"fmt"
	"strings"

	"batchq/jobs"
)

// reload takes over what the configuration says now. What runs goes on as it
// was started; what was held unstarted is given back first, and claimed anew
// where its job belongs now.
func (w *Worker) reload() error {
	if w.closing != "" {
		w.reloading = false
		return nil
	}
	if err := w.release(func(*held) bool { return true }); err != nil || !w.retryAt.IsZero() {
		return err // what can't be given back now is so at a later turn
	}
	w.reloading = false
	plan, err := w.plan.Reread()
	if err != nil {
		w.note(jobs.NoteMust, "the configuration was not reloaded, the old one stays: %v", err)
		return nil
	}
	w.plan.Lanes, w.plan.Pools, w.plan.Batch = plan.Lanes, plan.Pools, plan.Batch
	w.limits = w.plan.limits()
	before := w.jobs
	w.lanes, w.jobs = nil, map[string]*job{}
	for _, l := range w.plan.Lanes {
		w.open(l)
	}
	for _, a := range w.inFlight {
		w.move(a, before)
	}
	w.runner.Connections(w.plan.slots())
	w.note(jobs.NoteInfo, "configuration reloaded: %s", w.plan.outline())
	return nil
}

// outline is a plan in one line: each lane with its slots and jobs.
func (p *Plan) outline() string {
	var lanes []string
	for _, l := range p.Lanes {
		var names []string
		for _, s := range l.Jobs {
			names = append(names, s.Name)
		}
		lanes = append(lanes, fmt.Sprintf("lane %s (%d): %s", l.Name, l.Slots, strings.Join(names, ", ")))
	}
	return strings.Join(lanes, "; ")
}

// move puts what runs where its end will be counted. A lane or job that is
// declared no more lives on until then, and starts nothing.
func (w *Worker) move(a *attempt, before map[string]*job) {
	l := w.laneNamed(a.lane.Name)
	if l == nil {
		l = &lane{Lane: Lane{Name: a.lane.Name}, allow: unbounded}
		w.lanes = append(w.lanes, l)
	}
	a.lane = l
	l.running++
	if name := a.item.Job; w.jobs[name] == nil {
		j := before[name]
		j.lane, j.out = l, "no longer declared"
		w.jobs[name] = j
	}
}
