// Package store says what batchq keeps and what may be asked of it: the
// interfaces, one a kind of reader, the values that cross them, and the
// errors. It knows no SQL; store/sqlite is the engine, and store/storetest
// is what every engine has to pass.
//
// Rules that hold for every engine:
//
//   - A method that changes something is one transaction and touches at most
//     MaxRows rows; callers with more to do call again.
//   - There is one "now" in a transaction, and only the store knows the wall
//     clock: callers pass durations, never deadlines.
//   - A write about a held item names its claim. When the claim is no longer
//     the item's, nothing is written and the answer says so: the token
//     decides, not the clock.
//   - What a method has returned without an error survives a power cut,
//     except what a power cut makes void anyway, as no process is left: a
//     run's registration, what it holds, its lease, and a start mark of a job
//     that may be run again.
package store

// MaxRows bounds what one transaction touches, so that a heartbeat never
// waits long for the write lock.
const MaxRows = 1000

// Store is everything an engine offers; who uses it asks for one part.
type Store interface {
	Queue
	Ownership
	Operator
	Upkeep
	Reader
	Close() error
}
