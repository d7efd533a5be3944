package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
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

Flags select items, as everywhere. Where exactly one matches, it is its story
that is shown; several are listed, the oldest first: on a terminal as a table,
in a pipe the same columns separated by tabs, without titles:

  ID  JOB  SCOPE  KEY  STATE  SINCE/DUE  ATTEMPTS  REASON

It only looks: it changes nothing, and migrates no older database.`,
		Example: `  batchq show 1042
  batchq show settlement C-1006 --scope @today
  batchq show pos -- -17
  batchq show --state running
  batchq show --job pos --class timeout --since 24h
  batchq show 1042 --json | jq -r '.why[].code'`,
		RunE: func(c *cobra.Command, args []string) error {
			return runShow(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the item was shown, or the items that match were listed",
		exitFailed: "", exitUsage: "the command line makes no sense, or the key is in several scopes",
		exitPart:   "there is no such item, or none that matches",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type showOptions struct {
	selectionFlags
	limit int
}

func (o *showOptions) register(f *pflag.FlagSet) {
	o.selectionFlags.register(f, "`STATE` of the items: ready, delayed, claimed, running, done, dead or dropped")
	f.IntVar(&o.limit, "limit", tableRows, "where several match, list at most `N`, the oldest first")
}

// wanted is what is to be shown: one that is named, or, without arguments, what
// the flags select.
func (o *showOptions) wanted(a *app, args []string) (n store.Naming, sel store.Selection, err error) {
	if o.limit < 1 {
		return n, sel, usagef("--limit: %d is not 1 or more", o.limit)
	}
	if len(args) == 0 && o.given() {
		sel, err = o.selection(nil, a.now())
		sel.Limit = o.limit
		return n, sel, err
	}
	if n, err = o.naming("show", args, a.now()); err == nil && o.flags.Changed("limit") {
		err = usagef("one item is shown whole: leave out --limit")
	}
	return n, sel, err
}

func runShow(ctx context.Context, a *app, o *showOptions, args []string) (err error) {
	n, sel, err := o.wanted(a, args)
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
	if len(args) == 0 {
		rows, more, err := a.matching(ctx, db, sel)
		switch {
		case err != nil:
			return err
		case len(rows) == 0:
			return a.unmatched(ctx, db, sel, "item")
		case len(rows)+more > 1:
			return a.list(rows, more)
		}
		n.ID = rows[0].ID
	}
	story, err := a.story(ctx, db, "show", n)
	if err != nil {
		return err
	}
	around, err := a.around(ctx, db, story, broken)
	if err != nil {
		return err
	}
	s := report.NewShow(story, around, a.now())
	if a.out.json {
		return a.out.document(s)
	}
	return a.out.result(func(w io.Writer) error { return s.WriteText(w, a.out.stdout.width()) })
}

// list shows several items, a line each.
func (a *app) list(rows []store.ItemRow, more int) (err error) {
	list := report.NewItems(rows, more, a.now())
	switch {
	case a.out.json:
		return a.out.document(list.Document())
	case a.out.stdout.terminal:
		err = a.out.result(func(w io.Writer) error { return list.WriteTable(w, a.out.stdout.width()) })
	default:
		err = a.out.result(list.WriteTabs)
	}
	if more > 0 {
		// Also with -q: in a pipe nothing else says that the list is cut.
		a.out.must("and %d more: --limit %d shows them all", more, len(rows)+more)
	}
	a.out.note("to see one: %s show %d", a.self(), rows[0].ID)
	return err
}

// around is what the story of an item needs beside it: the configuration,
// which runs live, and what is left of a dead one. broken is what is wrong with
// the file that the story does without.
func (a *app) around(ctx context.Context, db *sqlite.DB, s *store.Story, broken error) (out report.Around, err error) {
	cfg, err := a.config()
	if err != nil {
		return out, err
	}
	out = report.Around{Declared: cfg.Jobs[s.Item.Job], Lanes: cfg.Lanes, Pools: cfg.Pools, Life: aliveAmong(db.Path(), s.Runs), Takers: a.takers(s, cfg), Self: a.self(),
		NoJob: "there is no batchq.toml"}
	if s.Grip != nil {
		out.Elsewhere = elsewhere([]store.RunInfo{s.Grip.Run})
	}
	switch {
	case broken != nil:
		out.NoJob = "the configuration is broken"
	case cfg.Path != "":
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
	out := &report.Remains{Booted: left.Booted, Request: left.Request, Elsewhere: left.Elsewhere, Within: left.Within}
	if err != nil {
		out.Failed = err.Error()
	}
	for _, p := range left.Processes {
		out.Processes = append(out.Processes, report.Process{PID: p.PID, Name: p.Name, Doubtful: p.Doubtful, Reason: p.Reason})
	}
	return out
}
