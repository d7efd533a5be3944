package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/lease"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newPause(a *app) *cobra.Command {
	o := &pauseOptions{}
	c := &cobra.Command{
		Use:   "pause [JOB...]",
		Short: "Hold jobs, a lane or everything back until they are resumed",
		Long: `From now on no run starts anything of what is named, whether it is at work
already or begins later. What is running may finish; what a run holds and has
not started is ready again at once. Nothing is charged to any item.

Exactly one kind is named: JOBs, --lane (repeatable) or --all. With --wait the
command stays until nothing of it runs any more: the drain before a move or an
upgrade; what a dead run left is taken over for that. A signal ends the waiting,
not the pause.

What is paused already keeps its time and gets the new reason. The pause ends
with batchq resume; stats shows it.`,
		Example: `  batchq pause pos --reason "till server is down"
  batchq pause --lane parallel
  batchq pause --all --wait && ./upgrade.sh && batchq resume --all`,
		RunE: func(c *cobra.Command, args []string) error {
			return runPause(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "it is paused; with --wait, nothing of it runs any more",
		exitFailed: "", exitUsage: "the command line makes no sense, or there is no such lane",
		exitConfig: "no such job, or the configuration is broken, or there is no database there",
		exitHUP:    "HUP ended the waiting; the pause stays",
		exitINT:    "INT ended the waiting; the pause stays",
		exitQUIT:   "QUIT ended the waiting; the pause stays",
		exitTERM:   "TERM ended the waiting; the pause stays",
		exitTSTP:   "TSTP ended the waiting; the pause stays",
	})
	return c
}

type pauseOptions struct {
	targetFlags
	reason string
	wait   bool
}

func (o *pauseOptions) register(f *pflag.FlagSet) {
	o.targetFlags.register(f, "everything, also what is added later")
	f.StringVar(&o.reason, "reason", "", "`TEXT` for those who will find it paused")
	f.BoolVar(&o.wait, "wait", false, "stay until nothing of it runs any more")
}

// maxReason bounds a reason in bytes: it is a line in every picture of the
// database until someone resumes.
const maxReason = 1000

func runPause(ctx context.Context, a *app, o *pauseOptions, args []string) (err error) {
	targets, err := o.targets("pause", args)
	if err != nil {
		return err
	}
	if len(o.reason) > maxReason {
		return usagef("--reason: %d bytes are too long: at most %d", len(o.reason), maxReason)
	}
	if err := a.configOrNone(); err != nil {
		return err
	}
	db, err := a.openStore(ctx, changes)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.known(ctx, db, targets, nil); err != nil {
		return err
	}
	if err := db.Pause(ctx, targets, a.user(), o.reason); err != nil {
		return err
	}
	d := &drain{a: a, db: db, targets: targets}
	paused, err := d.paused(ctx)
	if err != nil {
		return err
	}
	for _, line := range paused.Lines() {
		a.out.summary("%s", line)
	}
	if !o.wait {
		d.say("")
	} else if err = d.wait(ctx); err != nil && d.signal == 0 {
		return err
	}
	if a.out.json {
		paused.StillRunning = d.running()
		if failed := a.out.document(paused); failed != nil {
			return failed
		}
	}
	return err
}

// drain looks at what runs still have of what was paused.
type drain struct {
	a       *app
	db      *sqlite.DB
	targets []store.Target
	held    []store.InHand // of each target, at the last look
	signal  syscall.Signal // which ended the waiting; 0: none
	rescued bool           // dead runs were taken over from
	told    bool           // that this was not enough
}

// paused is what pause has done, as it stands in the database.
func (d *drain) paused(ctx context.Context) (report.Paused, error) {
	if err := d.look(ctx); err != nil {
		return report.Paused{}, err
	}
	s, err := d.db.Stats(ctx)
	if err != nil {
		return report.Paused{}, err
	}
	ours := slices.DeleteFunc(s.Pauses, func(p store.Pause) bool { return !slices.Contains(d.targets, p.Target) })
	return report.NewPaused(ours, d.running()), nil
}

func (d *drain) look(ctx context.Context) error {
	d.held = d.held[:0]
	for _, t := range d.targets {
		in, err := d.db.InHand(ctx, t)
		if err != nil {
			return err
		}
		d.held = append(d.held, in)
	}
	return nil
}

// running sums what has not ended.
func (d *drain) running() (n int64) {
	for _, in := range d.held {
		n += in.Running
	}
	return n
}

// over says whether no run has anything of it any more.
func (d *drain) over() bool {
	return !slices.ContainsFunc(d.held, func(in store.InHand) bool { return in.Claimed+in.Running > 0 })
}

// say tells of each target what is still held.
func (d *drain) say(before string) {
	for i, in := range d.held {
		if in.Claimed+in.Running > 0 {
			d.a.out.note("%s%s", before, report.StillRunning(d.targets[i], in, d.a.now()))
		}
	}
}

// How often wait asks whether anything was written, and how often it looks
// although nothing was: a run that dies writes nothing.
const (
	drainPoll = 100 * time.Millisecond
	drainLook = 5 * time.Second
)

// wait stays until nothing of it is held, or a signal comes.
func (d *drain) wait(ctx context.Context) error {
	if d.over() {
		return nil
	}
	s := d.a.listen(ctx)
	defer s.close()
	d.say("waiting for ")
	var last time.Time
	for {
		over, err := d.step(s.hard, &last)
		if s.hard.Err() != nil {
			return d.stopped(ctx, s) // told twice, it did not wait for a lock any longer
		}
		if over || err != nil {
			return err
		}
		select {
		case <-s.soft.Done():
			return d.stopped(ctx, s)
		case <-time.After(drainPoll):
		}
	}
}

