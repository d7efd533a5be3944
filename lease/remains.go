package lease

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"batchq/jobs/handler"
	"batchq/store"
)

// Remains is what a dead run left behind of one item, as it is seen from this
// process. At most one field says why nothing could be looked for.
type Remains struct {
	// Processes live and belong to it. Reason says why this process may not end
	// one of them; "" where it may.
	Processes []handler.Process
	Booted    bool // nothing survives a boot, and there was one since
	Foreign   bool // its run had another copy of the database open: not to be touched
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
		r.Booted = true
		return r, nil
	case o.Owner.Foreign:
		r.Foreign = true
		return r, nil
	case o.Owner.PIDNS != me.PIDNS:
		r.Elsewhere = true
		return r, nil
	}
	sought := handler.Orphan{Mark: mark(o.Owner.Token, o.Item, o.Attempt), PID: o.PID, Start: o.PIDStart}
	r.Within = within(sought)
	// Twice, as the rescuer does: what executes a new program at the moment of
	// the first look shows no mark.
	alive, err := seen(ctx, []handler.Orphan{sought})
	if err != nil || len(alive) == 0 {
		return r, err
	}
	r.Processes, err = handler.Survivors([]handler.Orphan{sought})
	for i := range r.Processes {
		p := &r.Processes[i]
		if p.Reason == "" && errors.Is(unix.Kill(p.PID, 0), unix.EPERM) {
			p.Reason = "it is another user's"
		}
	}
	return r, err
}
