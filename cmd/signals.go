package cmd

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// stops are the two ways in which a person ends a run: the first signal asks
// (soft), the second one insists (hard).
type stops struct {
	soft, hard context.Context
	first      atomic.Int64 // the signal that asked; 0: none yet
	close      func()
}

// listen turns signals into stops. A HUP or INT that was ignored when the
// program started (nohup, a job in a shell's background) stays ignored.
func listen(parent context.Context) *stops {
	soft, ask := context.WithCancel(parent)
	hard, insist := context.WithCancel(context.WithoutCancel(parent))
	s := &stops{soft: soft, hard: hard}
	wanted := []os.Signal{syscall.SIGTERM, syscall.SIGTSTP}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if !signal.Ignored(sig) {
			wanted = append(wanted, sig)
		}
	}
	got := make(chan os.Signal, 2)
	signal.Notify(got, wanted...)
	gone := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-got:
				if s.first.CompareAndSwap(0, int64(sig.(syscall.Signal))) {
					ask()
				} else {
					insist()
				}
			case <-gone:
				return
			}
		}
	}()
	s.close = func() {
		signal.Stop(got)
		close(gone)
		ask()
		insist()
	}
	return s
}

// signal is the one that asked for the stop; 0 when none did.
func (s *stops) signal() syscall.Signal { return syscall.Signal(s.first.Load()) }
