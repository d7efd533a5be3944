package report

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"batchq/jobs"
	"batchq/store"
)

// Show is one item's whole story: the document of `show --json`.
type Show struct {
	SchemaVersion int    `json:"schema_version"`
	Path          string `json:"path"`
	Time          string `json:"time"` // when the picture was taken
	ID            int64  `json:"id"`
	Job           string `json:"job"`
	Scope         string `json:"scope"`
	Key
	State    string  `json:"state"`
	Lane     string  `json:"lane"` // in which it runs, or would
	Priority int     `json:"priority"`
	Added    string  `json:"added"`
	Due      string  `json:"due"`
	Started  *string `json:"started"`  // the last attempt; null: never
	Finished *string `json:"finished"` // when it was done, set aside or dropped; null: not yet
	Attempts int     `json:"attempts"` // ever
	// What is charged to it since it was last requeued, and how much its job
	// allows: null when the job was never worked and is not declared.
	Failures    int  `json:"failures"`
	MaxAttempts *int `json:"max_attempts"`
	Crashes     int  `json:"crashes"`
	MaxCrashes  *int `json:"max_crashes"`
	Defers      int  `json:"defers"`
	DeferCap    *int `json:"defer_cap"`

	PayloadBytes   *int64 `json:"payload_bytes"` // null: it has none
	IdempotencyKey string `json:"idempotency_key"`
	Class          string `json:"class"`  // of the last attempt that did not succeed; "" when none
	Reason         string `json:"reason"` // its sentence

	Why       []Why         `json:"why"`       // it does not run, or what it does: the first weighs most
	HeldBy    *HeldBy       `json:"held_by"`   // null: no run has it
	Successor *int64        `json:"successor"` // the item that bears a dropped one's key now; null: none
	History   []ShowAttempt `json:"history"`   // what is on record of its attempts, the newest last

	story *store.Story
	now   time.Time
	self  string // how a person calls this program
}

// Why is one reason for an item's being where it is.
type Why struct {
	// Code is one word for programs: see README.
	Code  string  `json:"code"`
	Text  string  `json:"text"`
	Since *string `json:"since"`
	Until *string `json:"until"`
	Run   *int64  `json:"run"`
	Hints []Hint  `json:"hints"`
}

// Hint is a command that a person may want to type.
type Hint struct {
	To      string `json:"to"` // what it is good for
	Command string `json:"command"`
}

// HeldBy is the run that has an item, and what it has of it.
type HeldBy struct {
	Run        int64   `json:"run"` // 0: no run in the book
	State      Life    `json:"state"`
	PID        int     `json:"pid"` // of the run
	Host       string  `json:"host"`
	Claim      int64   `json:"claim"` // the fencing token
	Since      *string `json:"since"` // when it was claimed
	LeaseUntil *string `json:"lease_until"`
	Started    *string `json:"started"`     // null: it has not
	CommandPID int     `json:"command_pid"` // of the item's command; 0: not recorded
	TimeoutAt  *string `json:"timeout_at"`  // null: it has none, or has not started
	LeftBy     *LeftBy `json:"left_by"`     // null: its own run has it
}

// LeftBy is the dead run that started an item which another has taken over.
type LeftBy struct {
	Run       int64     `json:"run"`
	Looked    bool      `json:"looked"`    // the processes could be looked for from here
	Processes []Process `json:"processes"` // that live and belong to it
}

// Process is one process.
type Process struct {
	PID      int    `json:"pid"`
	Name     string `json:"name"`
	Doubtful bool   `json:"doubtful"` // it may be a stranger's
	Reason   string `json:"reason"`   // why no run ends it; "" when one would
}

