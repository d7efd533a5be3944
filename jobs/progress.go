package jobs

// Progress is told what a run does, as it does it. The worker calls it from
// one goroutine; an implementation must not block.
type Progress interface {
	// Started: the attempt's start is recorded and its command is about to run.
	Started(it *Item)
	// Settled: the result is recorded.
	Settled(it *Item, r Result, v Verdict)
	// Refused: the result came too late, and another run has the item.
	Refused(it *Item)
	// Note is one sentence for the person who watches: a lane that is full, a
	// job that is broken, an item taken back from a dead run.
	Note(n Note)
}

// Note is a sentence of a run, and how much it matters.
type Note struct {
	Level NoteLevel
	Text  string
}

// Waiting begins a Note that says what the run waits for, until it starts
// something again.
const Waiting = "waiting: "

// NoteLevel says who must see a note.
type NoteLevel int8

const (
	NoteDetail NoteLevel = iota // only with -v
	NoteInfo                    // unless -q
	NoteMust                    // always: a person has to act
)
