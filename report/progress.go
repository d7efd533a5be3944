package report

import (
	"fmt"
	"sync"

	"batchq/jobs"
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

// Progress tells a person what a run does. Its methods may be called from
// several goroutines.
type Progress struct {
	to   Printer
	list string // the command that lists dead items

	mu   sync.Mutex
	dead int
}

// NewProgress returns a Progress that names list as the way to see more.
func NewProgress(to Printer, list string) *Progress {
	return &Progress{to: to, list: list}
}

// Started tells of an attempt that is about to run.
func (p *Progress) Started(it *jobs.Item) {
	p.to.Detail("%s: attempt %d", Name(it), it.Attempt)
}

// Settled tells of a result that is recorded.
func (p *Progress) Settled(it *jobs.Item, r jobs.Result, v jobs.Verdict) {
	switch v.To {
	case jobs.Done:
		p.to.Detail("%s: done in %s", Name(it), Duration(r.Duration))
	case jobs.Dead:
		p.mu.Lock()
		p.dead++
		show := p.dead <= deadShown
		p.mu.Unlock()
		if show {
			p.to.Must("%s is dead: %s", Name(it), v.Reason)
		}
	case jobs.Delayed:
		p.to.Detail("%s: %s; again in %s", Name(it), v.Reason, Duration(v.Delay))
	default:
		p.to.Detail("%s: %s", Name(it), v.Reason)
	}
}

// Note passes on a sentence of the run.
func (p *Progress) Note(n jobs.Note) {
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
	defer p.mu.Unlock()
	if more := p.dead - deadShown; more > 0 {
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
