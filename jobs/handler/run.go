package handler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/fault"
)

const (
	// stragglers is how long the group may go on after its leader's exit while
	// it holds the output open: long enough for the tee of a bash
	// `exec > >(tee log)`, too short to be noticed. Then KILL.
	stragglers = 50 * time.Millisecond
	// lastWords bounds what is read once everything of the group is dead: what
	// has left the group may still write, without end.
	lastWords = 1 << 20
	// dying is how long the killed may take to disappear before we go on
	// without them and say so.
	dying = 2 * time.Second
	// blindTick is how often we look for the exit where there is no pidfd.
	blindTick = 5 * time.Millisecond
	// stuckTick is how often KILL is repeated to a leader that doesn't die.
	stuckTick = time.Second
)

// execution is one attempt under way. It is driven by one goroutine, which
// waits in one place for the process, its output and the wake-up call.
type execution struct {
	*Runner
	*Attempt
	begin   time.Time
	result  jobs.Result
	printed Printed

	argv     []string
	searched string   // the PATH that has no argv[0]
	env      []string // as it was last tried
	shared   *specEnv
	slot     *slot
	pipes    [2]pipe // [1] only with Print: else stderr goes the way of stdout
	out      mixed
	log      *os.File

	resultDir, resultName string
	resultFd              int

	proc   *os.Process
	born   uint64 // start time of the process, clock ticks since boot
	exited bool   // the leader has; it is reaped at the very end
	hunt   *hunt  // set once we are ending the attempt
}

// attend sees a started process through to its end.
func (x *execution) attend(ctx, kill context.Context) {
	x.result.Ending, x.result.Error = jobs.Exited, "" // whatever an earlier try said
	fault.Here("exec", "forked")
	x.born, _ = StartTime(x.proc.Pid)
	if x.Started != nil {
		x.Started(x.proc.Pid, x.born)
	}
	if x.LogDir != "" {
		var err error
		if x.log, err = openLog(x.Attempt); err != nil {
			x.note("no log: %s", err)
		}
	}
	defer context.AfterFunc(ctx, x.slot.rouse)()
	defer context.AfterFunc(kill, x.slot.rouse)()

	watched := false
	if !x.noPidfd {
		_ = x.proc.WithHandle(func(pidfd uintptr) {
			if watched = x.slot.watch(int(pidfd)) == nil; watched {
				x.watch(ctx, kill, int(pidfd))
			}
		})
	}
	if !watched {
		x.watch(ctx, kill, -1)
	}
	if x.hunt == nil {
		x.linger()
	}
	// The leader is not reaped yet, so its group's number can't be a stranger's.
	fault.Here("exec", "exited")
	x.signalGroup(unix.SIGKILL)
	x.reap()
	fault.Here("exec", "reaped")
	x.awaitGroup()
	x.closeWrites()
	x.drain()
	x.readAnswer()
	x.result.Output = x.out.output()
}

// watch returns when the leader has exited and, where we are ending the
// attempt, everything else of it is gone too.
func (x *execution) watch(ctx, kill context.Context, pidfd int) {
	deadline := time.Time{}
	if timeout := x.Spec.Policy.Timeout; timeout > 0 {
		deadline = x.begin.Add(timeout)
	}
	for next := deadline; ; {
		if x.sleep(pidfd, next) {
			if x.hunt == nil {
				return // before it was told to, if it was
			}
			x.hunt.hurry() // perhaps nothing else is left
		}
		now := time.Now()
		ending, atOnce, told := interrupted(ctx, kill)
		switch {
		case x.hunt != nil:
			if told && atOnce {
				x.hunt.killFrom(now)
			}
		case told:
			x.end(ending, atOnce, now)
		case !deadline.IsZero() && !now.Before(deadline):
			x.end(jobs.TimedOut, false, now)
		default:
			continue
		}
		if x.pursue(now) {
			return
		}
		next = x.hunt.next
	}
}

