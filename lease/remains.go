package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"batchq/jobs/handler"
	"batchq/store"
)

// Remains is what a dead run left behind of one item, as it is seen from this
// process. At most one of Booted, Request, Elsewhere and Within is true.
type Remains struct {
	// Processes live and belong to it, or may. Reason says why no run of this
	// process's user would end one of them; "" where it would.
	Processes []handler.Process
	Booted    bool // nothing survives a boot, and there was one since
	Request   bool // it was no process but a request, which a server may be at work on
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
	case o.HTTP:
		return Remains{Request: true}, nil
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

// AskFor adds which of the processes the run that holds the item may not end,
// where that can be told: who looks may be root, and the run somebody else.
func (r *Remains) AskFor(run store.RunInfo) {
	me, err := whoAmI(nil)
	if err != nil || run.BootID != me.BootID || run.PIDNS != me.PIDNS || !runs(run) {
		return // none that is at work, or none of which we can tell
	}
	for i := range r.Processes {
		if p := &r.Processes[i]; p.Reason == "" && !maySignal(run.PID, p.PID) {
			p.Reason = fmt.Sprintf("run %d may not: %s", run.ID, handler.AnotherUsers)
		}
	}
}

// maySignal says whether one process may signal another, by the rule of
// kill(2); true where that can't be told.
func maySignal(who, whom int) bool {
	const capKill = 5
	if caps, err := strconv.ParseUint(string(bytes.Join(statusOf(who, "CapEff"), nil)), 16, 64); err != nil || caps&(1<<capKill) != 0 {
		return true
	}
	own, its := statusOf(who, "Uid"), statusOf(whom, "Uid") // real, effective, saved, of the file system
	if len(own) < 4 || len(its) < 4 {
		return true
	}
	return slices.ContainsFunc(own[:2], func(uid []byte) bool { return bytes.Equal(uid, its[0]) || bytes.Equal(uid, its[2]) })
}

// statusOf are the words of one line of a process's status.
func statusOf(pid int, line string) [][]byte {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := bytes.Cut(status, []byte("\n"+line+":"))
	words, _, _ := bytes.Cut(rest, []byte("\n"))
	return bytes.Fields(words)
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
