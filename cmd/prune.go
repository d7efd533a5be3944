package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newPrune(a *app) *cobra.Command {
	o := &pruneOptions{}
	c := &cobra.Command{
		Use:   "prune --older-than DURATION [JOB...]",
		Short: "Delete done and dropped items of long ago",
		Long: `Deletes items that were done or dropped longer ago than DURATION, with what
hangs on them, in small steps: it may run beside anything. Items that wait, run
or are dead never go. Without a JOB, --scope or --state, runs that ended so long
ago go too. The books keep how many went.

It ends the protection of their keys: a list that names one again gets it done
again. The file does not shrink; the room is used again. A job that says
keep_done = "30d" in batchq.toml is pruned by work itself.`,
		Example: `  batchq prune --older-than 30d
  batchq prune --older-than 90d settlement --scope 2026-08-01
  batchq prune --older-than 12h --state dropped
  batchq prune --older-than 30d --dry-run`,
		Args: func(*cobra.Command, []string) error { return nil }, // any number of jobs
		RunE: func(c *cobra.Command, args []string) error {
			return runPrune(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "what is old enough is gone, or there was nothing",
		exitFailed: "", exitUsage: "",
		exitConfig: "the configuration is broken, or there is no database there",
		exitLeft:   "a run of an older batchq is at work on the database: run me again",
		exitHUP:    "", exitINT: "", exitQUIT: "", exitTERM: "", exitTSTP: "",
	})
	return c
}

// prunable are the states of items that are settled, for good.
var prunable = []jobs.State{jobs.Done, jobs.Dropped}

type pruneOptions struct {
	flags     *pflag.FlagSet
	olderThan time.Duration
	jobs      []string
	scope     string
	states    []string
	dryRun    bool
}

func (o *pruneOptions) register(f *pflag.FlagSet) {
	o.flags = f
	f.Var(age{duration{&o.olderThan}}, "older-than", "settled longer ago than this: 30d, 12h")
	f.StringSliceVar(&o.jobs, "job", nil, "of this `JOB` (repeatable); the same as an argument")
	f.StringVar(&o.scope, "scope", "", "of this `SCOPE`; @today, @yesterday and @hour are expanded")
	f.StringSliceVar(&o.states, "state", nil, "`STATE` of the items: done or dropped; both unless given")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, say what would go")
}

// age is a duration of which a number without a unit is most likely days.
type age struct{ duration }

func (a age) Set(s string) error {
	if _, err := config.ParseAge(s); err != nil {
		return err
	}
	return a.duration.Set(s)
}

// prune is what is to go; its Keep is filled when the jobs are known.
func (o *pruneOptions) prune(args []string, now time.Time) (p store.Prune, names []string, err error) {
	if !o.flags.Changed("older-than") {
		return p, nil, withHint(usagef("prune needs --older-than"), "for example: batchq prune --older-than 30d")
	}
	if o.olderThan <= 0 {
		return p, nil, usagef("--older-than: it must be longer than 0")
	}
	names = append(args, o.jobs...)
	for _, name := range names {
		if err := config.CheckName(name); err != nil {
			return p, nil, usagef("JOB: %w", err)
		}
	}
	if p.Scope, err = scopeOf(o.flags, o.scope, now); err != nil {
		return p, nil, err
	}
	for _, name := range o.states {
		state, err := jobs.ParseState(name)
		if err == nil && !slices.Contains(prunable, state) {
			err = fmt.Errorf("only done and dropped items can go, and %s ones never do", state)
		}
		if err != nil {
			return p, nil, usagef("--state: %w", err)
		}
		p.States = append(p.States, state)
	}
	p.DryRun = o.dryRun
	return p, names, nil
}

func runPrune(ctx context.Context, a *app, o *pruneOptions, args []string) (err error) {
	p, names, err := o.prune(args, a.now())
	if err != nil {
		return err
	}
	to := changes
	if o.dryRun {
		to = reads
	}
	db, err := a.openStore(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	withRuns := len(names) == 0 && p.Scope == nil && p.States == nil
	if len(names) == 0 {
		if names, err = db.JobNames(ctx); err != nil {
			return err
		}
	} else {
		var targets []store.Target
		for _, name := range names {
			targets = append(targets, store.Target{Job: name})
		}
		if err := a.known(ctx, db, targets, nil); err != nil {
			a.out.warn("%v", err) // it has nothing to prune, which is no failure
		}
	}
	if err := a.warnUnknown(ctx, db, nil, p.Scope); err != nil {
		return err
	}
	p.Keep = map[string]time.Duration{}
	for _, name := range names {
		p.Keep[name] = o.olderThan
	}
	s := a.listen(ctx)
	defer s.close()
	var gone atomic.Int64
	stop := a.watch(func() report.Standing { return report.Working("item", gone.Load(), 0) }, nil, true)
	all, err := pruneItems(s.soft, db, p, &gone)
	var runs *int
	if withRuns {
		runs = new(int)
		if err == nil {
			*runs, err = pruneRuns(s.soft, db, o.olderThan, o.dryRun)
		}
	}
	stop()
	stopped := s.signal() != 0 && err != nil
	r := report.NewPruned(all, runs, o.olderThan, o.dryRun, stopped)
	if a.out.json {
		if err := a.out.document(r); err != nil {
			return err
		}
	}
	a.out.summary("%s", r.Summary())
	for _, line := range r.Consequences() {
		a.out.note("%s", line)
	}
	return s.because(err)
}

// pruneItems goes through the items step by step, and counts in gone. What it
// returns with an error has gone.
func pruneItems(ctx context.Context, db *sqlite.DB, p store.Prune, gone *atomic.Int64) (all store.Pruned, err error) {
	for {
		step, err := db.Prune(ctx, p)
		if err != nil {
			return all, err
		}
		all.Done, all.Dropped = all.Done+step.Done, all.Dropped+step.Dropped
		gone.Store(all.Done + all.Dropped)
		if !step.More {
			return all, nil
		}
		p.After = step.Next
		if err := store.Breathe(ctx); err != nil {
			return all, err
		}
	}
}

func pruneRuns(ctx context.Context, db *sqlite.DB, age time.Duration, dryRun bool) (all int, err error) {
	for {
		n, err := db.PruneRuns(ctx, age, dryRun)
		all += n
		if err != nil || n == 0 || dryRun {
			return all, err
		}
		if err := store.Breathe(ctx); err != nil {
			return all, err
		}
	}
}
