package cmd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs/fault"
	"batchq/jobs/handler"
	"batchq/lease"
	"batchq/lease/worker"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newWork(a *app) *cobra.Command {
	o := &workOptions{verb: "work"}
	c := &cobra.Command{
		Use:                   "work [JOB…] [flags] [-- COMMAND [ARG…]]",
		DisableFlagsInUseLine: true,
		Short:                 "Work what is ready, and resume what a crashed run left",
		Long: `Works the items of the named jobs, or of all that batchq.toml declares, in all
their lanes side by side, until nothing is ready any more. It takes at most a
batch of items at once (100 unless set otherwise), under a lease, runs the
command once for each, and records each result the moment it is known.

After any crash the same command line resumes: what was recorded as done is
not run again, what had not started comes first, and what had started runs
again as soon as its left-over processes have been ended.

A COMMAND after -- goes with exactly one JOB and takes the place of its
handler. {} stands for the item ({key}, {scope}, {job}, {attempt} and {.field}
work too); without any of these the item is appended, as xargs does. The job
runs in the lane serial, one item at a time, unless batchq.toml or --lane says
otherwise.

With --follow it stays when nothing is ready, and works what comes within a
second. HUP makes it read batchq.toml again; TERM lets what runs finish.`,
		Example: `  batchq work                                   # every job of batchq.toml
  batchq work settlement --scope @today         # one job, today's items
  batchq work thumbs -- ./thumbnail.sh {}       # a command of the moment
  batchq work thumbs --lane parallel -j 4 -- ./thumbnail.sh {}
  batchq work thumbs --dry-run -- ./thumbnail.sh {}   # what would run where
  batchq work --follow                          # a service: work what comes
  batchq work settlement --wait --stop-after 20 && ./close-day.sh
  batchq work -q; r=$?; [ $r = 75 ] || exit $r  # cron: 75 is the next run's`,
		Args: func(*cobra.Command, []string) error { return nil }, // plan says what is wrong
		RunE: func(c *cobra.Command, args []string) error {
			o.jobs, o.command = splitCommand(c, args)
			return o.run(c.Context(), a)
		},
	}
	o.register(c.Flags())
	setExits(c, exits{exitOK: "", exitFailed: "", exitUsage: "", exitPart: "", exitLeft: "", exitConfig: "",
		exitHUP: "", exitINT: "", exitQUIT: "", exitTERM: "", exitTSTP: ""})
	return c
}

// workOptions are what work was asked for.
type workOptions struct {
	flags      *pflag.FlagSet
	verb       string // how the command is called: work or run
	jobs       []string
	files      []string // of run: the list; for a -- that was forgotten among them
	command    []string // after --; nil: none
	lane       string
	slots      int
	batch      int
	once       bool
	limit      int
	maxRuntime time.Duration
	scope      string
	wait       bool
	follow     bool
	dryRun     bool
	print      bool
	logDir     string
	stopAfter  int
	lease      time.Duration
	grace      time.Duration
	policy     policyFlags
}

func (o *workOptions) register(f *pflag.FlagSet) {
	o.registerRun(f)
	f.StringVar(&o.scope, "scope", "", "only items of this `SCOPE`; @today, @yesterday and @hour are expanded")
	f.BoolVar(&o.wait, "wait", false, "stay until all that was asked for is settled, whoever holds it")
	f.BoolVar(&o.follow, "follow", false, "stay until told to stop, and work what comes; HUP reads batchq.toml again")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would run where, and run nothing")
}

// registerRun declares the flags that say how a run works.
func (o *workOptions) registerRun(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.lane, "lane", "", "work this `LANE` only; for a command of the moment: run in it")
	f.IntVarP(&o.slots, "slots", "j", 0, "at most `N` items at once in --lane; lowers what batchq.toml declares")
	f.IntVar(&o.batch, "batch", 0, "at most `N` unsettled items held at once in a lane (100)")
	f.BoolVar(&o.once, "once", false, "one claim a lane, then leave")
	f.IntVar(&o.limit, "limit", 0, "work at most `N` items")
	durationVar(f, &o.maxRuntime, "max-runtime", "start nothing more after this time; what runs may finish")
	f.BoolVar(&o.print, "print", false, "show each item's output, unmixed, when it ends")
	f.StringVar(&o.logDir, "log-dir", "", "keep each attempt's whole output in a file below `DIR`")
	f.IntVar(&o.stopAfter, "stop-after", 0, "start no more of a job in this run when `N` different items failed in a row")
	durationVar(f, &o.lease, "lease", "how long a claim lasts unless it is renewed (60s)")
	o.grace = 30 * time.Second
	durationVar(f, &o.grace, "grace", "what running commands get after a stop before they are ended")
	o.policy.register(f)
}

