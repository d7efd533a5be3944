package handler

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"batchq/jobs/fault"
)

// tempDir is a run's private directory: result files, output that is kept for
// printing, payloads where there is no memfd.
type tempDir struct {
	mu   sync.Mutex
	path string
	dir  *os.File
	lost []*os.File // directories that somebody removed under a long run
}

// tempDirPath is absolute, because a command works in a directory of its own.
func tempDirPath(token string) string {
	path := filepath.Join(os.TempDir(), "batchq-"+token)
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func newTempDir(token string) (*tempDir, error) {
	t := &tempDir{}
	err := t.make(tempDirPath(token))
	if errors.Is(err, fs.ErrExist) {
		err = t.make("")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// make creates the directory at path, or at a name of its own choice for "".
func (t *tempDir) make(path string) error {
	var err error
	if path == "" {
		path, err = os.MkdirTemp("", "batchq-")
	} else {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		return err
	}
	fault.Here("results", "made")
	dir, err := os.Open(path)
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	// systemd-tmpfiles spares what is locked; a run with --follow lives longer
	// than what it takes for old.
	_ = unix.Flock(int(dir.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	t.path, t.dir = path, dir
	return nil
}

// current returns the directory's path and descriptor. One that a cleaner has
// removed is made anew, else every later command's result would be lost.
func (t *tempDir) current() (path string, fd int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var st unix.Stat_t
	if err := unix.Fstat(int(t.dir.Fd()), &st); err == nil && st.Nlink == 0 {
		old := t.dir
		err := t.make(t.path)
		if errors.Is(err, fs.ErrExist) {
			err = t.make("") // not ours: nobody else may say what a result is
		}
		if err != nil {
			return "", -1, err
		}
		t.lost = append(t.lost, old) // attempts may still hold its number
	}
	return t.path, int(t.dir.Fd()), nil
}

// file returns a new file without a name, open for reading and writing.
func (t *tempDir) file(name string) (*os.File, error) {
	path, _, err := t.current()
	if err != nil {
		return nil, err
	}
	path = filepath.Join(path, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (t *tempDir) remove() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, old := range t.lost {
		old.Close()
	}
	t.lost = nil
	return errors.Join(t.dir.Close(), os.RemoveAll(t.path))
}

// discard removes what a command has left under name, even a directory.
func (t *tempDir) discard(dir int, path, name string) {
	if err := unix.Unlinkat(dir, name, 0); errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		_ = os.RemoveAll(filepath.Join(path, name))
	}
}

// Clean removes the private directory of a dead run. Call it when nothing of
// that run is left.
func Clean(token string) error {
	if token == "" || filepath.Base(token) != token {
		return nil
	}
	path := tempDirPath(token)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() {
		return nil // a stranger's; the real one is gone
	}
	return os.RemoveAll(path)
}

// uniqueName returns a name that no other attempt of this Runner has had.
func (r *Runner) uniqueName(prefix string) string {
	return prefix + strconv.FormatUint(r.serial.Add(1), 10)
}
