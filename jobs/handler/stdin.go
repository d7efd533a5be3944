package handler

import (
	"errors"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

// stdin returns what the command reads: the payload, or nothing. A payload
// stands in a file of memory, not in a pipe: nobody has to feed it, so a
// command that never reads it, or leaves early, blocks and breaks nothing.
// The caller closes it unless it is r.null.
func (r *Runner) stdin(a *Attempt) (*os.File, error) {
	payload := a.Item.Payload
	if !readsPayload(a) {
		return r.null, nil
	}
	f, err := memfd()
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		f, err = r.temp.file(r.uniqueName("stdin-"))
	}
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(payload); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readsPayload says whether the command has something to read.
func readsPayload(a *Attempt) bool {
	return len(a.Item.Payload) > 0 && a.Spec.Handler.Stdin != jobs.StdinNone
}

// withoutSeal: this kernel (before 6.3) doesn't know MFD_NOEXEC_SEAL. Where it
// is known it has to be given: vm.memfd_noexec=2 refuses a memfd without it.
var withoutSeal atomic.Bool

func memfd() (*os.File, error) {
	const name = "batchq-payload"
	if !withoutSeal.Load() {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
		if err == nil {
			return os.NewFile(uintptr(fd), name), nil
		}
		if !errors.Is(err, unix.EINVAL) {
			return nil, err
		}
		withoutSeal.Store(true)
	}
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
