package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"batchq/jobs/fault"
	"batchq/jobs/handler"
	"batchq/store"
)

// lockPath is the file whose lock a run holds for life, beside the database.
func lockPath(database, token string) string { return database + "-run-" + token }

// acquire makes a run's lock file and locks it. The kernel gives the lock
// back at any death, so that it says what no timer can: whether a run lives.
func acquire(database, token string) (*os.File, error) {
	path := lockPath(database, token)
	// 0600 and close-on-exec: a command must not keep our lock alive.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	fail := func(err error) (*os.File, error) {
		return nil, errors.Join(fmt.Errorf("lock file %s: %w", path, err), f.Close(), os.Remove(path))
	}
	fault.Here("lock", "made")
	if err := f.Chmod(0o600); err != nil {
		return fail(err)
	}
	// Another run clears away lock files that nobody holds; between the making
	// and the locking this one looked like that.
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(errLockGone, f.Close())
	}
	if err != nil {
		return fail(err)
	}
	mine, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	linked, err := os.Stat(path)
	if err != nil || !os.SameFile(mine, linked) {
		return nil, errors.Join(errLockGone, f.Close())
	}
	fault.Here("lock", "held")
	if err := adoptOwner(f, database); err != nil {
		return fail(err)
	}
	return f, nil
}

// errLockGone: the file was cleared away before it was locked; try another name.
var errLockGone = errors.New("lock file was removed")

// adoptOwner gives root's lock file to the owner of the database, whose later
// runs must be able to look at it.
func adoptOwner(f *os.File, database string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(database)
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}

// sign is what a lock file says about its run.
type sign int8

const (
	lives   sign = iota // somebody holds the lock
	died                // the file is there and nobody holds it
	unknown             // no file, or it can't be read: only the lease counts
)

// probe asks a lock file whether its run lives. It never creates the file:
// that would make a run look dead whose file was removed.
func probe(path string) sign {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unknown
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	switch {
	case err == nil:
		return died
	case errors.Is(err, syscall.EWOULDBLOCK):
		return lives
	}
	return unknown
}

// ask says whether a run of this file lives. Of a lock that is held its process
// is asked as well: a child that was being made when the run was killed shares
// the lock until it has executed its program.
func ask(database string, me, o store.RunInfo) sign {
	s := probe(lockPath(database, o.Token))
	if s == lives && sameProcesses(me, o) && handler.Gone(o.PID, o.PIDStart) {
		return died
	}
	return s
}

// isToken says whether s has the form of a run's token: crypto/rand.Text, in
// lower case.
func isToken(s string) bool {
	return len(s) == 26 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// lockFiles lists what lies beside a database and has the name of a run's lock
// file, by token.
func lockFiles(database string) (paths map[string]string, err error) {
	dir, prefix := filepath.Dir(database), lockPath(database, "")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	paths = map[string]string{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		// A person may call a file of his own nearly the same.
		if token, ours := strings.CutPrefix(path, prefix); ours && isToken(token) && e.Type().IsRegular() {
			paths[token] = path
		}
	}
	return paths, nil
}

// freeLocks opens and locks the lock files that nobody holds, but for those
// whose token is known. The caller closes them.
func freeLocks(database string, known map[string]bool) (free map[string]*os.File, err error) {
	files, err := lockFiles(database)
	if err != nil {
		return nil, err
	}
	free = map[string]*os.File{}
	for token, path := range files {
		if known[token] {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue // gone meanwhile, or not ours to touch
		}
		if info, err := f.Stat(); err != nil || info.Size() > 0 {
			_ = f.Close() // a lock file holds nothing
			continue
		}
		// Exclusive: nobody may be about to lock it. Who made it and has not
		// locked it yet takes another name.
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			free[token] = f
		} else if err := f.Close(); err != nil {
			return free, err
		}
	}
	return free, nil
}

// Life is what can be told about a run from outside.
type Life int8

const (
	Unknown Life = iota // neither its lock nor its process can be asked
	Alive
	Dead
)

// Look says whether a run that has not written its end lives. It changes
// nothing: its look at the lock is shared and over at once.
func Look(database string, r store.RunInfo) Life {
	if r.Foreign {
		return Dead // whatever it does is for another file
	}
	me, err := whoAmI(nil)
	if err != nil {
		return Unknown
	}
	switch ask(database, me, r) {
	case lives:
		return Alive
	case died:
		return Dead
	}
	switch {
	case me.BootID != r.BootID:
		return Dead // nothing survives a boot
	case me.PIDNS != r.PIDNS:
		return Unknown
	case runs(r):
		return Alive
	}
	return Dead
}
