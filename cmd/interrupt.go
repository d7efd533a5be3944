package cmd

import (
	"context"
	"os/signal"
	"syscall"
)

// interrupt is a context that ends at the first HUP, INT or TERM, so that a
// command can say how far it came.
type interrupt struct {
	context.Context
	each []endedBy
}

type endedBy struct {
	signal  syscall.Signal
	context context.Context
	stop    context.CancelFunc
}

func newInterrupt(parent context.Context) *interrupt {
	in := &interrupt{Context: parent}
	// One context inside the other, so that the outermost that has ended
	// tells which signal came.
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			continue // nohup, or a shell's background job: it stays ignored
		}
		ctx, stop := signal.NotifyContext(in.Context, s)
		in.each = append(in.each, endedBy{s, ctx, stop})
		in.Context = ctx
	}
	return in
}

// stop gives the signals their usual effect again.
func (in *interrupt) stop() {
	for _, e := range in.each {
		e.stop()
	}
}

// signal is the signal that ended the context; 0 when none did.
func (in *interrupt) signal() syscall.Signal {
	for _, e := range in.each {
		if e.context.Err() != nil {
			return e.signal
		}
	}
	return 0
}

// signalName is a signal as people write it.
func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "HUP"
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGTERM:
		return "TERM"
	case syscall.SIGTSTP:
		return "TSTP"
	}
	return s.String()
}
