package jobs

import "fmt"

// State is where an item stands. The numbers are stored; never renumber them.
type State int8

const (
	Ready   State = iota // due and free to be claimed
	Delayed              // becomes ready when its due time comes
	Claimed              // owned by a run, not started
	Running              // started, result not yet recorded
	Done                 // finished; never run again unless a person asks
	Dead                 // set aside for a person: the dead-letter queue
	Dropped              // taken out by a person; its key is free again
)

// Pruned is not a state of a row but of the books: how many finished or
// dropped items retention has removed.
const Pruned = "pruned"

var stateNames = [...]string{"ready", "delayed", "claimed", "running", "done", "dead", "dropped"}

// States lists every state in the order in which reports show them.
func States() []State {
	return []State{Ready, Delayed, Claimed, Running, Done, Dead, Dropped}
}

func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state(%d)", int8(s))
	}
	return stateNames[s]
}

// Settled says whether nothing more happens to an item in s unless a person acts.
func (s State) Settled() bool { return s == Done || s == Dead || s == Dropped }

// ParseState returns the state called name, or an error that lists the names.
func ParseState(name string) (State, error) {
	for i, n := range stateNames {
		if n == name {
			return State(i), nil
		}
	}
	return 0, fmt.Errorf("no state %q: want one of %v", name, stateNames)
}
