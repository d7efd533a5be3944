package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func newEnqueue(a *app) *cobra.Command {
	o := &enqueueOptions{}
	c := &cobra.Command{
		Use:   "enqueue JOB [FILE...]",
		Short: "Add items from files, standard input or the command line",
		Long: `Every record becomes one item of JOB: a line, or with csv, tsv and jsonl a row,
whose key --key names and whose payload is the row as JSON. Without FILE and
--item, or for the FILE -, records come from standard input.

--format export takes back what batchq dlq export wrote: each record brings its
own key, payload, scope and priority, and one of another job than JOB is
rejected. No extension of a file says it.

An item is identified by its job, its scope and its key. What is there already
is not added again, so that the same list may be enqueued any number of times.
The summary says what became of the records:

  added      new in the list
  duplicate  the key is there already, with the same payload
  conflict   the key is there with another payload: left as it is
  dead       the key is in the dead-letter list: left as it is
  rejected   the record can't become an item; its line and why are told
  replaced, requeued   with --on-duplicate

--on-duplicate says what happens to an item that is there already:

  skip     nothing (the default)
  replace  ready, delayed and dead items get the new payload, priority and time
  requeue  done and dead items are made ready again
  fail     the list ends there; earlier records stay

A list that was interrupted is completed by the same command.`,
		Example: `  ls *.jpg | batchq enqueue thumbnails
  find . -name '*.jpg' -print0 | batchq enqueue thumbnails -0
  batchq enqueue pos orders.csv --key store,order_id --scope @today
  batchq enqueue settlement --item S-1042 --item S-1043 --priority 10
  batchq enqueue pos orders.csv --key store,order_id --dry-run  # a rehearsal
  batchq enqueue pos orders.csv --key store,order_id --on-duplicate replace
  batchq enqueue pos pos.jsonl --format export --on-duplicate replace
  batchq enqueue mail list.jsonl --key id --at "2026-11-30 08:00" --min 1000`,
		Args: atLeastOne("a JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			return runEnqueue(c.Context(), a, o, args[0], args[1:])
		},
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "every record is in the list (or was there already)",
		exitFailed: "the command failed (I/O, database), or fewer records came than --min asks for",
		exitUsage:  "",
		exitPart:   "done in part: records were rejected, in conflict, or their key is in the\n       dead-letter list; or --on-duplicate fail ended the list",
		exitConfig: "the configuration is broken",
		exitHUP:    "", exitINT: "", exitQUIT: "", exitTERM: "", exitTSTP: "",
	})
	return c
}

// enqueueOptions are enqueue's flags.
type enqueueOptions struct {
	flags       *pflag.FlagSet
	input       inputFlags
	scope       string
	priority    int
	at          string
	delay       time.Duration
	onDuplicate string
	min         int64
	dryRun      bool
}

func (o *enqueueOptions) register(f *pflag.FlagSet) {
	o.registerList(f)
	f.StringVar(&o.scope, "scope", "", "the `SCOPE` in which keys are unique; @today, @yesterday and @hour are expanded")
	f.BoolVar(&o.dryRun, "dry-run", false, "change nothing, say what would happen")
}

// registerList declares the flags that say what is added, and how.
func (o *enqueueOptions) registerList(f *pflag.FlagSet) {
	o.flags = f
	o.input.register(f)
	f.IntVar(&o.priority, "priority", 0, "`N`: each step is a head start of one minute; may be negative")
	f.StringVar(&o.at, "at", "", "not before this `TIME`: \"2026-11-30 08:00\" or RFC 3339")
	durationVar(f, &o.delay, "delay", "not before this much later, like 90s or 2h")
	f.StringVar(&o.onDuplicate, "on-duplicate", string(store.Skip), "`WHAT` happens to items that are there: skip, replace, requeue or fail")
	f.Int64Var(&o.min, "min", 0, "exit 1 when fewer than `N` records were read: a dead producer looks like an empty list")
}

