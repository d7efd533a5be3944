package config

import (
	"slices"
	"time"

	"batchq/jobs"
)

// Place is where in a file a key may stand; places can be added up.
type Place uint8

const (
	Top      Place = 1 << iota // above all tables
	Defaults                   // [defaults]
	Job                        // [jobs.NAME]
	Lane                       // [lanes.NAME]
)

// places names each place as one would write it.
var places = []struct {
	Place
	text string
}{{Top, "the top of the file"}, {Defaults, "[defaults]"}, {Job, "[jobs.NAME]"}, {Lane, "[lanes.NAME]"}}

func (p Place) String() string {
	var s string
	for _, one := range places {
		if p&one.Place == 0 {
			continue
		}
		if s != "" {
			s += " or "
		}
		s += one.text
	}
	return s
}

// Key is one key that a file may have.
type Key struct {
	Name    string // "backoff.base"
	In      Place
	Default string // as one would write it; "" where there is none
	Flag    string // of `work` or `enqueue`, which overrides it; "" where there is none
	Doc     string // one line for a person
	kind
}

// Type says what a key's value must be: "duration", "count", …
func (k Key) Type() string { return k.kind.name }

// Keys lists every key that a file may have, except the tables' own names, in
// the order in which documents should show them.
func Keys() []Key { return slices.Clone(keys) }

// target is what the keys of one table are read into.
type target struct {
	cfg  *Config
	spec *jobs.Spec
	lane *lane
}

// both is where a job's key may stand that is not its handler.
const both = Defaults | Job

