package cmd

import (
	"context"
	"errors"
	"slices"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/report"
	"batchq/store"
)

// rehearse says what would be added and what would run, and does neither.
func (o *runOptions) rehearse(ctx context.Context, a *app, s *stops, plan worker.Plan, feed *store.Feed, records *list) (err error) {
	db, err := a.openStore(ctx, reads)
	switch {
	case errors.Is(err, store.ErrNoDatabase):
		db = nil // in a list that is not there yet, everything would be new
	case err != nil:
		return err
	default:
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	var fresh []*jobs.Item // the first that would come in, as attempts that they would be
	feed.Each = func(it *store.NewItem, o store.Outcome) {
		if o == store.Added && len(fresh) < rehearsed {
			fresh = append(fresh, &jobs.Item{Job: feed.Job, Scope: feed.Scope, Key: slices.Clone(it.Key), Payload: slices.Clone(it.Payload), Attempt: 1})
		}
	}
	fed, err := a.feed(s, db, feed, records, records.share)
	if err != nil {
		return err
	}
	added := report.NewEnqueued(feed, fed)
	rows, err := a.plannedJobs(ctx, db, plan)
	if err != nil {
		return err
	}
	join(&rows[0], plan.Lanes[0].Jobs[0], feed, fed, fresh)
	if a.out.json {
		if err := a.out.document(report.NewRanDry(added, rows[0])); err != nil {
			return err
		}
	}
	o.enqueue.say(a, added)
	for _, line := range rows[0].Lines() {
		a.out.print("%s", line)
	}
	return o.enqueue.status(added)
}

// join adds to what is ready now what would come in, as far as there is room
// among the first.
func join(to *report.PlannedJob, spec *jobs.Spec, feed *store.Feed, fed store.Fed, fresh []*jobs.Item) {
	if feed.Delay > 0 || !feed.At.IsZero() {
		to.Delayed += fed.Added
		return
	}
	to.Ready += fed.Added
	for _, it := range fresh[:min(len(fresh), rehearsed-len(to.First))] {
		to.First = append(to.First, firstCommand(spec, it))
	}
}