// sleep waits for the first of: exit, output, a wake-up call, next (zero:
// never). It takes the output and says whether the leader has exited just now.
// Without a pidfd (-1) it looks often.
func (x *execution) sleep(pidfd int, next time.Time) (exited bool) {
	blind := pidfd < 0 && !x.exited
	if tick := time.Now().Add(blindTick); blind && (next.IsZero() || next.After(tick)) {
		next = tick
	}
	for _, event := range x.slot.wait(next) {
		switch int(event.Fd) {
		case pidfd:
			exited = true
			x.slot.ignore(pidfd) // it would be readable for ever
		case x.pipes[0].read:
			x.take(0)
		case x.pipes[1].read:
			x.take(1)
		}
	}
	exited = exited || blind && x.hasExited(unix.WNOHANG)
	x.exited = x.exited || exited
	return exited
}

// hasExited says whether the leader is dead, without reaping it. how is WNOHANG,
// or 0 to wait until it is.
func (x *execution) hasExited(how int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, x.proc.Pid, &info, unix.WEXITED|unix.WNOWAIT|how, nil)
		if err == unix.EINTR {
			continue
		}
		return err != nil || info.Signo != 0
	}
}

// end begins the end that we give to an attempt.
func (x *execution) end(ending jobs.Ending, atOnce bool, now time.Time) {
	x.result.Ending = ending
	x.hunt = newHunt([]Orphan{{Mark: x.Mark, PID: x.proc.Pid, Start: x.born}})
	x.hunt.group = x.proc.Pid
	if atOnce {
		x.hunt.killFrom(now)
		return
	}
	x.hunt.killFrom(now.Add(x.Spec.Policy.KillAfter))
	// First a look at who is whose child: a shell dies of TERM at once, and
	// then nothing shows any more whom it had started.
	x.pursue(now)
	x.signalGroup(unix.SIGTERM)
	fault.Here("exec", "told")
	x.signalGroup(unix.SIGCONT) // what is stopped can't hear TERM
}

// pursue does the next pass of the hunt, when it is due. true: all is over.
func (x *execution) pursue(now time.Time) bool {
	h := x.hunt
	if now.Before(h.next) {
		return x.exited && h.over
	}
	err := h.pass(now)
	if h.killing(now) {
		x.signalGroup(unix.SIGKILL)
	}
	if err != nil {
		// No /proc: the group is all that we can reach, through its leader.
		h.over = true
		h.next = now.Add(passPause)
	} else if h.over && !x.exited {
		// A leader that KILL does not end (stuck in the kernel, or another
		// user's) is still at work on the item: wait for it, however long.
		h.next = now.Add(stuckTick)
	}
	return x.exited && h.over
}

func (x *execution) signalGroup(sig syscall.Signal) {
	_ = unix.Kill(-x.proc.Pid, sig)
}

// linger reads on after the leader's exit while others of its group hold the
// output open, but not for long.
func (x *execution) linger() {
	x.closeWrites()
	for until := time.Now().Add(stragglers); time.Now().Before(until); x.slot.wait(until) {
		open := 0
		for i := range x.pipes {
			n, ended := 1, false
			for n > 0 && time.Now().Before(until) {
				n, ended = x.take(i)
			}
			if ended {
				x.closeRead(i)
			} else {
				open++
			}
		}
		if open == 0 {
			return
		}
	}
}

// drain takes what still stands in the pipes.
func (x *execution) drain() {
	for i := range x.pipes {
		for taken, n := 0, 1; n > 0 && taken < lastWords; taken += n {
			n, _ = x.take(i)
		}
	}
}

// reap collects the exit status.
func (x *execution) reap() {
	state, err := x.proc.Wait()
	if err != nil { // nobody else waits for our children
		x.result.Error = "its exit status could not be read: " + err.Error()
		x.result.ExitCode = -1
		return
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		x.result.Signal = int(status.Signal())
		if x.result.SignalName = unix.SignalName(status.Signal()); x.result.SignalName == "" {
			x.result.SignalName = fmt.Sprintf("signal %d", x.result.Signal)
		}
	} else {
		x.result.ExitCode = state.ExitCode()
	}
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		x.result.MaxRSS = peakMemory(usage.Maxrss)
	}
}