// keys is the table that drives the parser, the search for unknown keys, and
// the documents. A key that is here is obeyed; one whose feature does not
// exist is not here, and so it is refused. A new key is one line.
var keys = []Key{
	{"database", Top, "", "--db", "the database file, relative to this file", pathAt(func(t *target) *string { return &t.cfg.Database })},

	{"batch", Defaults, "100", "--batch", "the most a run is responsible for at once, in a lane", countAt(func(t *target) *int { return &t.cfg.Batch })},
	{"lease", Defaults, `"60s"`, "--lease", "how long a claim lasts unless its run renews it", positiveAt(func(t *target) *time.Duration { return &t.cfg.Lease })},

	{"in_flight", Lane, "", "-j", "most attempts at once; omitted: the smallest pool ÷ largest uses of its jobs", countAt(func(t *target) *int { return &t.lane.inFlight })},

	{"command", Job, "", "", "program and arguments, with placeholders like {key}", argvAt(func(t *target) *[]string { return &t.spec.Handler.Command })},
	{"shell", Job, "", "", `text for sh -c, instead of command; the value is "$1"`, stringAt(func(t *target) *string { return &t.spec.Handler.Shell })},
	{"http.url", Job, "", "", "a request for each item instead of a command: where to; placeholders are escaped for where they stand", stringAt(func(t *target) *string { return &t.request().URL })},
	{"http.method", Job, "", "", `how; omitted: "POST" where body is given, else "GET"`, stringAt(func(t *target) *string { return &t.request().Method })},
	{"http.headers", Job, "", "", `more headers, like { Authorization = "env:API_TOKEN" }: env:NAME as the whole value is read from the environment of the run, and shown nowhere`, headersAt(func(t *target) *map[string]string { return &t.request().Headers })},
	{"http.body", Job, "", "", "what is sent; omitted: the payload, unless the method is GET, HEAD or DELETE", stringAt(func(t *target) *string { return &t.request().Body })},
	{"lane", both, `"serial"`, "--lane", "where its items run; one that is not declared means serial", nameAt(func(t *target) *string { return &t.spec.Lane })},
	{"uses", both, "", "", "what one attempt takes of each pool, like { db = 7 }; a job's replaces that of [defaults]", amountsAt(func(t *target) *map[string]int { return &t.spec.Uses })},
	{"in_flight", both, "", "-j", "most attempts of the job at once; omitted: the lane's limit", countAt(func(t *target) *int { return &t.spec.InFlight })},
	{"rate", both, "", "--rate", `most attempts of the job that may start in a time, over all runs, like "20/s"; omitted: no bound`, rateAt(func(t *target) *jobs.Rate { return &t.spec.Rate })},
	{"scope", both, `""`, "--scope", "the scope of what is enqueued; @today, @yesterday and @hour are expanded", scopeAt(func(t *target) *string { return &t.spec.Scope })},
	{"priority", both, "0", "--priority", "each step is a head start of one minute", integerAt(-jobs.MaxPriority, jobs.MaxPriority, func(t *target) *int { return &t.spec.Priority })},
	{"dir", both, "", "", "working directory, relative to this file; omitted: this file's directory", pathAt(func(t *target) *string { return &t.spec.Handler.Dir })},
	{"env", both, "", "", "variables added to the environment, like { TZ = \"UTC\" }; a job's add to those of [defaults]", variablesAt(func(t *target) *map[string]string { return &t.spec.Handler.Env })},
	{"stdin", both, `"payload"`, "", `what the command reads: "payload" where there is one, or "none"`, wordAt(func(t *target) *string { return &t.spec.Handler.Stdin }, jobs.StdinPayload, jobs.StdinNone)},

	{"timeout", both, `"1h"`, "--timeout", `longest one attempt may take; "0": any time; of a job with http "60s" where nobody says`, durationAt(func(t *target) *time.Duration { return &t.spec.Policy.Timeout })},
	{"kill_after", both, `"5s"`, "--kill-after", "time from TERM to KILL", durationAt(func(t *target) *time.Duration { return &t.spec.Policy.KillAfter })},
	{"max_attempts", both, "8", "--max-attempts", "failures at which an item goes to the dead-letter list", numberAt(func(t *target) *int { return &t.spec.Policy.MaxAttempts })},
	{"max_crashes", both, "3", "--max-crashes", "crashes of its run at which an item goes to the dead-letter list", numberAt(func(t *target) *int { return &t.spec.Policy.MaxCrashes })},
	{"backoff.base", both, `"10s"`, "--backoff-base", "longest delay before the first retry; doubles with each", durationAt(func(t *target) *time.Duration { return &t.spec.Policy.BackoffBase })},
	{"backoff.cap", both, `"15m"`, "--backoff-cap", "longest delay before any retry", durationAt(func(t *target) *time.Duration { return &t.spec.Policy.BackoffCap })},
	{"retry_after_cap", both, `"1h"`, "", "longest delay that an answer may ask for", durationAt(func(t *target) *time.Duration { return &t.spec.Policy.RetryAfterCap })},
	{"defer_cap", both, "100", "", "how often an item may ask to be put off", numberAt(func(t *target) *int { return &t.spec.Policy.DeferCap })},
	{"exit_codes.done", both, "[]", "", "exit codes that mean done, besides 0", numbersAt(func(t *target) *[]int { return &t.spec.Policy.Codes.Done })},
	{"exit_codes.retry", both, "[69, 71, 74, 75, 111]", "", "exit codes that may pass: tried again", numbersAt(func(t *target) *[]int { return &t.spec.Policy.Codes.Retry })},
	{"exit_codes.permanent", both, "[64, 65, 66, 67, 68, 70, 72, 73, 76, 77, 78, 100, 112]", "", "exit codes that no repetition cures: dead at once", numbersAt(func(t *target) *[]int { return &t.spec.Policy.Codes.Permanent })},
	{"exit_codes.otherwise", both, `"retry"`, "", `what every other exit code means: "done", "retry" or "permanent"`, stringAt(func(t *target) *jobs.Class { return &t.spec.Policy.Codes.Otherwise })},
	{"on_crash", both, `"retry"`, "", `when the outcome is unknown: "retry", or "dead" for what must not be repeated`, stringAt(func(t *target) *jobs.OnCrash { return &t.spec.Policy.OnCrash })},
	{"breaker.failures", both, "10", "", "different items in a row that fail before the job is held back; 0: never", numberAt(func(t *target) *int { return &t.spec.Policy.Breaker.Failures })},
	{"breaker.cooldown", both, `"1m"`, "", "how long it is held back; doubles with each time in a row", durationAt(func(t *target) *time.Duration { return &t.spec.Policy.Breaker.Cooldown })},
	{"keep_done", both, "", "", `how long done and dropped items are kept, like "30d"; omitted: for ever. Then their keys are new again`, ageAt(func(t *target) *time.Duration { return &t.spec.KeepDone })},
}

// findKey returns the key called name that may stand in place; nil when there
// is none. elsewhere is where a key of that name may stand instead.
func findKey(name string, place Place) (key *Key, elsewhere Place) {
	for i := range keys {
		if keys[i].Name != name {
			continue
		}
		if keys[i].In&place != 0 {
			return &keys[i], 0
		}
		elsewhere |= keys[i].In
	}
	return nil, elsewhere
}

// namesIn lists the keys that may stand in place, without prefix, under prefix.
func namesIn(place Place, prefix string) []string {
	var names []string
	for _, k := range keys {
		if k.In&place != 0 && len(k.Name) > len(prefix) && k.Name[:len(prefix)] == prefix {
			names = append(names, k.Name[len(prefix):])
		}
	}
	return names
}