// feed turns the flags into what the store is asked for, with what the job's
// declaration says where a flag is not given.
func (o *enqueueOptions) feed(cfg *config.Config, job string, now time.Time) (*store.Feed, error) {
	if err := config.CheckName(job); err != nil {
		return nil, usagef("JOB: %w", err)
	}
	if err := exclusive(o.flags, "at", "delay"); err != nil {
		return nil, err
	}
	for _, name := range []string{"scope", "priority"} {
		if o.input.exported() && o.flags.Changed(name) {
			return nil, usagef("--%s: with --format export each record brings its own", name)
		}
	}
	if o.min < 0 {
		return nil, usagef("--min: %d is negative", o.min)
	}
	f := &store.Feed{Job: job, Scope: o.scope, Priority: o.priority, Delay: o.delay, OnDuplicate: store.OnDuplicate(o.onDuplicate), DryRun: o.dryRun}
	if spec := cfg.Jobs[job]; spec != nil && !o.input.exported() {
		if !o.flags.Changed("scope") {
			f.Scope = spec.Scope
		}
		if !o.flags.Changed("priority") {
			f.Priority = spec.Priority
		}
	}
	var err error
	if f.Scope, err = config.ExpandScope(f.Scope, now); err != nil {
		return nil, usagef("--scope: %w", err)
	}
	if f.Priority < -jobs.MaxPriority || f.Priority > jobs.MaxPriority {
		return nil, usagef("--priority: %d is out of range: at most %d either way", f.Priority, jobs.MaxPriority)
	}
	if o.at != "" {
		if f.At, err = parseTime(o.at, now.Location()); err != nil {
			return nil, usagef("--at: %w", err)
		}
	}
	if !slices.Contains(onDuplicates, f.OnDuplicate) {
		err := usagef("--on-duplicate: no way %q: want skip, replace, requeue or fail", o.onDuplicate)
		return nil, meant(err, o.onDuplicate, texts(onDuplicates))
	}
	return f, nil
}

// order checks whatever can be checked before the first record is read, and
// returns what the store will be asked for and the records themselves. verb is
// how the command is called.
func (o *enqueueOptions) order(a *app, verb, job string, files []string) (*store.Feed, *list, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	if err := forgottenJob(cfg, verb, job, files); err != nil {
		return nil, nil, err
	}
	feed, err := o.feed(cfg, job, a.now())
	if err != nil {
		return nil, nil, err
	}
	feed.Keep = report.Named
	if a.out.json {
		feed.Keep = report.NamedInJSON
	}
	records, err := o.input.list(job, files, a.stdin)
	if err != nil {
		return nil, nil, err
	}
	a.warnLiteral(feed.Scope)
	if records.inBackground() {
		return nil, nil, withHint(errors.New("standard input is the terminal, which a command in the background can't read"),
			"name a FILE or an --item, or add </dev/null")
	}
	if records.readsTerminal() {
		a.out.note("reading items from the terminal, one a line; Ctrl-D ends the list")
	}
	return feed, records, nil
}

func runEnqueue(ctx context.Context, a *app, o *enqueueOptions, job string, files []string) error {
	feed, records, err := o.order(a, "enqueue", job, files)
	if err != nil {
		return err
	}
	noteUndeclared(a, a.loaded, job)
	s := a.listen(ctx)
	defer s.close()
	fed, err := a.enqueue(s, feed, records)
	if err != nil && fed.Read == 0 && s.signal() == 0 {
		return err // nothing has begun, so there is nothing to sum up
	}
	r := report.NewEnqueued(feed, fed)
	if a.out.json {
		if err := a.out.document(r); err != nil {
			return err
		}
	}
	o.say(a, r)
	if err != nil {
		return err
	}
	return o.status(r)
}