// ShowAttempt is one attempt. What succeeded leaves no more than its times.
type ShowAttempt struct {
	Number   int     `json:"number"`
	Run      *int64  `json:"run"`       // null of one that succeeded: it is not kept
	Class    string  `json:"class"`     // "done" of the one that succeeded
	ExitCode *int    `json:"exit_code"` // null when it did not exit by itself
	Signal   string  `json:"signal"`    // "SIGKILL"; "" when none ended it
	Status   *int    `json:"status"`    // of an HTTP answer; null when there was none
	Reason   string  `json:"reason"`
	Started  string  `json:"started"`
	Seconds  float64 `json:"seconds"`
	Output   *Output `json:"output"` // null when it printed nothing, or succeeded

	output  jobs.Output
	started time.Time
	took    time.Duration
}

// Output is what is kept of what an attempt printed.
type Output struct {
	Head       string `json:"head"`
	HeadBase64 string `json:"head_base64,omitempty"` // only when it is not UTF-8
	Omitted    int64  `json:"omitted"`               // bytes between head and tail
	Tail       string `json:"tail"`
	TailBase64 string `json:"tail_base64,omitempty"`
}

// Around is what the database does not know.
type Around struct {
	Declared *jobs.Spec     // the item's job; nil: no file declares it
	NoJob    string         // who does not: "there is no batchq.toml"
	Lanes    map[string]int // limits, where a file declares them
	Pools    map[string]int // sizes
	Life     map[int64]Life // of the runs that have not written their end
	Takers   map[int64]bool // those of them that take an item like this one
	Remains  *Remains       // of an orphan; nil for all others
	// Elsewhere says that the pid of the run that holds it is one of another pid
	// namespace.
	Elsewhere map[int64]bool
	Self      string // how a person calls this program
}

// Remains is what a dead run left behind, as it was seen from here. At most one
// of the others is set when Processes says nothing.
type Remains struct {
	Processes []Process
	Booted    bool   // there was a boot since: nothing is left
	Request   bool   // no process, but a request that a server may be at work on
	Elsewhere bool   // in another pid namespace
	Within    bool   // who asks is a part of it
	Failed    string // why looking was not possible
}

// NewShow renders a story.
func NewShow(s *store.Story, a Around, now time.Time) Show {
	it := &s.Item
	out := Show{SchemaVersion: SchemaVersion, Path: escapeInvalid(s.Path), Time: timestamp(s.Now),
		ID: it.ID, Job: it.Job, Scope: escapeInvalid(it.Scope), Key: NewKey(it.Key), State: it.State.String(), Lane: a.lane(s), Priority: it.Priority,
		Added: timestamp(it.Created), Due: timestamp(it.Due), Started: maybe(it.Started), Finished: maybe(it.Finished),
		Attempts: it.Attempt, Failures: it.Failures, Crashes: it.Crashes, Defers: it.Defers,
		IdempotencyKey: s.IdempotencyKey, Class: string(it.Class), Reason: escapeInvalid(it.Reason),
		HeldBy: heldBy(s, a), History: history(s), story: s, now: now, self: a.Self}
	if spec := a.spec(s); spec != nil {
		p := &spec.Policy
		out.MaxAttempts, out.MaxCrashes, out.DeferCap = &p.MaxAttempts, &p.MaxCrashes, &p.DeferCap
	}
	if s.PayloadBytes >= 0 {
		out.PayloadBytes = &s.PayloadBytes
	}
	if s.Successor != 0 {
		out.Successor = &s.Successor
	}
	out.Why = (&telling{Story: s, Around: a, now: now, lane: out.Lane}).all()
	return out
}

// spec is how the item's job was worked last, else how it is declared: what an
// item was charged was charged under the former.
func (a *Around) spec(s *store.Story) *jobs.Spec {
	if s.Spec != nil {
		return s.Spec
	}
	return a.Declared
}

// lane is where an item runs, or would if it was started now.
func (a *Around) lane(s *store.Story) string {
	switch {
	case s.Grip != nil && s.Grip.Slot != nil:
		return s.Grip.Slot.Lane
	case a.Declared != nil:
		return a.Declared.Lane
	case s.Lane != "":
		return s.Lane
	}
	return jobs.Serial
}

