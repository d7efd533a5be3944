package jobs

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// Class is what an outcome means for the item. The words are the contract of
// $BATCHQ_RESULT, of --class and of JSON output.
type Class string

const (
	ClassDone      Class = "done"
	ClassRetry     Class = "retry"     // may recover: tried again after a delay
	ClassPermanent Class = "permanent" // can't recover: dead at once
	ClassDefer     Class = "defer"     // asked to be put off; free, within defer_cap
	ClassTimeout   Class = "timeout"   // a retry whose reason is the timeout
	ClassThrottled Class = "throttled" // a retry whose reason is a server that wants less: the whole job is held
	ClassCrash     Class = "crash"     // its run died while it was running
	ClassFree      Class = "free"      // interrupted through no fault of its own
	ClassSuspect   Class = "suspect"   // exit 126/127 before the command has proven itself
	ClassBroken    Class = "broken"    // the job can't be run at all; nobody is charged
	ClassShared    Class = "shared"    // its stream ended with others in the air: free, and sent alone next
)

// Classes lists every class, in the order in which they are explained.
func Classes() []Class {
	return []Class{ClassDone, ClassPermanent, ClassRetry, ClassTimeout, ClassThrottled, ClassCrash, ClassDefer, ClassFree, ClassSuspect, ClassBroken}
}

// SetAside lists the classes that the last failure of a dead or delayed item can
// have. The others leave an item ready, or settle it.
func SetAside() []Class {
	return []Class{ClassPermanent, ClassRetry, ClassTimeout, ClassThrottled, ClassCrash, ClassDefer, ClassFree}
}

// Ending says who ended an attempt, and how.
type Ending int8

const (
	Exited      Ending = iota // by itself: see ExitCode or Signal
	TimedOut                  // we ended it at its timeout
	Stopped                   // we ended it because the run was told to stop
	Lost                      // we ended it because the claim was no longer ours
	CantExec                  // exec failed: missing, not executable, no directory
	TooLong                   // exec failed: this item's arguments are too long
	CantFork                  // no process could be made now; the system's lack, not the item's
	Unresolved                // the item gives no command that could be run: a placeholder without a value, a program that is not there
	Answered                  // a server answered: see Status
	Unreached                 // no server got anything of the request
	Severed                   // there is no whole answer, and the server may have got the request
	Unanswered                // its stream gave it no answer that could be used; it was alone in the air, or the answer was its own
	Abandoned                 // its stream ended while others were in the air with it
	Undelivered               // its stream ended before a byte of it was written
)

// Result is what a handler reports of one attempt: facts only. What they mean
// is for Policy.Judge to say.
type Result struct {
	Ending     Ending
	ExitCode   int    // of an attempt that exited; 128+n never stands for a signal here
	Signal     int    // the signal that ended it; 0: none
	SignalName string // "SIGKILL"
	Answer     *Answer
	// Streamed: the exit is that of a stream, in which the item was alone. A
	// status of success is no answer there.
	Streamed bool
	// AnswerError says why what stood in $BATCHQ_RESULT was no answer.
	AnswerError string
	// Error is the handler's own sentence: what could not be executed and why.
	Error string
	// Searched is the PATH in which the command was not found, with CantExec.
	Searched string
	// Proven is set by the worker: another item of this job has ended in this
	// run with something else than 126/127, so the command exists.
	Proven bool
	// Unsent is set where a request was ended before anything of it was sent:
	// then its outcome is known.
	Unsent bool
	// What a server answered, with Answered.
	Status     int
	StatusText string        // "Too Many Requests"; "" where the number has no name
	Location   string        // of a redirect that was not followed
	RetryAfter time.Duration // what it asked for; 0: nothing that makes sense
	Said       string        // the last line of a body that is meant for people; not safe for a terminal

	Duration time.Duration
	Output   Output
	MaxRSS   int64 // peak memory of the attempt's processes, bytes; 0: unknown
}

// Output is what is kept of what an attempt printed, stdout and stderr mixed
// as they came: the first bytes and the last ones.
type Output struct {
	Head []byte
	Tail []byte // follows Head directly when Omitted is 0
	// Omitted is how many bytes between Head and Tail were not kept.
	Omitted int64
}

// lineShown bounds a line of output that becomes part of a reason, in bytes.
const lineShown = 200

// Cut stands where the rest of a text is left out.
const Cut = "…"

// LastLine is the last line of output that is not blank, cut to a length for
// messages (then Cut is its end) and made valid UTF-8; "" when there is none. It is not safe for a
// terminal.
func (o Output) LastLine() string {
	text := o.Tail
	if len(bytes.TrimSpace(text)) == 0 {
		text = o.Head
	}
	text = bytes.TrimSpace(text)
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	if len(text) <= lineShown {
		return strings.ToValidUTF8(strings.TrimSpace(string(text)), "\ufffd")
	}
	cut := lineShown
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return strings.ToValidUTF8(strings.TrimSpace(string(text[:cut])), "\ufffd") + Cut
}

// Answer is the one JSON line that a command may leave in $BATCHQ_RESULT.
type Answer struct {
	Class Class         // done, retry, permanent or defer
	After time.Duration // not before this much later; 0: no wish
	Error string
}

// Charge says which of an item's budgets an outcome is taken from.
type Charge int8

const (
	ChargeNone Charge = iota
	ChargeFailure
	ChargeCrash
	ChargeDefer
)

// Verdict is what happens to an item after an attempt. Delay is measured from
// the transaction that records it, so that only the store knows the wall clock.
type Verdict struct {
	To     State // Done, Ready, Delayed or Dead
	Class  Class
	Delay  time.Duration // with Delayed
	Charge Charge
	// Hold is for how long the whole job is held back besides; 0: not at all.
	Hold   time.Duration
	Reason string // one sentence for a person; "" when done
}
