package store

import (
	"context"
	"time"

	"batchq/jobs"
)

// Ownership is how runs own claims and how the living take over from the dead.
type Ownership interface {
	// Register writes a run into the book. Its lock must be held already.
	Register(ctx context.Context, r RunInfo) (id int64, err error)
	// Renew extends every claim of the run and returns those that it still has.
	Renew(ctx context.Context, run int64, lease time.Duration) (claims []int64, err error)
	// EndRun writes the run's end. What it still holds unstarted becomes ready.
	EndRun(ctx context.Context, run int64, end RunEnd) error
	// OtherRuns lists runs other than run that have not ended, or that ended
	// and still hold something. One with ID 0 stands for items that nobody holds.
	OtherRuns(ctx context.Context, run int64) ([]OtherRun, error)
	// NoteLapse stores the first look at a run whose lease has lapsed, and
	// says how long ago that first look was and how long the lease is. Both
	// are 0 when it has been renewed meanwhile.
	NoteLapse(ctx context.Context, run int64) (since, lease time.Duration, err error)
	// TakeOver gives what a dead run holds to another: unstarted items become
	// ready, started ones stay running under a new claim of by. dead is 0 for
	// items whose claim has no owner in the book. Call again while More.
	TakeOver(ctx context.Context, dead, by int64, why Death, lease time.Duration) (Taken, error)
	// Orphans lists the started items that run has taken over and not yet settled.
	Orphans(ctx context.Context, run int64) ([]Orphan, error)
	// SettleOrphan charges the crash and moves the item on. ErrStale when the
	// orphan is no longer run's.
	SettleOrphan(ctx context.Context, run int64, o Orphan, v jobs.Verdict) error
}

// Death says how a run was found to be dead.
type Death string

const (
	DeathLock  Death = "crash" // its lock was free
	DeathLease Death = "lease" // its lease lapsed and it could not be asked, or was ended
)

// RunInfo is who a run is, precisely enough to be told from every other
// process, on this boot and later ones.
type RunInfo struct {
	ID       int64
	Token    string // random; names the lock file and marks the children
	PID      int
	PIDStart uint64 // clock ticks since boot
	BootID   string
	PIDNS    string // pid namespace
	Session  int    // in which its children begin, 0 where that is led from outside of PIDNS; -1: unknown
	Host     string
	// Foreign: it had another file open. The book that tells of it is in a copy
	// of that file: nothing of the run may be touched, and nothing here is its own.
	Foreign bool
	Command []string // the command line
	Started time.Time
	Ended   time.Time // zero: not yet
}

// RunEnd is what a run leaves behind in the book.
type RunEnd struct {
	Outcome   string // "finished", "stopped by TERM", …
	PeakBytes int64  // largest child, bytes
}

// OtherRun is a run that may have to be rescued.
type OtherRun struct {
	RunInfo
	Held   int           // items that it holds, started or not
	Lapsed bool          // one of its claims has run out
	Ended  bool          // it has written its end and still holds something
	Since  time.Duration // since its oldest claim lapsed
}

// Taken answers TakeOver.
type Taken struct {
	Freed   int // unstarted items that are ready again
	Orphans int // started items that wait for what the dead run left behind
	More    bool
}

// Orphan is an item that was running when its run died, with what is known of
// the processes that may still be at work on it.
type Orphan struct {
	Held
	It       *jobs.Item // without payload
	Policy   jobs.Policy
	HTTP     bool          // it was a request: there is no process, and a server may be at work on it
	Owner    RunInfo       // the run that started it
	PID      int           // 0: never recorded
	PIDStart uint64        // clock ticks since boot
	Age      time.Duration // since it was started
	Attempt  int
}
