package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/lease"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newShow(a *app) *cobra.Command {
	o := &showOptions{}
	c := &cobra.Command{
		Use:   "show JOB KEY | ID",
		Short: "Show one item's whole story: why it is not running, who holds it, each attempt",
		Long: `Says where an item stands and why: what it waits for, who is in its way since
when, which run has it; what its job charged it; and each attempt on record with
the head and the tail of its output. What can be done about it stands beside it.

An item is named by its job and its key, and by --scope where the key is in
several, or by the ID that a list printed. A dropped item has its ID alone.

It only looks: it changes nothing, and migrates no older database.`,
		Example: `  batchq show 1042
  batchq show settlement C-1006 --scope @today
  batchq show pos -- -17
  batchq show 1042 --json | jq -r '.why[].code'`,
		RunE: func(c *cobra.Command, args []string) error {
			return runShow(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the item was shown",
		exitFailed: "", exitUsage: "the command line makes no sense, or the key is in several scopes",
		exitPart:   "there is no such item",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type showOptions struct {
	flags *pflag.FlagSet
	scope string
}

func (o *showOptions) register(f *pflag.FlagSet) {
	o.flags = f
	f.StringVar(&o.scope, "scope", "", "the key of this `SCOPE`; @today, @yesterday and @hour are expanded")
}

// naming is what the arguments mean. A KEY is taken as the bytes that it is.
func (o *showOptions) naming(a *app, args []string) (n store.Naming, err error) {
	switch len(args) {
	case 1:
		if o.flags.Changed("scope") {
			return n, usagef("an ID names one item: leave out --scope")
		}
		ids, err := parseIDs(args)
		if err != nil {
			return n, withHint(err, "a key is named with its job: batchq show JOB KEY")
		}
		n.ID, n.Key = ids[0], []byte(args[0])
		return n, nil
	case 2:
	default:
		return n, withHint(usagef("show needs an ID, or a JOB and a KEY"), "batchq show --help shows how it is used")
	}
	n.Job, n.Key = args[0], []byte(args[1])
	if err := config.CheckName(n.Job); err != nil {
		return n, usagef("JOB: %w", err)
	}
	if len(n.Key) == 0 {
		return n, usagef("KEY: a key is never empty")
	}
	if n.Scope, err = scopeOf(o.flags, o.scope, a.now()); err != nil {
		return n, err
	}
	return n, nil
}

func runShow(ctx context.Context, a *app, o *showOptions, args []string) (err error) {
	n, err := o.naming(a, args)
	if err != nil {
		return err
	}
	_, broken := a.config()
	if err := a.configOrNone(); err != nil {
		return err
	}
	db, err := a.openStore(ctx, reads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	told, err := db.Story(ctx, n)
	switch {
	case err != nil:
		return err
	case told.Story == nil && len(told.Bearers) > 0:
		return a.several(n, told.Bearers)
	case told.Story == nil:
		return a.nobody(n, told)
	}
	around, err := a.around(ctx, db, told.Story)
	if err != nil {
		return err
	}
	if broken != nil {
		around.NoJob = "the configuration is broken"
	}
	s := report.NewShow(told.Story, around, a.now())
	if a.out.json {
		return a.out.document(s)
	}
	return a.out.result(func(w io.Writer) error { return s.WriteText(w, a.out.stdout.width()) })
}

// several is a key that is in more than one scope: the newest are named.
func (a *app) several(n store.Naming, bearers []store.ItemRow) error {
	for _, line := range report.Bearers(bearers) {
		a.out.must("%s", line)
	}
	err := usagef("job %s has this key in %d scopes", n.Job, len(bearers))
	return withHint(err, "name one by its ID, as in %s show %d, or add --scope", a.self(), bearers[0].ID)
}

// nobody is a name that no item bears. The status is that of requeue and drop
// for an ID that is none.
func (a *app) nobody(n store.Naming, told store.Told) error {
	books := told.Job
	switch {
	case n.ID != 0:
		err := exitWith(exitPart, fmt.Errorf("no item has the id %d", n.ID))
		return withHint(err, "a key is named with its job: %s", a.asKey(n, told.KeyOf))
	case books.Enqueued == 0:
		return withHint(exitWith(exitPart, fmt.Errorf("job %s has never had an item", n.Job)), "%s stats lists the jobs", a.self())
	}
	where := ""
	if n.Scope != nil {
		where = fmt.Sprintf(" in the scope %q", *n.Scope)
	}
	err := exitWith(exitPart, fmt.Errorf("no item of job %s has the key %s%s", n.Job, report.Short(string(n.Key), keyTold), where))
	switch {
	case books.Dropped > 0:
		return withHint(err, "an item that was dropped is shown by its ID alone")
	case books.Pruned > 0:
		return withHint(err, "%s of this job were pruned, and nothing of them is kept", count(books.Pruned, "item"))
	}
	return err
}

// keyTold is how much of a key an error repeats.
const keyTold = 80

// asKey is what to type for an ID that is none, if it was meant as a key: with
// the jobs that have an item of this key, unless they are many.
func (a *app) asKey(n store.Naming, keyOf []string) string {
	if len(keyOf) == 0 || len(keyOf) == store.KeyOfMost {
		keyOf = []string{"JOB"}
	}
	var lines []string
	for _, job := range keyOf {
		lines = append(lines, fmt.Sprintf("%s show %s %s", a.self(), job, n.Key))
	}
	return strings.Join(lines, ", or ")
}

// around is what the story of an item needs beside it: the configuration,
// which runs live, and what is left of a dead one.
func (a *app) around(ctx context.Context, db *sqlite.DB, s *store.Story) (out report.Around, err error) {
	cfg, err := a.config()
	if err != nil {
		return out, err
	}
	out = report.Around{Declared: cfg.Jobs[s.Item.Job], Lanes: cfg.Lanes, Pools: cfg.Pools, Life: aliveAmong(db.Path(), s.Runs), Takers: a.takers(s, cfg), Self: a.self(),
		NoJob: "there is no batchq.toml"}
	if s.Grip != nil {
		out.Elsewhere = elsewhere([]store.RunInfo{s.Grip.Run})
	}
	if cfg.Path != "" {
		out.NoJob = cfg.Path + " does not name it"
	}
	if g := s.Grip; g != nil && g.Orphan != nil && s.Item.State == jobs.Running {
		out.Remains = remainsOf(ctx, g)
	}
	return out, nil
}

// remainsOf looks at what a dead run left behind. That it can't be looked for
// is a part of the story and no reason to keep the rest of it back.
func remainsOf(ctx context.Context, g *store.Grip) *report.Remains {
	left, err := lease.LookAt(ctx, *g.Orphan)
	if g.Run.ID != 0 && g.Run.Ended.IsZero() {
		left.AskFor(g.Run)
	}
	out := &report.Remains{Booted: left.Booted, Elsewhere: left.Elsewhere, Within: left.Within}
	if err != nil {
		out.Failed = err.Error()
	}
	for _, p := range left.Processes {
		out.Processes = append(out.Processes, report.Process{PID: p.PID, Name: p.Name, Doubtful: p.Doubtful, Reason: p.Reason})
	}
	return out
}