func heldBy(s *store.Story, a Around) *HeldBy {
	g := s.Grip
	if g == nil {
		return nil
	}
	out := &HeldBy{Run: g.Run.ID, State: a.life(&g.Run), PID: g.Run.PID, Host: escapeInvalid(g.Run.Host), Claim: g.Claim,
		Since: maybe(g.Since), LeaseUntil: maybe(g.Until)}
	if g.Slot == nil {
		return out
	}
	out.Started, out.CommandPID = maybe(g.Slot.Since), g.Slot.PID
	out.TimeoutAt = maybe(timeoutAt(s))
	if o := g.Orphan; o != nil {
		out.LeftBy = &LeftBy{Run: o.Owner.ID, Processes: []Process{}}
		if r := a.Remains; r != nil {
			out.LeftBy.Looked = !r.Elsewhere && !r.Request && r.Failed == ""
			for _, p := range r.Processes {
				out.LeftBy.Processes = append(out.LeftBy.Processes, Process{p.PID, escapeInvalid(p.Name), p.Doubtful, escapeInvalid(p.Reason)})
			}
		}
	}
	return out
}

// life is whether a run is at work.
func (a *Around) life(r *store.RunInfo) Life {
	if !r.Ended.IsZero() {
		return Ended
	}
	if l, known := a.Life[r.ID]; known {
		return l
	}
	return Unknown
}

// timeoutAt is when the attempt in flight is ended; zero: never, or none is.
func timeoutAt(s *store.Story) time.Time {
	switch g := s.Grip; {
	case g == nil || g.Slot == nil:
	case g.Orphan != nil && g.Orphan.Policy.Timeout > 0:
		return g.Slot.Since.Add(g.Orphan.Policy.Timeout)
	case g.Orphan == nil && s.Spec != nil && s.Spec.Policy.Timeout > 0:
		return g.Slot.Since.Add(s.Spec.Policy.Timeout)
	}
	return time.Time{}
}

func history(s *store.Story) []ShowAttempt {
	out := make([]ShowAttempt, 0, len(s.Attempts)+1)
	for i := range s.Attempts {
		a := &s.Attempts[i]
		one := ShowAttempt{Number: a.Number, Run: &a.Run, Class: string(a.Class), Signal: a.Signal, Reason: escapeInvalid(a.Reason),
			Started: timestamp(a.Started), Seconds: a.Duration.Seconds(), Output: output(a.Output), output: a.Output, started: a.Started, took: a.Duration}
		if a.Exited {
			one.ExitCode = &a.ExitCode
		}
		if a.Status != 0 {
			one.Status = &a.Status
		}
		out = append(out, one)
	}
	if it := &s.Item; it.State == jobs.Done && !it.Started.IsZero() {
		took := max(0, it.Finished.Sub(it.Started)) // the clock may have been set back
		out = append(out, ShowAttempt{Number: it.Attempt, Class: string(jobs.ClassDone), Started: timestamp(it.Started), Seconds: took.Seconds(), started: it.Started, took: took})
	}
	return out
}

func output(o jobs.Output) *Output {
	if len(o.Head)+len(o.Tail) == 0 && o.Omitted == 0 {
		return nil
	}
	out := &Output{Omitted: o.Omitted}
	out.Head, out.HeadBase64 = bytesInJSON(o.Head)
	out.Tail, out.TailBase64 = bytesInJSON(o.Tail)
	return out
}

// bytesInJSON gives bytes as text, and whole a second time where they are none.
func bytesInJSON(b []byte) (text, whole string) {
	if utf8.Valid(b) {
		return string(b), ""
	}
	return escapeInvalid(string(b)), base64.StdEncoding.EncodeToString(b)
}

// Bearers names the items that bear one key in different scopes: the newest
// Named of them, then a count.
func Bearers(rows []store.ItemRow) []string {
	var lines []string
	for i := range rows[:min(len(rows), Named)] {
		r := &rows[i]
		scope := "no scope"
		if r.Scope != "" {
			scope = "scope " + Short(r.Scope, keyShown)
		}
		lines = append(lines, fmt.Sprintf("item %d, %s: %s", r.ID, scope, r.State))
	}
	if more := len(rows) - Named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d older ones", more))
	}
	return lines
}
