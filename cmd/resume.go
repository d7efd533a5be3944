package cmd

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"batchq/report"
	"batchq/store"
)

func newResume(a *app) *cobra.Command {
	o := &targetFlags{}
	c := &cobra.Command{
		Use:   "resume [JOB...]",
		Short: "End pauses, so that runs may start these items again",
		Long: `Ends the pauses of JOBs, of lanes, or with --all every pause there is. Runs that
are at work see it at their next look; where none is, nothing starts by itself.

A job that is held because its items failed in a row is tried at once, for who
has repaired what was down: one item, and all of them when that succeeds. One
that is held because its server said 429 goes on at once.

A job stays held as long as its lane, or everything, is paused: what still
holds is told. What was not paused is told too, and is no error.`,
		Example: `  batchq resume pos
  batchq resume --lane parallel
  batchq resume --all && batchq work`,
		RunE: func(c *cobra.Command, args []string) error {
			return runResume(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags(), "end every pause there is")
	setExits(c, exits{
		exitOK:     "it is not paused any more (or was not)",
		exitFailed: "", exitUsage: "the command line makes no sense, or there is no such lane",
		exitConfig: "no such job, or the configuration is broken, or there is no database there",
	})
	return c
}

func runResume(ctx context.Context, a *app, o *targetFlags, args []string) (err error) {
	targets, err := o.targets("resume", args)
	if err != nil {
		return err
	}
	if err := a.configOrNone(); err != nil {
		return err
	}
	db, err := a.openStore(ctx, changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Stats(ctx)
	if err != nil {
		return err
	}
	if err := a.known(ctx, db, targets, s.Pauses); err != nil {
		return err
	}
	these := targets
	if o.all {
		these = nil // every pause there is
	}
	ended, err := db.Resume(ctx, these)
	if err != nil {
		return err
	}
	tried, err := db.TryNow(ctx, jobsOf(these))
	if err != nil {
		return err
	}
	lifted, err := db.Unthrottle(ctx, jobsOf(these))
	if err != nil {
		return err
	}
	if s, err = db.Stats(ctx); err != nil {
		return err
	}
	r := report.NewResumed(ended, tried, lifted, s.Pauses, a.now())
	if a.out.json {
		if err := a.out.document(r); err != nil {
			return err
		}
	}
	for _, line := range r.Lines() {
		a.out.summary("%s", line)
	}
	a.sayNotPaused(targets, ended, append(tried, lifted...), o.all)
	if len(r.StillPaused) > 0 {
		for _, line := range r.Left() {
			a.out.note("%s", line)
		}
		a.out.note("to end every pause: %s resume --all", a.self())
	}
	return nil
}

// sayNotPaused tells which targets there was nothing to end of.
func (a *app) sayNotPaused(targets []store.Target, ended []store.Pause, tried []string, all bool) {
	if all {
		if len(ended)+len(tried) == 0 {
			a.out.note("nothing was paused")
		}
		return
	}
	for _, t := range targets {
		if !slices.Contains(tried, t.Job) && !slices.ContainsFunc(ended, func(p store.Pause) bool { return p.Target == t }) {
			a.out.note("%s was not paused", t)
		}
	}
}

// jobsOf lists the jobs among targets; nil, which means all of them, when
// targets is nil.
func jobsOf(targets []store.Target) []string {
	if targets == nil {
		return nil
	}
	names := []string{}
	for _, t := range targets {
		if t.Job != "" {
			names = append(names, t.Job)
		}
	}
	return names
}
