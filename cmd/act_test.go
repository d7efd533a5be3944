package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/store"
	"batchq/store/sqlite"
)

// act does to one item what a run would do, so that scripts about what a
// person does need no runs. A run that claims or starts and does not finish
// looks dead: it has no process.
func act(database string, now func() time.Time, job, key, what, reason string) (err error) {
	ctx := context.Background()
	db, err := sqlite.Open(ctx, database, sqlite.Options{Now: now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	run, err := db.Register(ctx, store.RunInfo{Token: strings.ToLower(rand.Text()), PID: 1 << 30, BootID: "another boot", PIDNS: "pid:[1]", Host: "host", Command: []string{"work", job}})
	if err != nil {
		return err
	}
	spec := &jobs.Spec{Name: job, Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}
	held, err := claimOne(ctx, db, run, spec, key)
	if err != nil || what == "claim" {
		return err
	}
	started, err := db.Advance(ctx, store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: []store.StartItem{{Held: held, Spec: spec}}}}})
	if err != nil || what == "start" {
		return err
	}
	if len(started.Started) != 1 {
		return fmt.Errorf("act: %q did not start", key)
	}
	s := store.Settlement{Held: started.Started[0].Held, Attempt: started.Started[0].Attempt, Result: jobs.Result{Duration: 1500 * time.Millisecond}}
	switch what {
	case "done":
		s.Verdict = jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}
	case "dead":
		s.Result.ExitCode = 65
		s.Verdict = jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: reason}
	case "delayed":
		s.Result.ExitCode = 75
		s.Verdict = jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassRetry, Charge: jobs.ChargeFailure, Delay: time.Hour, Reason: reason}
	default:
		return fmt.Errorf("act: no way %q", what)
	}
	if _, err := db.Advance(ctx, store.Advance{Run: run, Settle: []store.Settlement{s}, Close: []int64{held.Claim}}); err != nil {
		return err
	}
	return db.EndRun(ctx, run, store.RunEnd{Outcome: "finished"})
}

// claimOne claims everything, keeps one item and gives the others back.
func claimOne(ctx context.Context, db *sqlite.DB, run int64, spec *jobs.Spec, key string) (kept store.Held, err error) {
	c, err := db.Claim(ctx, store.ClaimRequest{Run: run, Lane: spec.Lane, Jobs: []*jobs.Spec{spec}, Max: store.MaxRows, Lease: time.Minute})
	if err != nil {
		return kept, err
	}
	var others []store.Held
	for _, it := range c.Items {
		h := store.Held{Item: it.ID, Claim: c.ID}
		if (string(it.Key) == key || key == "*") && kept.Item == 0 {
			kept = h
			continue
		}
		others = append(others, h)
	}
	if kept.Item == 0 {
		return kept, fmt.Errorf("act: no ready item %q of job %s", key, spec.Name)
	}
	_, err = db.Release(ctx, run, others)
	return kept, err
}
