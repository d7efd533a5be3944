package handler

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// slot is what an attempt needs while it runs and the next one can use again:
// above all the one place where it waits for all that can happen to it. That
// is an epoll of its own, which stands in the runtime's epoll as one file:
// the goroutine is parked, no thread is, and no P is kept from others.
type slot struct {
	wake  *os.File // an eventfd: written to from other goroutines
	epoll *os.File
	ready syscall.RawConn // of epoll

	wakeFd, epollFd int
	deadline        time.Time // as epoll has it
	events          [4]unix.EpollEvent
	buf             [32 << 10]byte
}

func newSlot() (_ *slot, err error) {
	s := &slot{wakeFd: -1, epollFd: -1}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// Each fd is an os.File as soon as it exists, so that a late wake after
	// close fails instead of hitting whatever has got the number since.
	if s.wakeFd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	s.wake = os.NewFile(uintptr(s.wakeFd), "wake")
	if s.epollFd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	// The runtime waits only for what it takes for a file that can't block.
	if err = unix.SetNonblock(s.epollFd, true); err != nil {
		unix.Close(s.epollFd)
		return nil, err
	}
	s.epoll = os.NewFile(uintptr(s.epollFd), "epoll")
	if s.ready, err = s.epoll.SyscallConn(); err != nil {
		return nil, err
	}
	if err = s.epoll.SetReadDeadline(time.Time{}); err != nil {
		return nil, err // the runtime can't wait for it
	}
	return s, s.watch(s.wakeFd)
}

// takeSlot returns a slot that nothing is watched in.
func (r *Runner) takeSlot() (*slot, error) {
	r.mu.Lock()
	if n := len(r.slots); n > 0 {
		s := r.slots[n-1]
		r.slots = r.slots[:n-1]
		r.mu.Unlock()
		return s, nil
	}
	r.mu.Unlock()
	return newSlot()
}

func (r *Runner) giveSlot(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = append(r.slots, s)
}

// watch makes wait return when fd can be read.
func (s *slot) watch(fd int) error {
	return unix.EpollCtl(s.epollFd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

// ignore ends watch. To close fd is not enough: a fork under way may hold it.
func (s *slot) ignore(fd int) {
	_ = unix.EpollCtl(s.epollFd, unix.EPOLL_CTL_DEL, fd, nil)
}

// wait returns what can be read of what is watched, or nothing at until
// (zero: never) and when it was roused.
func (s *slot) wait(until time.Time) []unix.EpollEvent {
	if !until.Equal(s.deadline) {
		if s.epoll.SetReadDeadline(until) == nil {
			s.deadline = until
		}
	}
	n := 0
	err := s.ready.Read(func(uintptr) bool {
		var err error
		n, err = unix.EpollWait(s.epollFd, s.events[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if err != nil || n < 0 {
		return nil
	}
	for i := range s.events[:n] {
		if int(s.events[i].Fd) == s.wakeFd {
			var count [8]byte
			_, _ = unix.Read(s.wakeFd, count[:])
		}
	}
	return s.events[:n]
}

// rouse makes the wait of the attempt that uses s return, now or when it
// comes to it.
func (s *slot) rouse() {
	_, _ = s.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}

func (s *slot) close() {
	if s.wake != nil {
		s.wake.Close()
	}
	if s.epoll != nil {
		s.epoll.Close()
	}
}
