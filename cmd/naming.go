package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/report"
	"batchq/store"
	"batchq/store/sqlite"
)

// naming is what the arguments of a command about one item mean: an ID, or a
// JOB and a KEY, which is taken as the bytes that it is. verb is the command,
// for messages.
func (s *selectionFlags) naming(verb string, args []string, now time.Time) (n store.Naming, err error) {
	switch len(args) {
	case 1:
		if s.flags.Changed("scope") {
			return n, usagef("an ID names one item: leave out --scope")
		}
		if s.given() {
			return n, usagef("an ID names one item: leave out the flags that select")
		}
		ids, err := parseIDs(args)
		if err != nil {
			return n, withHint(err, "a key is named with its job: batchq %s JOB KEY", verb)
		}
		n.ID, n.Key = ids[0], []byte(args[0])
		return n, nil
	case 2:
	default:
		err := usagef("%s needs an ID, or a JOB and a KEY", verb)
		return n, withHint(err, "or flags that select, as in batchq %s --job JOB --class timeout; --help lists them", verb)
	}
	for _, name := range append([]string{"state"}, selecting...) {
		if name != "scope" && s.flags.Changed(name) {
			return n, usagef("a JOB and a KEY name one item: leave out --%s", name)
		}
	}
	n.Job, n.Key = args[0], []byte(args[1])
	if err := config.CheckName(n.Job); err != nil {
		return n, usagef("JOB: %w", err)
	}
	if len(n.Key) == 0 {
		return n, usagef("KEY: a key is never empty")
	}
	if n.Scope, err = scopeOf(s.flags, s.scope, now); err != nil {
		return n, err
	}
	return n, nil
}

// story is all of the one item that n names, or an error that says why there is
// none, or not one only.
func (a *app) story(ctx context.Context, db *sqlite.DB, verb string, n store.Naming) (*store.Story, error) {
	told, err := db.Story(ctx, n)
	switch {
	case err != nil:
		return nil, err
	case told.Story == nil && len(told.Bearers) > 0:
		return nil, a.several(verb, n, told.Bearers)
	case told.Story == nil:
		return nil, a.nobody(verb, n, told)
	}
	return told.Story, nil
}

// several is a key that is in more than one scope: the newest are named.
func (a *app) several(verb string, n store.Naming, bearers []store.ItemRow) error {
	for _, line := range report.Bearers(bearers) {
		a.out.must("%s", line)
	}
	err := usagef("job %s has this key in %d scopes", n.Job, len(bearers))
	return withHint(err, "name one by its ID, as in %s %s %d, or add --scope", a.self(), verb, bearers[0].ID)
}

// nobody is a name that no item bears. The status is that of requeue and drop
// for an ID that is none.
func (a *app) nobody(verb string, n store.Naming, told store.Told) error {
	books := told.Job
	switch {
	case n.ID != 0:
		err := exitWith(exitPart, fmt.Errorf("no item has the id %d", n.ID))
		return withHint(err, "a key is named with its job: %s", a.asKey(verb, n, told.KeyOf))
	case books.Enqueued == 0:
		return a.noItems(n.Job)
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

// noItems is a job without any.
func (a *app) noItems(job string) error {
	return withHint(exitWith(exitPart, fmt.Errorf("job %s has never had an item", job)), "%s stats lists the jobs", a.self())
}

// keyTold is how much of a key an error repeats.
const keyTold = 80

// asKey is what to type for an ID that is none, if it was meant as a key: with
// the jobs that have an item of this key, unless they are many.
func (a *app) asKey(verb string, n store.Naming, keyOf []string) string {
	if len(keyOf) == 0 || len(keyOf) == store.KeyOfMost {
		keyOf = []string{"JOB"}
	}
	var lines []string
	for _, job := range keyOf {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", a.self(), verb, job, n.Key))
	}
	return strings.Join(lines, ", or ")
}

// unmatched is a selection that names nothing, for who wanted to see something;
// of says which items were meant, as "item" or "dead item".
func (a *app) unmatched(ctx context.Context, db *sqlite.DB, sel store.Selection, of string) error {
	if len(sel.Jobs) == 1 {
		books, err := db.Counts(ctx, sel.Jobs, nil)
		if err != nil {
			return err
		}
		if books.Enqueued == 0 {
			return a.noItems(sel.Jobs[0])
		}
	}
	err := exitWith(exitPart, errors.New("no "+of+" matches"))
	if sel.Key != nil {
		return withHint(err, "an item that was dropped is shown by its ID alone")
	}
	return withHint(err, "%s stats says how many there are of each job in each state", a.self())
}

// matching reads what a selection names, at most its limit, and how many more
// there are.
func (a *app) matching(ctx context.Context, db *sqlite.DB, sel store.Selection) (rows []store.ItemRow, more int, err error) {
	if rows, err = db.Items(ctx, sel); err != nil {
		return nil, 0, err
	}
	more, err = moreThan(ctx, db, sel, len(rows))
	return rows, more, err
}

// warnUnknown tells of jobs and of a scope that no item has ever had: that
// nothing matches is then most likely a slip of the pen. It is no failure.
func (a *app) warnUnknown(ctx context.Context, r store.Reader, jobNames []string, scope *string) error {
	if len(jobNames) > 0 {
		known, err := r.JobNames(ctx)
		if err != nil {
			return err
		}
		for _, name := range jobNames {
			if slices.Contains(known, name) {
				continue
			}
			if near := jobs.Nearest(name, known); near != "" {
				a.out.warn("job %s has never had an item: did you mean %s?", name, near)
				continue
			}
			a.out.warn("job %s has never had an item: %s stats lists the jobs", name, a.self())
		}
	}
	unknown, err := neverScope(ctx, r, scope)
	if unknown {
		a.out.warn("no item has ever had the scope %q", *scope)
	}
	return err
}

// neverScope says whether no item of any job has ever had a scope.
func neverScope(ctx context.Context, r store.Reader, scope *string) (bool, error) {
	if scope == nil || *scope == "" {
		return false, nil
	}
	books, err := r.Counts(ctx, nil, scope)
	return err == nil && books.Enqueued == 0, err
}