// enqueue opens the database for a list and adds the list to it.
func (a *app) enqueue(s *stops, feed *store.Feed, records *list) (fed store.Fed, err error) {
	to := creates
	if feed.DryRun {
		to = reads
	}
	db, err := a.openStore(s.soft, to)
	if feed.DryRun && errors.Is(err, store.ErrNoDatabase) {
		// A rehearsal creates nothing, and in a list that is not there yet
		// everything would be new.
		db, err = nil, nil
	}
	if err != nil {
		return fed, s.because(err)
	}
	if db == nil {
		return a.feed(s, nil, feed, records, records.share)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := a.askAboutName(s.soft, db, feed.Job); err != nil {
		return fed, s.because(err)
	}
	return a.feed(s, db, feed, records, records.share)
}

// feed adds a list to the open database, and shows how far it has come; db is
// nil for the rehearsal of one that is not there.
func (a *app) feed(s *stops, db *sqlite.DB, feed *store.Feed, records store.Source, share func() float64) (fed store.Fed, err error) {
	var so atomic.Pointer[store.Fed]
	so.Store(&store.Fed{})
	feed.Tell = func(fed store.Fed) { so.Store(&fed) }
	stop := a.watch(func() report.Standing { return report.Feeding(*so.Load(), share()) }, nil, true)
	defer stop()
	if db == nil {
		fed, err = feed.Run(s.soft, nil, records)
		return fed, s.because(err)
	}
	fed, err = feed.Run(s.soft, db, records)
	if err == nil && db.Replaced() {
		err = fmt.Errorf("%s is no longer the file that was opened: it was moved, removed or restored while items were added to it; enqueue them again", db.Path())
	}
	return fed, s.because(err)
}

// say prints what became of a list.
func (o *enqueueOptions) say(a *app, r report.Enqueued) {
	for _, line := range r.Lines(a.out.quiet, a.self()) {
		a.out.must("%s", line)
	}
	if r.DryRun && r.StoppedAt != nil {
		a.out.must("%s", r.Stopped())
	}
	a.out.summary("%s", r.Summary())
	if o.input.exported() && r.Dead > 0 {
		a.out.note("--on-duplicate replace makes the dead ones ready, with the payloads of the file; requeue, those whose payload is as it was")
	}
	if r.AllDoneBefore() && !o.input.exported() {
		a.out.warn("every item of this list was done before; where the same keys are to be done again each day, add --scope @today")
	}
}

// status is how the command ends for a list that was read.
func (o *enqueueOptions) status(r report.Enqueued) error {
	switch {
	case r.Read < o.min:
		err := fmt.Errorf("%s read, and --min asks for %d", count(r.Read, "record"), o.min)
		if r.DryRun {
			return withHint(err, "look at what produces the list")
		}
		return withHint(err, "what was read stays in the list; look at what produces it")
	case r.DryRun:
		return nil // it has done what it was asked for
	case r.StoppedAt != nil:
		return exitWith(exitPart, errors.New(r.Stopped()))
	case r.Rejected+r.Conflict+r.Dead > 0:
		return exitWith(exitPart, nil)
	}
	return nil
}

// forgottenJob is the error of who names a file where the JOB stands.
func forgottenJob(cfg *config.Config, verb, job string, files []string) error {
	if len(files) > 0 || cfg.Jobs[job] != nil || filepath.Ext(job) == "" && !strings.Contains(job, "/") {
		return nil
	}
	if info, err := os.Stat(job); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	return withHint(usagef("%s is a file, and no JOB is named", job), "batchq %s JOB %s", verb, shellWord(job))
}

// askAboutName points out a job that no file declares and that the database has
// never had an item of, where its name is nearly another's: with a slip of the
// pen, a list that is done would be done again.
func (a *app) askAboutName(ctx context.Context, db *sqlite.DB, job string) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	names, err := db.JobNames(ctx)
	if err != nil || cfg.Jobs[job] != nil || slices.Contains(names, job) {
		return err
	}
	if jobs.Nearest(job, cfg.Names) != "" {
		return nil // noteUndeclared has said so
	}
	if near := jobs.Nearest(job, names); near != "" && withoutDigits(near) != withoutDigits(job) {
		a.out.note("job %q has never had an item (did you mean %q?)", job, near)
	}
	return nil
}

// withoutDigits is what pos1 and pos2 have in common, which are no slips.
func withoutDigits(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// noteUndeclared points out a job that the configuration does not know: often
// it is a slip of the pen.
func noteUndeclared(a *app, cfg *config.Config, job string) {
	if cfg.Path == "" || cfg.Jobs[job] != nil {
		return
	}
	if near := jobs.Nearest(job, cfg.Names); near != "" {
		a.out.must("job %q is not declared in %s (did you mean %q?)", job, cfg.Path, near)
		return
	}
	a.out.note("job %q is not declared in %s: work will need a COMMAND for it", job, cfg.Path)
}
