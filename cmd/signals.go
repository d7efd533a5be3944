package cmd

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// stops are the two ways in which a person ends a run: the first signal asks
// (soft), the second one insists (hard). QUIT insists at once.
type stops struct {
	soft, hard context.Context
	first      atomic.Int64 // the signal that asked; 0: none yet
	close      func()

	got     chan os.Signal
	follows atomic.Bool   // HUP asks for the configuration to be read again
	reloads chan struct{} // it did
}

// listen turns signals into stops. A HUP, INT or QUIT that was ignored when the
// program started (nohup, a job in a shell's background) stays ignored.
func (a *app) listen(parent context.Context) *stops {
	soft, ask := context.WithCancel(parent)
	hard, end := context.WithCancel(context.WithoutCancel(parent))
	insist := func() {
		end()
		a.out.abandon()
	}
	s := &stops{soft: soft, hard: hard, got: make(chan os.Signal, 2), reloads: make(chan struct{}, 1)}
	wanted := []os.Signal{syscall.SIGTERM, syscall.SIGTSTP}
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			wanted = append(wanted, sig)
		}
	}
	signal.Notify(s.got, wanted...)
	gone := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-s.got:
				s.heed(sig, ask, insist)
			case <-gone:
				return
			}
		}
	}()
	s.close = func() {
		signal.Stop(s.got)
		close(gone)
		ask()
		end()
	}
	return s
}

// heed does what a signal says. Whoever presses Ctrl-\ has waited long enough:
// what runs is ended before anybody is told that it has time.
func (s *stops) heed(sig os.Signal, ask, insist func()) {
	if sig == syscall.SIGHUP && s.follows.Load() {
		s.reload()
		return
	}
	first := s.first.CompareAndSwap(0, int64(sig.(syscall.Signal)))
	if sig == syscall.SIGQUIT || !first {
		insist()
	}
	ask()
}

// follow makes HUP ask for a reload instead of a stop, as it does of daemons,
// and returns where that is told. A HUP that was ignored when the program
// started is heard then: it can end nothing any more.
func (s *stops) follow() <-chan struct{} {
	s.follows.Store(true)
	signal.Notify(s.got, syscall.SIGHUP)
	return s.reloads
}

func (s *stops) reload() {
	select {
	case s.reloads <- struct{}{}:
	default: // one is asked for already, and reads what is there now
	}
}

// signal is the one that asked for the stop; 0 when none did.
func (s *stops) signal() syscall.Signal { return syscall.Signal(s.first.Load()) }

// because is err, or, where a signal has asked for the stop that it comes
// from, the end of the command at that signal.
func (s *stops) because(err error) error {
	sig := s.signal()
	if err == nil || sig == 0 {
		return err
	}
	return withHint(exitWith(signalExit(sig), fmt.Errorf("stopped by %s", signalName(sig))), "the same command again completes it")
}