// splitCommand parts the names from the command after --.
func splitCommand(c *cobra.Command, args []string) (names, command []string) {
	dash := c.ArgsLenAtDash()
	if dash < 0 {
		return args, nil
	}
	return args[:dash], args[dash:]
}

func (o *workOptions) run(ctx context.Context, a *app) (err error) {
	plan, err := o.plan(a)
	if err != nil {
		return err
	}
	to := changes
	if o.dryRun {
		to = reads
	}
	queue, err := a.openStore(ctx, to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Close()) }()
	if err := o.sayUndeclared(ctx, a, queue); err != nil {
		return err
	}
	if err := o.warnScope(ctx, a, queue, plan); err != nil {
		return err
	}
	if o.dryRun {
		return a.rehearse(ctx, queue, plan)
	}
	if o.follow {
		plan.Follow, plan.Reread = true, func() (worker.Plan, error) { return o.reread(ctx, a, queue) }
	}
	s := a.listen(ctx)
	defer s.close()
	sum, err := a.work(ctx, s, queue, plan)
	if err != nil {
		return err
	}
	if a.out.json {
		if err := a.out.document(report.NewWorked(numbers(sum))); err != nil {
			return err
		}
	}
	a.out.summary("%s", report.Worked(numbers(sum)))
	return workStatus(s, sum, plan)
}

// warnScope tells of a scope that no item has ever had. A run that follows may
// wait for its first one, and a scope that a word like @today stands for is no
// slip of the pen: its list may be late.
func (o *workOptions) warnScope(ctx context.Context, a *app, queue *sqlite.DB, plan worker.Plan) error {
	unknown, err := neverScope(ctx, queue, plan.Scope)
	switch {
	case !unknown || o.follow:
	case strings.Contains(o.scope, "@"):
		a.out.note("no item has ever had the scope %q", *plan.Scope)
	default:
		a.out.warn("no item has ever had the scope %q", *plan.Scope)
	}
	return err
}

// reread is what a run that follows does from now on, after a HUP. On an error
// what was read before stays.
func (o *workOptions) reread(ctx context.Context, a *app, queue *sqlite.DB) (worker.Plan, error) {
	before := a.loaded
	a.loaded = nil
	plan, err := o.plan(a)
	if err == nil {
		err = a.sameDatabase(queue.Path())
	}
	if err == nil {
		err = o.sayUndeclared(ctx, a, queue)
	}
	if err != nil {
		a.loaded = before
	}
	return plan, err
}

// work registers a run, works the plan and says why something is left. An
// error means that there is nothing to sum up.
func (a *app) work(ctx context.Context, s *stops, queue *sqlite.DB, plan worker.Plan) (sum worker.Summary, err error) {
	if plan.Follow {
		plan.Reload = s.follow()
	}
	// The heartbeat has a connection of its own: it never waits for a write
	// of the loop.
	own, err := sqlite.Open(ctx, queue.Path(), sqlite.Options{Now: a.now})
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	progress := a.newProgress(plan.Scope != nil)
	run, err := lease.Register(ctx, own, lease.Options{Database: queue.Path(), Lease: plan.Lease, Command: a.args, Note: progress.Note})
	if err != nil {
		return sum, err
	}
	stop := a.watch(progress.Standing, func() {
		// What keeps it from being read is said by who works, and ends there.
		if c, err := own.Counts(ctx, plan.JobNames(), plan.Scope); err == nil {
			progress.Look(c)
		}
	}, plan.Print == nil) // a bar would stand in the middle of what items print
	sum, err = a.loop(ctx, s, queue, run, plan, progress)
	stop()
	fault.Here("run", "worked")
	var others []store.OtherRun // who have what is left in hand
	if err == nil && s.soft.Err() == nil && sum.Books.Claimed+sum.Books.Running > 0 {
		var failed error
		if others, failed = own.OtherRuns(ctx, run.Info.ID); failed != nil {
			a.out.detail("asking who has what is left: %v", failed)
		}
	}
	end := store.RunEnd{Outcome: outcomeOf(s, sum, err), PeakBytes: sum.PeakBytes}
	closeErr := a.close(ctx, s, run, end)
	// Told twice, it did not wait for a lock any longer: that is no failure.
	gaveUp := errors.Is(err, context.Canceled) || err == nil && errors.Is(closeErr, context.DeadlineExceeded)
	if gaveUp && s.hard.Err() != nil {
		a.out.must("stopped before everything could be recorded: the same line again resumes")
		return sum, exitWith(signalExit(s.signal()), nil)
	}
	if err != nil {
		return sum, err // what ended the run mostly keeps its end from being written too: said once
	}
	if closeErr != nil {
		return sum, closeErr
	}
	progress.Close()
	a.sayWhy(s, sum, others)
	return sum, nil
}

