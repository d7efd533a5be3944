package lease

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"batchq/jobs/handler"
	"batchq/store"
)

// strangerCommand is a command that no run has started.
func strangerCommand() *exec.Cmd {
	c := exec.Command("sleep", "3600")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// stuckStore is a store that somebody keeps from being written. It counts how
// often a wait for the lock was in vain.
type stuckStore struct {
	store.Ownership
	stuck func() bool
	waits int
}

func (s *stuckStore) busy() error {
	if !s.stuck() {
		return nil
	}
	s.waits++
	return &store.FileError{Path: "q.db", Err: store.ErrBusy}
}

func (s *stuckStore) Register(ctx context.Context, r store.RunInfo) (int64, error) {
	if err := s.busy(); err != nil {
		return 0, err
	}
	return s.Ownership.Register(ctx, r)
}

func (s *stuckStore) NoteLapse(ctx context.Context, run int64) (time.Duration, time.Duration, error) {
	if err := s.busy(); err != nil {
		return 0, 0, err
	}
	return s.Ownership.NoteLapse(ctx, run)
}

// A run that is stopped inside a transaction keeps all others from writing,
// also from noting that its lease has lapsed: it is ended after the lease and
// half of another, when two waits for the lock were in vain, by who wants to
// begin as by who is at work.
func TestOwn_StoppedHoldingTheLock(t *testing.T) {
	for _, how := range []string{"Register", "Rescue"} {
		t.Run(how, func(t *testing.T) {
			b := setup(t)
			b.enqueue("a", "b")
			p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1})
			r := b.rescuer() // before there is no writing any more
			if how == "Register" {
				b.exec("DELETE FROM run WHERE id = ?", r.Info.ID)
			}
			s := &stuckStore{Ownership: r.own, stuck: func() bool { return alive(p.cmd.Process.Pid) }}
			r.own = s
			p.stop()
			b.clock.step(61*time.Second + 30*time.Second)
			if how == "Rescue" {
				if err := r.Rescue(context.Background()); !errors.Is(err, store.ErrBusy) || p.hasEnded() {
					t.Errorf("at the first look: %v", err)
				}
				r.rescue()
			} else {
				b.must(r.register(context.Background()))
				r.rescue()
			}
			b.until("it has ended", p.hasEnded)
			if s.waits != 2 {
				t.Errorf("ended after %d waits", s.waits)
			}
			if n := len(r.said("is stopped, its lease has lapsed, and the database can't be written: it is ended unless it goes on")); n != 1 {
				t.Errorf("said %d times", n)
			}
			b.want("a ready, b ready")
			b.wantCrashes("a", 1)
		})
	}
}

// Whoever else keeps the lock: a run that has not lapsed, or not for long, that
// is not stopped, or that goes on after the first look, is left alone.
func TestOwn_BusyForAnotherReason(t *testing.T) {
	for name, step := range map[string]func(*bundle, *player){
		"Healthy":  func(*bundle, *player) {},
		"Stopped":  func(_ *bundle, p *player) { p.stop() },
		"Lapsed":   func(b *bundle, _ *player) { b.clock.step(time.Hour) },
		"JustNow":  func(b *bundle, p *player) { p.stop(); b.clock.step(80 * time.Second) },
		"GoesOn":   func(b *bundle, p *player) { p.stop(); b.clock.step(time.Hour) },
		"OtherPID": func(b *bundle, p *player) { p.stop(); b.clock.step(time.Hour); b.exec("UPDATE run SET pid_start = 1") },
		"OtherNS":  func(b *bundle, p *player) { p.stop(); b.clock.step(time.Hour); b.exec("UPDATE run SET pid_ns = 'x'") },
		"Foreign":  func(b *bundle, p *player) { p.stop(); b.clock.step(time.Hour); b.exec("UPDATE run SET file = '1:1'") },
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.enqueue("a")
			p := b.original(role{Spec: b.spec(holds), Claim: 1, Start: 1})
			start, err := handler.StartTime(p.cmd.Process.Pid)
			b.must(err)
			step(b, p)
			r := b.rescuer()
			for i := range 4 {
				again := r.unblock(context.Background())
				if want := name == "JustNow" || name == "GoesOn" && i == 0; again != want {
					t.Errorf("look %d: another wait is thought worth it: %v", i, again)
				}
				if name == "GoesOn" {
					kill(p.cmd.Process.Pid, syscall.SIGCONT)
					b.until("it goes on", func() bool { return !handler.Stopped(p.cmd.Process.Pid, start) })
				}
			}
			if p.hasEnded() {
				t.Error("it was ended")
			}
		})
	}
}
