package cmd

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/store"
)

// selectionFlags name items: the same everywhere.
type selectionFlags struct {
	flags  *pflag.FlagSet
	jobs   []string
	scope  string
	key    string
	states []string
	class  string
	reason string
	since  string
}

// selecting lists the flags that choose among items, apart from --state.
var selecting = []string{"job", "scope", "key", "class", "error", "since"}

// register declares the flags. states is the help of --state, "" for commands
// whose items are all in one state.
func (s *selectionFlags) register(f *pflag.FlagSet, states string) {
	s.flags = f
	f.StringSliceVar(&s.jobs, "job", nil, "of this `JOB` (repeatable)")
	f.StringVar(&s.scope, "scope", "", "of this `SCOPE`; @today, @yesterday and @hour are expanded")
	f.StringVar(&s.key, "key", "", "with this `KEY`")
	if states != "" {
		f.StringSliceVar(&s.states, "state", nil, states)
	}
	f.StringVar(&s.class, "class", "", "whose last failure was of this `CLASS`: "+oneOf(jobs.SetAside())+" (help exit-codes says what they mean)")
	f.StringVar(&s.reason, "error", "", "whose reason contains `TEXT`")
	f.StringVar(&s.since, "since", "", "settled or added since `TIME`: 24h, 7d, today, yesterday or RFC 3339")
}

// given says whether anything is selected by a flag.
func (s *selectionFlags) given() bool {
	return s.flags.Changed("state") || s.restricted()
}

// restricted is given without counting --state.
func (s *selectionFlags) restricted() bool {
	return slices.ContainsFunc(selecting, s.flags.Changed)
}

// selection returns what the flags and the IDs name; without any of them that
// is everything.
func (s *selectionFlags) selection(ids []string, now time.Time) (sel store.Selection, err error) {
	if sel.IDs, err = parseIDs(ids); err != nil {
		return sel, err
	}
	if sel.IDs != nil && s.restricted() {
		return sel, withHint(usagef("an ID names one item: leave out the flags that select"), "or leave out the IDs")
	}
	// An unset variable of a script must not select everything. A scope may be empty.
	for _, name := range append([]string{"state"}, selecting...) {
		if f := s.flags.Lookup(name); f != nil && f.Changed && name != "scope" && strings.Trim(f.Value.String(), "[]") == "" {
			return sel, withHint(usagef("--%s: nothing is given", name), "leave it out where anything is meant")
		}
	}
	for _, name := range s.jobs {
		if err := config.CheckName(name); err != nil {
			return sel, usagef("--job: %w", err)
		}
	}
	sel.Jobs, sel.Error = s.jobs, s.reason
	if sel.Scope, err = scopeOf(s.flags, s.scope, now); err != nil {
		return sel, err
	}
	if s.flags.Changed("key") {
		if s.key == "" {
			return sel, usagef("--key: a key is never empty")
		}
		sel.Key = []byte(s.key)
	}
	for _, name := range s.states {
		state, err := jobs.ParseState(name)
		if err != nil {
			return sel, meant(usagef("--state: %w", err), name, texts(jobs.States()))
		}
		sel.States = append(sel.States, state)
	}
	if sel.Class, err = parseClass(s.class); err != nil {
		return sel, err
	}
	if s.since != "" {
		sel.Since, err = parseSince(s.since, now)
	}
	return sel, err
}

// checkLimit is the error of a --limit that leaves nothing.
func checkLimit(f *pflag.FlagSet, limit int) error {
	if limit < 0 || limit == 0 && f.Changed("limit") {
		return usagef("--limit: %d is not 1 or more", limit)
	}
	return nil
}

// parseIDs reads the numbers that lists print in their column ID; each is
// kept once. nil when there are none.
func parseIDs(words []string) ([]int64, error) {
	var ids []int64
	for _, w := range words {
		id, err := strconv.ParseInt(w, 10, 64)
		if err != nil || id < 1 {
			err := usagef("%q is no ID: want a number that a list printed in its column ID", w)
			if config.CheckName(w) != nil {
				return nil, withHint(err, "a key is named with --key")
			}
			return nil, withHint(err, "a job is named with --job %s, a key with --key %s", w, w)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// parseClass also takes the classes of items that are ready again, which show
// knows; it names those that a list of what went wrong can have.
func parseClass(name string) (jobs.Class, error) {
	if name == "" {
		return "", nil
	}
	if class := jobs.Class(name); class != jobs.ClassDone && slices.Contains(jobs.Classes(), class) {
		return class, nil
	}
	err := withHint(usagef("--class: no class %q: want %s", name, oneOf(jobs.SetAside())), "batchq help exit-codes says what they mean")
	return "", meant(err, name, texts(jobs.SetAside()))
}

// parseSince returns how long ago text was: a duration ("24h", "7d"), "today"
// or "yesterday" (since local midnight), or a time.
func parseSince(text string, now time.Time) (time.Duration, error) {
	y, m, d := now.Date()
	var at time.Time
	switch text {
	case "today":
		at = time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	case "yesterday":
		at = time.Date(y, m, d-1, 0, 0, 0, 0, now.Location())
	default:
		if ago, err := config.ParseDuration(text); err == nil {
			if ago <= 0 {
				return 0, usagef("--since: %q is not in the past", text)
			}
			return ago, nil
		}
		var err error
		if at, err = parseTime(text, now.Location()); err != nil {
			return 0, usagef("--since: %w; or a duration like 24h or 7d, today, yesterday", err)
		}
	}
	ago := now.Sub(at)
	if ago <= 0 {
		return 0, usagef("--since: %q is not in the past", text)
	}
	return ago, nil
}
