package store

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNoDatabase: there is no file at the path (or an empty one), and the
	// caller was not one that creates.
	ErrNoDatabase = errors.New("no database")
	// ErrForeign: the file is not a batchq database.
	ErrForeign = errors.New("not a batchq database")
	// ErrNewer: the file was written by a newer batchq.
	ErrNewer = errors.New("written by a newer batchq")
	// ErrOlderRun: a run of an older batchq is at work on the file, and would
	// not know what a newer one changes in it.
	ErrOlderRun = errors.New("a run of an older batchq is at work on it")
	// ErrDamaged: the file can't be read as a database any more.
	ErrDamaged = errors.New("damaged")
	// ErrBusy: another program held the database for longer than we wait.
	ErrBusy = errors.New("another program holds the database")
	// ErrFull: no room on the device, or a file size limit.
	ErrFull = errors.New("no room to write")
	// ErrReadOnly: the file or its directory can't be written.
	ErrReadOnly = errors.New("can't be written")
	// ErrStale: the claim that was named is no longer this run's.
	ErrStale = errors.New("the claim is no longer ours")
)

// FileError is any error about the database file: what was found at which
// path and what a person can do about it.
type FileError struct {
	Path   string
	Err    error  // one of the sentinels above
	Detail string // what the engine said, "" when the sentinel says it all
	Hint   string // what to do
}

func (e *FileError) Error() string {
	s := fmt.Sprintf("%s: %v", e.Path, e.Err)
	if errors.Is(e.Err, ErrNoDatabase) {
		s = fmt.Sprintf("no database at %s", e.Path)
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

func (e *FileError) Unwrap() error { return e.Err }

// Holder names who holds slots of a lane or the shares of a pool.
type Holder struct {
	Run   int64
	Since time.Time // start of its oldest attempt there
	Slots int
}