// sayWhy tells why something is left that this run could not work.
func (a *app) sayWhy(s *stops, sum worker.Summary, others []store.OtherRun) {
	for _, h := range sum.Holds {
		a.out.note("%s; %s", report.Held(h, a.now()), a.release(h))
	}
	for _, f := range sum.FullLanes {
		a.out.note("%s", report.LaneFull(f.Name, f.InUse, f.Slots, f.Holders, a.now()))
	}
	if s.signal() != 0 || len(sum.FullLanes) > 0 {
		return // the rest is no news
	}
	for _, job := range slices.Sorted(maps.Keys(sum.NoRoom)) {
		a.out.note("%s", report.NoRoom(job, sum.NoRoom[job]))
	}
	if text := report.HeldElsewhere(others); text != "" {
		a.out.note("%s", text)
	}
	if sum.Books.Delayed > 0 && !sum.NextDue.IsZero() {
		a.out.detail("%s", report.NextDue(sum.NextDue, a.now()))
	}
}

// release is the command that ends a hold.
func (a *app) release(h store.Hold) string {
	args := " resume "
	switch p := h.Pause; {
	case h.Throttle != nil:
		return "to go on at once: " + a.self() + args + shellWord(h.Job)
	case p == nil:
		return "to try one at once: " + a.self() + args + shellWord(h.Job)
	case p.Job != "":
		args += shellWord(p.Job)
	case p.Lane != "":
		args += "--lane " + shellWord(p.Lane)
	default:
		args += "--all"
	}
	return "to end that: " + a.self() + args
}

// lastWait is how long a run that was told twice to stop waits for the lock to
// write its end. Without it the next run finds it dead, which is as good.
const lastWait = 5 * time.Second

func (a *app) close(ctx context.Context, s *stops, run *lease.Run, end store.RunEnd) error {
	ctx = context.WithoutCancel(ctx)
	if s.hard.Err() != nil {
		bounded, cancel := context.WithTimeout(ctx, lastWait)
		defer cancel()
		ctx = bounded
	}
	return run.Close(ctx, end)
}

func (a *app) loop(ctx context.Context, s *stops, queue *sqlite.DB, run *lease.Run, plan worker.Plan, progress *report.Progress) (sum worker.Summary, err error) {
	runner, err := handler.NewRunner(run.Info.Token)
	if err != nil {
		return sum, err
	}
	defer func() {
		// A command may have left what can't be removed: no fault of the run.
		if err := runner.Close(); err != nil {
			a.out.note("the directory for results can't be removed: %v", err)
		}
	}()
	w, err := worker.New(ctx, plan, queue, run, runner, progress)
	if err != nil {
		return sum, err
	}
	return w.Run(s.soft, s.hard, queue.Replaced)
}

// newProgress tells on stderr what a run does; whole as report.NewProgress has it.
func (a *app) newProgress(whole bool) *report.Progress {
	return report.NewProgress(report.Printer{Must: a.out.must, Note: a.out.note, Detail: a.out.detail}, a.self()+" dlq list", whole)
}

// outcomeOf is how a run's end stands in the book.
func outcomeOf(s *stops, sum worker.Summary, err error) string {
	switch {
	case err != nil:
		return "failed: " + err.Error()
	case s.signal() != 0:
		return "stopped by " + signalName(s.signal())
	case len(sum.Broken) > 0:
		return "job broken"
	}
	return "finished"
}

// workStatus is how the command ends after a run.
func workStatus(s *stops, sum worker.Summary, plan worker.Plan) error {
	switch {
	case s.signal() != 0:
		return exitWith(signalExit(s.signal()), nil)
	case len(sum.Broken) > 0:
		return exitWith(exitConfig, nil)
	case sum.Dead > 0, plan.Scope != nil && sum.Books.Dead > 0,
		// Who waited for all of it has waited for what other runs did, too.
		plan.Wait && sum.Books.Dead > sum.DeadBefore:
		return exitWith(exitPart, nil)
	case sum.Books.Left() > 0:
		return exitWith(exitLeft, nil)
	}
	return nil
}

// numbers is a summary for report, which does not know the worker.
func numbers(s worker.Summary) report.Work {
	return report.Work{Done: s.Done, Retried: s.Retried, Dead: s.Dead, Deferred: s.Deferred, Interrupted: s.Interrupted,
		Stale: s.Stale, Batches: s.Claims, Broken: s.Broken, Halted: s.Halted, Holds: s.Holds, Left: s.Books}
}
