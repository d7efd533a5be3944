package lease

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"batchq/jobs/handler"
	"batchq/store"
)

// Remains is what a dead run left behind of one item, as it is seen from this
// process. At most one of Booted, Elsewhere and Within is true.
type Remains struct {
	// Processes live and belong to it, or may. Reason says why no run of this
	// process's user would end one of them; "" where it would.
	Processes []handler.Process
	Booted    bool // nothing survives a boot, and there was one since
	Elsewhere bool // it began in another pid namespace, in which nobody can be asked from here
	Within    bool // this process is itself a part of it
}

// LookAt says what is left of an orphan. It only looks: no process is ended,
// told or held up.
func LookAt(ctx context.Context, o store.Orphan) (r Remains, err error) {
	me, err := whoAmI(nil)
	if err != nil {
		return r, err
	}
	switch {
	case o.Owner.BootID != me.BootID:
		return Remains{Booted: true}, nil
	case o.Owner.PIDNS != me.PIDNS:
		return Remains{Elsewhere: true}, nil
	}
	sought := []handler.Orphan{traces(o)}
	if within(sought[0]) {
		return Remains{Within: true}, nil
	}
	// Twice, as the rescuer does: what executes a new program at the moment of
	// the first look shows no mark.
	alive, err := seen(ctx, sought)
	if err != nil || len(alive) == 0 {
		return r, err
	}
	r.Processes, err = handler.Survivors(sought)
	for i := range r.Processes {
		r.Processes[i].Reason = spared(&r.Processes[i], o.Owner.Foreign)
	}
	return r, err
}

// spared says why a process is not ended, as far as that can be told without
// trying.
func spared(p *handler.Process, foreign bool) string {
	switch {
	case foreign:
		return "it is at work for another copy of this database"
	case p.Doubtful:
		return handler.MayBeAnothers
	case errors.Is(unix.Kill(p.PID, 0), unix.EPERM):
		return handler.AnotherUsers
	}
	return p.Reason
}
