package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newRun(a *app) *cobra.Command {
	o := &runOptions{work: workOptions{verb: "run"}}
	c := &cobra.Command{
		Use:                   "run JOB [FILE…] [flags] [-- COMMAND [ARG…]]",
		DisableFlagsInUseLine: true,
		Short:                 "Add a list and work it to its end, in one line",
		Long: `Does what enqueue and then work --wait do: adds the records of the files, or of
standard input, to JOB, and stays until all of JOB's scope is settled, whoever
holds it. The same line again resumes: what is done is not done again, what a
crash or a stop left is worked, and records that are new come in.

It takes the flags of both. The scope is that of --scope, else that of the job
in batchq.toml, else none; everything in it counts, also what an earlier line
has added. Records that are rejected are told, and the others are worked.

Nothing is worked when the list itself is in doubt: fewer records than --min,
--on-duplicate fail that met one, an input that can't be read to its end.

Where xargs -P or GNU parallel ran a command side by side, say so: --lane
parallel -j N. Without it, one item runs at a time.`,
		Example: `  ls *.jpg | batchq run thumbs -- ./thumbnail.sh {}
  ls *.jpg | batchq run thumbs --lane parallel -j 4 -- ./thumbnail.sh {}
  batchq run settlement customers.csv --key id --scope @today && ./close-day.sh
  batchq run pos orders.csv --key store,order_id --dry-run   # what would run
  find . -name '*.log' -print0 | batchq run gzip -0 -- gzip {}
  batchq run settlement </dev/null              # only what is left of it`,
		Args: func(*cobra.Command, []string) error { return nil }, // plan says what is wrong
		RunE: func(c *cobra.Command, args []string) error {
			names, command := splitCommand(c, args)
			if len(names) == 0 {
				return withHint(usagef("run needs a JOB"), "batchq run --help shows how it is used")
			}
			o.work.jobs, o.work.files, o.work.command = names[:1], names[1:], command
			return o.run(c.Context(), a, names[1:])
		},
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "every item of the scope is done",
		exitFailed: "the command failed (I/O, database), or fewer records came than --min asks for",
		exitUsage:  "",
		exitPart:   "done in part: records were rejected or in conflict, or an item of the scope is\n       in the dead-letter list; or --on-duplicate fail ended the list",
		exitLeft:   "something of the scope is left (--limit, --once, --max-runtime): run me again",
		exitConfig: "the configuration or the job is broken",
		exitHUP:    "", exitINT: "", exitQUIT: "", exitTERM: "", exitTSTP: "",
	})
	return c
}

// runOptions are the flags of enqueue and of work; scope and dryRun are one
// for both.
type runOptions struct {
	enqueue enqueueOptions
	work    workOptions
}

func (o *runOptions) register(f *pflag.FlagSet) {
	o.enqueue.registerList(f)
	o.work.registerRun(f)
	f.StringVar(&o.enqueue.scope, "scope", "", "the `SCOPE` in which keys are unique; @today, @yesterday and @hour are expanded")
	f.BoolVar(&o.enqueue.dryRun, "dry-run", false, "change nothing, say what would be added and what would run")
}

func (o *runOptions) run(ctx context.Context, a *app, files []string) (err error) {
	if o.enqueue.input.exported() {
		return withHint(usagef("run works one scope, and each record of an export brings its own"),
			"batchq enqueue %s FILE --format export, then batchq work %[1]s --wait", shellWord(o.work.jobs[0]))
	}
	o.work.dryRun = o.enqueue.dryRun
	plan, err := o.work.plan(a) // first: a job that can't be worked takes no list
	if err != nil {
		return err
	}
	feed, records, err := o.enqueue.order(a, o.work.verb, o.work.jobs[0], files)
	if err != nil {
		if hint := forgottenDash(o.work.verb, append(o.work.jobs, files...), false); hint != "" && o.work.command == nil {
			return withHint(err, "%s", hint)
		}
		return err
	}
	plan.Scope, plan.Wait = &feed.Scope, true
	s := a.listen(ctx)
	defer s.close()
	if feed.DryRun {
		return o.rehearse(ctx, a, s, plan, feed, records)
	}
	db, err := a.openStore(s.soft, creates)
	if err != nil {
		return s.because(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return o.both(ctx, a, s, db, plan, feed, records)
}

// both adds the list, and works the scope unless the list is in doubt.
func (o *runOptions) both(ctx context.Context, a *app, s *stops, db *sqlite.DB, plan worker.Plan, feed *store.Feed, records *list) error {
	if err := o.work.sayUndeclared(ctx, a, db); err != nil {
		return err
	}
	if cfg, err := a.config(); err != nil {
		return err
	} else if near := jobs.Nearest(feed.Job, cfg.Names); near != "" && cfg.Jobs[feed.Job] == nil {
		noteUndeclared(a, cfg, feed.Job)
	}
	if err := a.askAboutName(ctx, db, feed.Job); err != nil {
		return err
	}
	fed, err := a.feed(s, db, feed, records, records.share)
	if err != nil && fed.Read == 0 && s.signal() == 0 {
		return err // nothing has begun, so there is nothing to sum up
	}
	added := report.NewEnqueued(feed, fed)
	o.enqueue.say(a, added)
	if err == nil {
		err = o.enqueue.status(added)
	}
	if err != nil && (codeOf(err) != exitPart || added.StoppedAt != nil) {
		return errors.Join(a.ran(added, nil), err)
	}
	sum, failed := a.work(ctx, s, db, plan)
	if failed != nil {
		return errors.Join(a.ran(added, nil), failed)
	}
	worked := numbers(sum)
	if err := a.ran(added, &worked); err != nil {
		return err
	}
	a.out.summary("%s", report.Worked(worked))
	status := workStatus(s, sum, plan)
	if code := codeOf(status); err != nil && (code == exitOK || code == exitLeft) {
		return err // that records were left out counts for more
	}
	return status
}

// ran prints the document of --json; worked is nil where nothing was worked.
func (a *app) ran(added report.Enqueued, worked *report.Work) error {
	if !a.out.json {
		return nil
	}
	return a.out.document(report.NewRan(added, worked))
}
