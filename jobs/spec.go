package jobs

import (
	"errors"
	"fmt"
	"time"
)

// Serial is the lane that always exists, holds one item at a time, and is the
// lane of every job that declares none.
const Serial = "serial"

// DefaultBatch is the most that one run is responsible for at once in a lane:
// a bound of responsibility, not a speed. What a run holds is what must be
// looked at again after it fails.
const DefaultBatch = 100

// DefaultLease is how long a claim lasts unless its run renews it.
const DefaultLease = 60 * time.Second

// Spec is a job: how to run one item of it, in which lane, within which limits.
type Spec struct {
	Name    string  `json:"name"`
	Handler Handler `json:"handler"`
	// Lane is where its items run. Only a person can declare a lane other
	// than Serial: what may run in parallel is never guessed.
	Lane     string         `json:"lane"`
	Uses     map[string]int `json:"uses,omitempty"`      // pool → what one attempt takes of it
	InFlight int            `json:"in_flight,omitempty"` // most attempts at once; 0: the lane's limit
	Rate     Rate           `json:"rate,omitzero"`       // most starts in a time, over all runs
	Scope    string         `json:"scope,omitempty"`     // default scope, @words unexpanded
	Priority int            `json:"priority,omitempty"`
	Policy   Policy         `json:"policy"`
	// KeepDone is how long its done and dropped items stay; 0: for ever. What is
	// gone is no longer known when its key comes again.
	KeepDone time.Duration `json:"keep_done,omitempty"`
	// Source says where the declaration stands, for messages: "batchq.toml:12"
	// or "the command line".
	Source string `json:"source,omitempty"`
}

// Handler is how one item is run. Exactly one of Command, Shell, HTTP and
// Stream is set.
type Handler struct {
	Command []string `json:"command,omitempty"` // argv with placeholders
	Shell   string   `json:"shell,omitempty"`   // text for sh -c; the value is "$1"
	HTTP    *Request `json:"http,omitempty"`    // a request instead of a process
	// Stream is the argv of one long-lived process a slot, which is sent items
	// as lines and answers each with one. Window is how many may be in the air
	// at once, 1 or more.
	Stream []string `json:"stream,omitempty"`
	Window int      `json:"window,omitempty"`
	// AppendValue adds the value as the last argument of a Command without a
	// placeholder, as xargs does: for commands given on the command line only.
	AppendValue bool              `json:"append_value,omitempty"`
	Dir         string            `json:"dir,omitempty"` // absolute working directory
	Env         map[string]string `json:"env,omitempty"` // added to the run's own environment
	Stdin       string            `json:"stdin,omitempty"`
	// Source says where the command stands, as "batchq.toml:14"; "" where the
	// job's own Source says it. It is not kept: the file may change.
	Source string `json:"-"`
}

// CommandSource says which line to change where the command can't be run.
func (s *Spec) CommandSource() string {
	if s.Handler.Source != "" {
		return s.Handler.Source
	}
	return s.Source
}

// What a command finds on its standard input.
const (
	StdinPayload = "payload" // the payload where there is one, else nothing (the default)
	StdinNone    = "none"    // always nothing
)

// OnCrash says what happens to an item whose outcome is unknown.
type OnCrash string

const (
	CrashRetry OnCrash = "retry" // run it again, at most max_crashes times
	CrashDead  OnCrash = "dead"  // set it aside for a person: it must not be repeated blindly
)

// Policy is what a job allows: how long an attempt may take, how often it may
// be tried again, and which exit codes mean what.
type Policy struct {
	Timeout       time.Duration `json:"timeout"`    // 0: none
	KillAfter     time.Duration `json:"kill_after"` // from TERM to KILL
	MaxAttempts   int           `json:"max_attempts"`
	MaxCrashes    int           `json:"max_crashes"`
	BackoffBase   time.Duration `json:"backoff_base"`
	BackoffCap    time.Duration `json:"backoff_cap"`
	RetryAfterCap time.Duration `json:"retry_after_cap"`
	DeferCap      int           `json:"defer_cap"`
	Codes         ExitCodes     `json:"exit_codes"`
	OnCrash       OnCrash       `json:"on_crash"`
	Breaker       Breaker       `json:"breaker"`
}