// step looks again if something was written since the last look, or if that
// is long ago.
func (d *drain) step(ctx context.Context, last *time.Time) (over bool, err error) {
	// What changes after this question is seen by the next one.
	changed, err := d.db.Changed(ctx)
	if err != nil || !changed && time.Since(*last) < drainLook {
		return false, err
	}
	*last = time.Now()
	if err := d.look(ctx); err != nil || d.over() {
		return true, err
	}
	return false, d.heldByTheDead(ctx)
}

// stopped is the end of the waiting before the end of what it waited for.
func (d *drain) stopped(ctx context.Context, s *stops) error {
	d.signal = s.signal()
	if d.signal == 0 {
		return ctx.Err()
	}
	err := exitWith(signalExit(d.signal), fmt.Errorf("stopped by %s, and not all of it has ended", signalName(d.signal)))
	return withHint(err, "the pause stays; the same line again goes on waiting, and %s resume ends it", d.a.self())
}

// heldByTheDead sees to it that the waiting ends also where no run is at work:
// what is held by runs that died is taken over, as any run would do it.
func (d *drain) heldByTheDead(ctx context.Context) error {
	if d.told || d.running() == 0 {
		return nil
	}
	s, err := d.db.Stats(ctx)
	if err != nil {
		return err
	}
	life := aliveAmong(d.db.Path(), s.Runs)
	for _, in := range d.held {
		for _, h := range in.Holders {
			// A run that has ended is not among them: it holds only what it left.
			if l, open := life[h.Run]; open && l != report.Dead {
				return nil
			}
		}
	}
	if !d.rescued {
		d.rescued = true
		return d.rescue(ctx)
	}
	d.told = true
	d.a.out.must("what died runs had started can't be ended from here: see %s stats; a run goes on trying, also while it is paused", d.a.self())
	return nil
}

// rescue takes over from dead runs, as a run that works nothing.
func (d *drain) rescue(ctx context.Context) (err error) {
	own, err := sqlite.Open(ctx, d.db.Path(), sqlite.Options{Now: d.a.now})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	run, err := lease.Register(ctx, own, lease.Options{Database: d.db.Path(), Lease: jobs.DefaultLease, Command: d.a.args, Note: d.a.newProgress(false).Note})
	if err != nil {
		return err
	}
	err = run.Rescue(ctx)
	return errors.Join(err, run.Close(context.WithoutCancel(ctx), store.RunEnd{Outcome: "finished"}))
}

// targetFlags name what is paused or resumed.
type targetFlags struct {
	lanes []string
	all   bool
}

func (t *targetFlags) register(f *pflag.FlagSet, all string) {
	// No slice that commas split: "" must not look like nothing given.
	f.StringArrayVar(&t.lanes, "lane", nil, "the lane `L` (repeatable)")
	f.BoolVar(&t.all, "all", false, all)
}

// targets is what the arguments and flags of a command name: JOBs, lanes or
// everything.
func (t *targetFlags) targets(command string, names []string) ([]store.Target, error) {
	var kinds []string
	var targets []store.Target
	add := func(kind string, names []string, target func(name string) store.Target) error {
		for _, name := range names {
			if err := config.CheckName(name); err != nil {
				return usagef("%s: %w", kind, err)
			}
			if one := target(name); !slices.Contains(targets, one) {
				targets = append(targets, one)
			}
		}
		if len(names) > 0 {
			kinds = append(kinds, kind)
		}
		return nil
	}
	if err := add("JOB", names, func(name string) store.Target { return store.Target{Job: name} }); err != nil {
		return nil, err
	}
	if err := add("--lane", t.lanes, func(name string) store.Target { return store.Target{Lane: name} }); err != nil {
		return nil, err
	}
	if t.all {
		kinds, targets = append(kinds, "--all"), append(targets, store.Target{})
	}
	switch len(kinds) {
	case 0:
		return nil, withHint(usagef("%s needs a JOB, --lane or --all", command), "batchq %s --help shows how it is used", command)
	case 1:
		return targets, nil
	}
	return nil, usagef("%s exclude each other", strings.Join(kinds, " and "))
}

// known is an error when a target is a job or lane of which neither the
// configuration, nor the database, nor a pause knows anything: a slip of the
// pen must not look like a pause.
func (a *app) known(ctx context.Context, r store.Reader, targets []store.Target, pauses []store.Pause) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	jobNames, err := r.JobNames(ctx)
	if err != nil {
		return err
	}
	lanes, err := r.LaneNames(ctx)
	if err != nil {
		return err
	}
	jobNames = append(jobNames, cfg.Names...)
	lanes = slices.AppendSeq(append(lanes, jobs.Serial), maps.Keys(cfg.Lanes))
	for _, p := range pauses {
		jobNames, lanes = append(jobNames, p.Job), append(lanes, p.Lane)
	}
	for _, t := range targets {
		switch {
		case t.Job != "" && !slices.Contains(jobNames, t.Job):
			err := exitWith(exitConfig, fmt.Errorf("no job is called %q: neither the configuration nor the database knows it", t.Job))
			if near := jobs.Nearest(t.Job, jobNames); near != "" {
				return withHint(err, "did you mean %s?", near)
			}
			return withHint(err, "%s stats lists the jobs", a.self())
		case t.Lane != "" && !slices.Contains(lanes, t.Lane):
			slices.Sort(lanes)
			names := slices.DeleteFunc(slices.Compact(lanes), func(name string) bool { return name == "" })
			err := withHint(usagef("no lane is called %q", t.Lane), "the lanes are: %s", strings.Join(names, ", "))
			return meant(err, t.Lane, names)
		}
	}
	return nil
}

// user is who types, for those who will find something paused.
func (a *app) user() string {
	// Under sudo everybody is root: https://www.sudo.ws/docs/man/sudo.man/#SUDO_USER
	if name := a.getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}
