package cmd

import (
	"context"
	"errors"
	"slices"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
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
	sample := &sampled{Source: records}
	fed, err := a.feed(s, db, feed, sample, records.share)
	if err != nil {
		return err
	}
	added := report.NewEnqueued(feed, fed)
	rows, err := plannedJobs(ctx, db, plan)
	if err != nil {
		return err
	}
	if err := sample.join(ctx, db, &rows[0], plan.Lanes[0].Jobs[0], feed, fed); err != nil {
		return err
	}
	if a.out.json {
		if err := a.out.document(report.NewRanDry(added, rows[0])); err != nil {
			return err
		}
	}
	o.enqueue.say(a, added)
	for _, line := range rows[0].Lines() {
		a.out.print("%s", line)
	}
	return nil
}

// sampled keeps the first records that pass through it.
type sampled struct {
	store.Source
	first []store.Record
}

func (s *sampled) Next() (store.Record, error) {
	r, err := s.Source.Next()
	if err == nil && len(s.first) < rehearsed {
		s.first = append(s.first, store.Record{Key: slices.Clone(r.Key), Payload: slices.Clone(r.Payload), Where: r.Where})
	}
	return r, err
}

// join adds to what is ready now the records that would be new, as far as
// there is room among the first.
func (s *sampled) join(ctx context.Context, db *sqlite.DB, to *report.PlannedJob, spec *jobs.Spec, feed *store.Feed, fed store.Fed) error {
	if feed.Delay > 0 || !feed.At.IsZero() {
		to.Delayed += fed.Added
		return nil
	}
	to.Ready += fed.Added
	for _, r := range s.first {
		if len(to.First) >= rehearsed {
			return nil
		}
		if db != nil {
			there, err := db.Items(ctx, store.Selection{Jobs: []string{feed.Job}, Scope: &feed.Scope, Key: r.Key, Limit: 1})
			if err != nil {
				return err
			}
			if len(there) > 0 {
				continue
			}
		}
		to.First = append(to.First, firstCommand(spec, &jobs.Item{Job: feed.Job, Scope: feed.Scope, Key: r.Key, Payload: r.Payload, Attempt: 1}))
	}
	return nil
}