// ExitCodes says what a command's exit status means. A code in none of the
// lists means Otherwise.
type ExitCodes struct {
	Done      []int `json:"done,omitempty"` // besides 0
	Retry     []int `json:"retry"`
	Permanent []int `json:"permanent"`
	Otherwise Class `json:"otherwise"`
}

// DefaultPolicy is what a job gets that says nothing. The exit codes follow
// sysexits.h: what a repetition can't cure is permanent, what may pass is
// tried again.
func DefaultPolicy() Policy {
	return Policy{
		Timeout:       time.Hour,
		KillAfter:     5 * time.Second,
		MaxAttempts:   8,
		MaxCrashes:    3,
		BackoffBase:   10 * time.Second,
		BackoffCap:    15 * time.Minute,
		RetryAfterCap: time.Hour,
		DeferCap:      100,
		Codes: ExitCodes{
			Retry:     []int{69, 71, 74, 75, 111},
			Permanent: []int{64, 65, 66, 67, 68, 70, 72, 73, 76, 77, 78, 100, 112},
			Otherwise: ClassRetry,
		},
		OnCrash: CrashRetry,
		Breaker: Breaker{Failures: 10, Cooldown: time.Minute},
	}
}

// Validate says what is wrong with a policy that was put together from flags
// and files; nil when every number makes sense. All faults are joined.
func (p Policy) Validate() error {
	var faults []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	bad(p.Timeout < 0, "timeout %s is negative (0 means none)", p.Timeout)
	bad(p.KillAfter < 0, "kill_after %s is negative", p.KillAfter)
	bad(p.MaxAttempts < 1, "max_attempts %d is less than 1", p.MaxAttempts)
	bad(p.MaxCrashes < 1, "max_crashes %d is less than 1", p.MaxCrashes)
	bad(p.BackoffBase <= 0, "backoff.base %s is not positive", p.BackoffBase)
	bad(p.BackoffCap < p.BackoffBase, "backoff.cap %s is less than backoff.base %s", p.BackoffCap, p.BackoffBase)
	bad(p.RetryAfterCap < 0, "retry_after_cap %s is negative", p.RetryAfterCap)
	bad(p.DeferCap < 0, "defer_cap %d is negative", p.DeferCap)
	bad(p.OnCrash != CrashRetry && p.OnCrash != CrashDead, "on_crash is %q: want %q or %q", p.OnCrash, CrashRetry, CrashDead)
	bad(p.Breaker.Failures < 0, "breaker.failures %d is negative (0 means never)", p.Breaker.Failures)
	bad(p.Breaker.Cooldown <= 0, "breaker.cooldown %s is not positive", p.Breaker.Cooldown)
	switch p.Codes.Otherwise {
	case ClassDone, ClassRetry, ClassPermanent:
	default:
		bad(true, "exit_codes.otherwise is %q: want %q, %q or %q", p.Codes.Otherwise, ClassDone, ClassRetry, ClassPermanent)
	}
	seen := map[int]string{}
	for _, list := range []struct {
		name  string
		codes []int
	}{{"done", p.Codes.Done}, {"retry", p.Codes.Retry}, {"permanent", p.Codes.Permanent}} {
		for _, code := range list.codes {
			bad(code < 1 || code > 255, "exit_codes.%s: %d is no exit code (1 to 255; 0 is always done)", list.name, code)
			bad(seen[code] != "" && seen[code] != list.name, "exit code %d is in exit_codes.%s and exit_codes.%s", code, seen[code], list.name)
			seen[code] = list.name
		}
	}
	return errors.Join(faults...)
}
