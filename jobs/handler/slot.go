package handler

import (
	"os"

	"golang.org/x/sys/unix"
)

// slot is what an attempt needs while it runs and the next one can use again.
type slot struct {
	wake *os.File // an eventfd: written to from other goroutines, ends a poll
	fd   int
	buf  [32 << 10]byte
}

// takeSlot returns nil when no descriptor can be had.
func (r *Runner) takeSlot() *slot {
	r.mu.Lock()
	if n := len(r.slots); n > 0 {
		s := r.slots[n-1]
		r.slots = r.slots[:n-1]
		r.mu.Unlock()
		s.quiet() // a wake that came as its last user had ended
		return s
	}
	r.mu.Unlock()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil
	}
	// An os.File, so that a late wake after Close fails instead of hitting
	// whatever has got the number since.
	return &slot{wake: os.NewFile(uintptr(fd), "wake"), fd: fd}
}

func (r *Runner) giveSlot(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slots = append(r.slots, s)
}

// rouse makes the poll of the attempt that uses s return.
func (s *slot) rouse() {
	_, _ = s.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
}

// quiet takes back every rouse.
func (s *slot) quiet() {
	var n [8]byte
	_, _ = unix.Read(s.fd, n[:])
}

func (s *slot) close() { s.wake.Close() }
