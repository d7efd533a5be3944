package report

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Printer is where progress goes: what a person must see, may want to see, or
// asked for with -v. Only who implements it knows the terminal.
type Printer struct {
	Must, Note, Detail func(format string, args ...any)
}

// deadShown is how many newly dead items are named; a bad night must not fill
// a cron mail.
const deadShown = 10

// keyShown is how many characters of a key a message shows: enough to know it by.
const keyShown = 80

// keyInBar is the same for a bar, which has one line for all that it says.
const keyInBar = 20

// Progress tells a person what a run does. Its methods may be called from
// several goroutines.
type Progress struct {
	to   Printer
	list string // the command that lists dead items

	mu       sync.Mutex
	dead     int
	settled  int64 // done or dead, by this run
	retried  int64
	inFlight map[int64]started
	books    store.Counts // of what was asked for, when they were last looked at
	looked   int64        // what settled was then
	before   int64        // what was settled when they were first looked at, and does not count
	seen     bool         // they have been looked at
	whole    bool         // it counts
	changed  time.Time    // when something was started or settled last
	waits    string       // what the run says that it waits for; "" while it does not
}

// started is an attempt in flight.
type started struct {
	key string
	at  time.Time
}

// NewProgress returns a Progress that names list as the way to see more. With
// whole, what was settled before the run began is a part of how far it has come.
func NewProgress(to Printer, list string, whole bool) *Progress {
	return &Progress{to: to, list: list, whole: whole, inFlight: map[int64]started{}}
}

// Started tells of an attempt that is about to run.
func (p *Progress) Started(it *jobs.Item) {
	p.mu.Lock()
	p.changed, p.waits = time.Now(), ""
	p.inFlight[it.ID] = started{Short(string(it.Key), keyInBar), p.changed}
	p.mu.Unlock()
	p.to.Detail("%s: attempt %d", Name(it), it.Attempt)
}

// Settled tells of a result that is recorded.
func (p *Progress) Settled(it *jobs.Item, r jobs.Result, v jobs.Verdict) {
	nth := p.settle(it.ID, v.To)
	switch v.To {
	case jobs.Done:
		p.to.Detail("%s: done in %s", Name(it), Duration(r.Duration))
	case jobs.Dead:
		if nth <= deadShown {
			p.to.Must("%s is dead: %s", Name(it), v.Reason)
		}
	case jobs.Delayed:
		p.to.Detail("%s: %s; again in %s", Name(it), v.Reason, Duration(v.Delay))
	default:
		p.to.Detail("%s: %s", Name(it), v.Reason)
	}
}

// Refused tells of a result that came too late.
func (p *Progress) Refused(it *jobs.Item) {
	p.mu.Lock()
	delete(p.inFlight, it.ID)
	p.mu.Unlock()
	p.to.Note("job %s, item %d: its result came too late and was refused: another run has it", it.Job, it.ID)
}

// settle counts a result, and returns how many items have died in this run.
func (p *Progress) settle(item int64, to jobs.State) (dead int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inFlight, item)
	p.changed = time.Now()
	switch to {
	case jobs.Done:
		p.settled++
	case jobs.Dead:
		p.settled++
		p.dead++
	case jobs.Delayed:
		p.retried++
	}
	return p.dead
}

// Look takes the books of what was asked for, as they are now.
func (p *Progress) Look(c store.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books, p.looked = c, p.settled
	if !p.seen && !p.whole {
		p.before = c.Done + c.Dead - p.settled
	}
	p.seen = true
}

// Standing is how far the run has come.
func (p *Progress) Standing() Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Standing{Unit: "item", Done: p.settled, Mine: p.settled, InFlight: len(p.inFlight),
		Troubles: []Trouble{{int64(p.dead), "dead"}, {p.retried, "retried"}}}
	if p.seen {
		s.Done = p.books.Done + p.books.Dead - p.before + p.settled - p.looked
		s.Total = max(s.Done, p.books.Left()+p.books.Done+p.books.Dead-p.before)
	}
	var first time.Time
	for _, a := range p.inFlight {
		if first.IsZero() || a.at.Before(first) {
			first, s.Longest = a.at, a.key
		}
	}
	s.For = time.Since(first)
	if len(p.inFlight) == 0 && p.waits != "" && time.Since(p.changed) > barAfter {
		s.Waits = p.waits
	}
	return s
}

// Note passes on a sentence of the run.
func (p *Progress) Note(n jobs.Note) {
	if waits, ok := strings.CutPrefix(n.Text, jobs.Waiting); ok {
		p.mu.Lock()
		p.waits = waits
		p.mu.Unlock()
	}
	switch n.Level {
	case jobs.NoteMust:
		p.to.Must("%s", n.Text)
	case jobs.NoteInfo:
		p.to.Note("%s", n.Text)
	default:
		p.to.Detail("%s", n.Text)
	}
}

// Close says how many dead items were not named.
func (p *Progress) Close() {
	p.mu.Lock()
	more := p.dead - deadShown
	p.mu.Unlock() // who prints may wait for Standing
	if more > 0 {
		p.to.Must("and %d more are dead; see them with: %s", more, p.list)
	}
}

// Name is an item as messages name it.
func Name(it *jobs.Item) string {
	s := fmt.Sprintf("job %s, item %d, key %s", it.Job, it.ID, Short(string(it.Key), keyShown))
	if it.Scope != "" {
		s += ", scope " + Short(it.Scope, keyShown)
	}
	return s
}
