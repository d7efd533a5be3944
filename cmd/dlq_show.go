package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

func newDLQShow(a *app) *cobra.Command {
	o := &dlqShowOptions{}
	c := &cobra.Command{
		Use:   "show JOB KEY | ID",
		Short: "Show one dead item, and the exact command to reproduce it",
		Long: `Says why an item is dead, what each attempt printed, and what was executed: a
text to paste into a shell, with the directory, the variables, the input and the
arguments of the last attempt. It does what the attempt did, with the same
idempotency key: it is no rehearsal, and changes nothing of the list. What is to
be done about the item, and about others like it, stands below, a line each.

How a job runs is taken from batchq.toml, else from where it was worked last; it
says which. Variables that a job's env sets are printed as they are.

An item is named as for batchq show: by its job and its key, by its ID, or by
flags that select exactly one dead item.`,
		Example: `  batchq dlq show 1042
  batchq dlq show settlement C-1006 --scope @today
  batchq dlq show --job pos --class timeout
  batchq dlq show 1042 --payload | jq .
  batchq dlq show 1042 --json | jq -r .shell | sh`,
		RunE: func(c *cobra.Command, args []string) error {
			return runDLQShow(c.Context(), a, o, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.register(c.Flags())
	setExits(c, exits{
		exitOK:     "the item was shown",
		exitFailed: "", exitUsage: "the command line makes no sense, or several items match",
		exitPart:   "there is no such item, or it is not dead",
		exitConfig: "the configuration is broken, or there is no database there",
	})
	return c
}

type dlqShowOptions struct {
	selectionFlags
	payload bool
}

func (o *dlqShowOptions) register(f *pflag.FlagSet) {
	o.selectionFlags.register(f, "")
	f.BoolVar(&o.payload, "payload", false, "write what the command reads, byte for byte, and nothing else")
}

func runDLQShow(ctx context.Context, a *app, o *dlqShowOptions, args []string) (err error) {
	if o.payload && a.out.json {
		return usagef("--payload and --json exclude each other")
	}
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
		if n.ID, err = a.onlyDead(ctx, db, sel); err != nil {
			return err
		}
	}
	story, err := a.story(ctx, db, "dlq show", n)
	if err != nil {
		return err
	}
	if it := &story.Item; it.State != jobs.Dead {
		err := exitWith(exitPart, fmt.Errorf("item %d of job %s is %s, not dead", it.ID, it.Job, it.State))
		return withHint(err, "%s show %d tells its story", a.self(), it.ID)
	}
	payload, err := db.Payload(ctx, story.Item.ID)
	if err != nil {
		return err
	}
	if o.payload {
		return a.writePayload(story.Item.ID, payload)
	}
	return a.showDead(ctx, db, story, payload, broken)
}

// wanted is the item that is named, or, without arguments, what the flags
// select.
func (o *dlqShowOptions) wanted(a *app, args []string) (n store.Naming, sel store.Selection, err error) {
	if len(args) > 0 || !o.given() {
		n, err = o.naming("dlq show", args, a.now())
		return n, sel, err
	}
	sel, err = o.selection(nil, a.now())
	sel.States, sel.Limit = []jobs.State{jobs.Dead}, 1
	return n, sel, err
}

// onlyDead is the one dead item that a selection names.
func (a *app) onlyDead(ctx context.Context, db *sqlite.DB, sel store.Selection) (id int64, err error) {
	rows, more, err := a.matching(ctx, db, sel)
	switch {
	case err != nil:
		return 0, err
	case len(rows) == 0:
		return 0, a.unmatched(ctx, db, sel, "dead item")
	case more > 0:
		err := usagef("%d dead items match", more+1)
		return 0, withHint(err, "name one by its ID, as in %s dlq show %d; dlq list with the same flags lists them", a.self(), rows[0].ID)
	}
	return rows[0].ID, nil
}

// writePayload writes a payload as it is; not to a terminal that would obey it.
func (a *app) writePayload(id int64, payload []byte) error {
	text := strings.NewReplacer("\n", "", "\t", "").Replace(string(payload))
	if a.out.stdout.terminal && report.Safe(text) != text {
		return withHint(usagef("the payload of item %d has bytes that a terminal would act on", id), "write it to a file, or look at it with | od -c")
	}
	if payload == nil {
		a.out.note("item %d has no payload", id)
	}
	return a.out.result(func(w io.Writer) error {
		_, err := w.Write(payload)
		return err
	})
}

// showDead shows a dead item.
func (a *app) showDead(ctx context.Context, db *sqlite.DB, s *store.Story, payload []byte, broken error) error {
	around, err := a.around(ctx, db, s, broken)
	if err != nil {
		return err
	}
	again, err := a.repetition(db.Path(), s, around, payload, broken)
	if err != nil {
		return err
	}
	alike, err := a.alike(ctx, db, &s.Item)
	if err != nil {
		return err
	}
	d := report.NewDeadItem(report.NewShow(s, around, a.now()), again, alike)
	if a.out.json {
		return a.out.document(d)
	}
	return a.out.result(func(w io.Writer) error { return d.WriteText(w, a.out.stdout.width()) })
}

// repetition is how an item's last attempt can be done again by hand. The job
// is as a file declares it now, else as the run of that attempt worked it, or as
// it was worked last.
func (a *app) repetition(database string, s *store.Story, around report.Around, payload []byte, broken error) (out report.Repetition, err error) {
	cfg, err := a.config()
	if err != nil {
		return out, err
	}
	spec := around.Declared
	switch {
	case spec != nil:
		out.From = report.FromFile
		if last := s.Spec; last != nil && hasCommand(last) {
			out.Otherwise, out.OtherwiseIn = otherwise(&last.Handler, &spec.Handler)
			out.OtherwiseBy, out.Run = bySource(last), s.SpecRun
			if out.SourcePath = spec.Source; last.Source != commandLine { // two of one name may stand in two directories
				out.SourcePath = filepath.Join(filepath.Dir(cfg.Path), filepath.Base(spec.Source))
			}
		}
	case s.Spec != nil && hasCommand(s.Spec):
		stored := *s.Spec
		// What env sets is not on record. A command line has it from [defaults].
		stored.Handler.Env = cfg.Base(stored.Name).Handler.Env
		out.Run = s.SpecRun
		spec, out.From, out.NoFile, out.NoEnv = &stored, report.FromLastWork, around.NoJob, broken != nil || stored.Source != commandLine
		if out.By = bySource(&stored); stored.Source != commandLine {
			out.NoFile = "now " + out.NoFile
		}
	default:
		out.Missing = fmt.Sprintf("how job %s runs is not known: %s, and nothing is on record of how it was worked", s.Item.Job, around.NoJob)
		return out, nil
	}
	out.Source = spec.Source
	attempt := handler.Attempt{Item: &s.Item.Item, Spec: spec, IdempotencyKey: s.IdempotencyKey}
	attempt.Item.Payload = payload
	if n := len(s.Attempts); n > 0 && s.Attempts[n-1].Number == s.Item.Attempt {
		attempt.Claim = s.Attempts[n-1].Claim
	}
	call, err := handler.Repeat(&attempt)
	if err != nil {
		out.Missing = "there is nothing that could be executed: " + err.Error()
		return out, nil
	}
	out.Call = &call
	if call.HTTP != nil {
		out.Shell = curl(database, s.Item.ID, spec, call.HTTP)
	} else {
		out.Shell = paste(database, s.Item.ID, &spec.Handler, &call)
	}
	return out, nil
}

func hasCommand(s *jobs.Spec) bool {
	return s.Handler.Shell != "" || len(s.Handler.Command) > 0 || s.Handler.HTTP != nil
}

// bySource says who declared a job when it was worked: of a file only the name
// is on record, and one of that name may say something else by now, or be
// another's.
func bySource(s *jobs.Spec) string {
	if s.Source == commandLine {
		return s.Source
	}
	return s.Source + " as it was then"
}

// otherwise is how a job was worked, as a line for a shell, placeholders and
// all, and in what that is another way than it is declared now; "" when in
// nothing. What env sets is not stored, and so can't be compared.
func otherwise(last, now *jobs.Handler) (line, in string) {
	line = declaredCommand(last)
	var ways []string
	if line != declaredCommand(now) {
		what := "with another command"
		if last.HTTP != nil {
			what = "with another request"
		}
		ways = append(ways, what)
	} else if last.HTTP != nil && last.HTTP.Body != now.HTTP.Body {
		ways = append(ways, "with another body")
	}
	if last.Dir != now.Dir {
		ways = append(ways, "in another directory")
		if last.Dir != "" {
			line = "cd " + shellWord(last.Dir) + " && " + line
		}
	}
	if none := last.Stdin == jobs.StdinNone; none != (now.Stdin == jobs.StdinNone) {
		ways = append(ways, "with another input")
		if none {
			line += " </dev/null"
		}
	}
	if len(ways) == 0 {
		return "", ""
	}
	return line, strings.Join(ways, ", ")
}

// alike are the commands for a dead item and for those that are like it.
func (a *app) alike(ctx context.Context, db *sqlite.DB, it *store.ItemRow) ([]report.Hint, error) {
	job := "--job " + shellWord(it.Job)
	hint := func(to, format string, args ...any) report.Hint {
		return report.Hint{To: to, Command: a.self() + " " + fmt.Sprintf(format, args...)}
	}
	hints := []report.Hint{hint("try it again", "requeue %d", it.ID), hint("take it out of the list", "drop %d", it.ID)}
	grouped := hint("see what else is dead of its job, grouped by error", "dlq list %s --by error", job)
	like := store.Selection{Jobs: []string{it.Job}, States: []jobs.State{jobs.Dead}}
	var how, flag string
	switch part := report.PartOf(it.Reason); {
	case part != "":
		like.Error, how, flag = part, "for a like reason", "--error "+shellWord(part)
	case it.Class != "":
		like.Class, how, flag = it.Class, "with class "+string(it.Class), "--class "+string(it.Class)
	default:
		return append(hints, grouped), nil
	}
	sums, err := db.CountSelected(ctx, like)
	if err != nil {
		return nil, err
	}
	if len(sums) == 1 && sums[0].Items > 1 {
		to := fmt.Sprintf("try all %d items of job %s again that are dead %s", sums[0].Items, it.Job, how)
		hints = append(hints, hint(to, "requeue %s %s", job, flag))
	}
	return append(hints, grouped), nil
}