// peakMemory turns a child's ru_maxrss (KiB) into bytes. The kernel counts
// the memory of the process that forked it until exec, so anything up to our
// own peak may be ours and says nothing of the child: 0, unknown.
func peakMemory(maxrss int64) int64 {
	var self unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &self) == nil && maxrss <= self.Maxrss {
		return 0
	}
	return maxrss << 10
}

// awaitGroup returns when nobody is left of the group, to which KILL has been
// sent. KILL to a group misses nobody (a fork under way is restarted and dies),
// but dying takes a moment, and whatever runs next must not meet the dying.
func (x *execution) awaitGroup() {
	begin := time.Now()
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, passPause) {
		if errors.Is(unix.Kill(-x.proc.Pid, 0), unix.ESRCH) {
			return
		}
		if took := time.Since(begin); took > 2*passPause {
			// It may consist of zombies, where their new parent doesn't reap.
			members, err := groupMembers(x.proc.Pid, x.born)
			if err == nil && len(members) == 0 {
				return
			}
			if took < dying {
				time.Sleep(pause)
				continue
			}
			for _, p := range members {
				x.note("process %d (%s) of its group could not be ended", p.PID, p.Name)
			}
			return
		}
		time.Sleep(pause)
	}
}

// take moves one buffer full from pipe i to wherever output is kept, and says
// how much it was. ended: no writer is left.
func (x *execution) take(i int) (n int, ended bool) {
	n, ended = x.pipes[i].take(x.slot.buf[:])
	b := x.slot.buf[:n]
	if n == 0 {
		return 0, ended
	}
	x.out.write(b)
	if x.log != nil {
		if _, err := x.log.Write(b); err != nil {
			x.note("the log is not whole: %s", err)
			x.log.Close()
			x.log = nil
		}
	}
	if x.Print {
		stream := &x.printed.Stdout
		if i == 1 {
			stream = &x.printed.Stderr
		}
		stream.keep(b, func() (*os.File, error) { return x.temp.file(x.uniqueName("output-")) })
	}
	return n, ended
}

func (x *execution) readAnswer() {
	answer, err := readAnswer(x.resultFd, x.resultName)
	if err != nil {
		x.result.AnswerError = "$BATCHQ_RESULT: " + err.Error()
	}
	x.result.Answer = answer
	x.temp.discard(x.resultFd, x.resultDir, x.resultName)
	fault.Here("exec", "answered")
}

func (x *execution) note(format string, args ...any) {
	x.printed.Notes = append(x.printed.Notes, fmt.Sprintf(format, args...))
}

func (x *execution) closeWrites() {
	for i := range x.pipes {
		x.pipes[i].closeWrite()
	}
}

func (x *execution) closePipes() {
	x.closeWrites()
	for i := range x.pipes {
		x.closeRead(i)
	}
}

func (x *execution) closeRead(i int) {
	if fd := x.pipes[i].read; fd >= 0 {
		x.slot.ignore(fd)
		unix.Close(fd)
		x.pipes[i].read = -1
	}
}

// close gives back whatever the attempt still has open.
func (x *execution) close() {
	x.closePipes()
	if x.slot != nil {
		x.giveSlot(x.slot)
	}
	if x.log != nil {
		if err := x.log.Close(); err != nil {
			x.note("the log is not whole: %s", err)
		}
	}
	for _, s := range []*Stream{&x.printed.Stdout, &x.printed.Stderr} {
		if s.err != nil {
			x.note("not all of its output is kept for printing: %s", s.err)
		}
	}
	if x.hunt != nil {
		for _, p := range x.hunt.left {
			x.note("process %d (%s) could not be ended: %s", p.PID, p.Name, p.Reason)
		}
	}
}
