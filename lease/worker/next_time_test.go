package worker

import (
	"context"
	"testing"
	"time"

	"batchq/jobs"
)

// A turn that came between two looks of the loop is not slept through until
// something else happens.
func TestNextTime_APaceThatHasPassed(t *testing.T) {
	spec := &jobs.Spec{Name: "j"}
	l := &lane{Lane: Lane{Name: "web", Slots: 1, Jobs: []*jobs.Spec{spec}}}
	j := &job{spec: spec, lane: l, paceAt: time.Now().Add(-time.Millisecond)}
	l.held = []*held{{lane: l, item: &jobs.Item{Job: "j"}, spec: spec, since: time.Now()}}
	w := &Worker{plan: Plan{Lease: time.Hour}, lanes: []*lane{l}, jobs: map[string]*job{"j": j}, hard: context.Background(), attempts: context.Background()}
	if next := w.nextTime(); time.Until(next) > 0 {
		t.Errorf("the loop sleeps for %s", time.Until(next))
	}
	w.starts()
	if next := w.nextTime(); time.Until(next) < time.Minute {
		t.Errorf("the loop turns again in %s for what has been offered", time.Until(next))
	}
}
