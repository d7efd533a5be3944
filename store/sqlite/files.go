package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"batchq/store"
)

// Files says how the database lies on its device.
func (db *DB) Files() (f store.Files, err error) {
	for _, path := range db.companions() {
		faults, err := db.FileFaults(path)
		if err != nil {
			return f, err
		}
		f.Faults = append(f.Faults, faults...)
	}
	f.Notes = append(f.Notes, db.device()...)
	if large := sizeOf(db.path + "-wal"); large > largeLog || large > keptLog && large > sizeOf(db.path) {
		f.Notes = append(f.Notes, fmt.Sprintf("the log beside the database has %d MB: it can't be folded in while somebody reads without an end", large>>20))
		f.Others = openBy(db.path)
	}
	return f, nil
}

const (
	keptLog  = 16 << 20 // what a log may keep: see dsn
	largeLog = 64 << 20 // more is a reader that does not come to its end
)

// companions are the files that one database is made of.
func (db *DB) companions() []string { return []string{db.path, db.path + "-wal", db.path + "-shm"} }

// sideFile matches the names of what lies beside a database: its log, the index
// of that, the locks of its runs, and the draft of a database or of a copy.
// Whoever works on that database takes them for its own, and removes them.
var sideFile = regexp.MustCompile(`^(?:(.+)(?:-wal|-shm|-journal|-run-[a-z2-7]{26})|\.(.+)\.new)$`)

// SideFileOf is the database beside which a file of this name lies, "" when the
// name is that of no such file.
func SideFileOf(path string) string {
	dir, name := filepath.Split(path)
	m := sideFile.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return dir + m[1] + m[2]
}

// fileMode is that of everything we make: keys and payloads are nobody else's business.
const fileMode = 0o600

func ownerOf(info os.FileInfo) uint32 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return uint32(os.Geteuid())
}

// wrongs says what of a file's mode and owner is not as it should be.
func wrongs(info os.FileInfo, owner uint32) (all []string) {
	if mode := info.Mode().Perm(); mode&^fileMode != 0 {
		all = append(all, fmt.Sprintf("has mode %04o: others than its owner may get at it", mode))
	}
	if uid := ownerOf(info); uid != owner {
		all = append(all, fmt.Sprintf("belongs to user %d, and the database to user %d", uid, owner))
	}
	return all
}

// FileFaults says what is wrong with the mode and owner of a file that lies
// beside the database and belongs to it.
func (db *DB) FileFaults(path string) ([]string, error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return nil, db.cantCreate(err)
	}
	beside, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // gone meanwhile
	}
	if err != nil {
		return nil, db.cantCreate(err)
	}
	var all []string
	for _, wrong := range wrongs(beside, ownerOf(info)) {
		all = append(all, path+" "+wrong)
	}
	return all, nil
}

// MendFile gives such a file its mode and owner, and says whether that was
// needed and succeeded. It goes by the name: a descriptor of the database that
// is closed would take the engine's locks with it.
func (db *DB) MendFile(path string) bool {
	faults, err := db.FileFaults(path)
	info, statErr := os.Lstat(path)
	if err != nil || statErr != nil || len(faults) == 0 || !info.Mode().IsRegular() {
		return false
	}
	if own, err := os.Stat(db.path); err == nil && ownerOf(own) != ownerOf(info) {
		_ = os.Lchown(path, int(ownerOf(own)), -1) // only root may: the look that follows says what is left
	}
	_ = os.Chmod(path, info.Mode().Perm()&fileMode)
	faults, err = db.FileFaults(path)
	return err == nil && len(faults) == 0
}

// Where a device begins to be full.
const (
	leastFree  = 100 << 20
	enoughFree = 5 << 30 // 5 % of a large device is no need
)

// device says what is to be known about where the file lies.
func (db *DB) device() (notes []string) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(db.path), &st); err != nil {
		return []string{"the device can't be asked: " + err.Error()}
	}
	if name, ok := networkFS[int64(uint32(st.Type))]; ok {
		notes = append(notes, "it lies on a network file system, "+name+": locks are not reliable there")
	}
	free, size := int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize
	if size > 0 && (free < leastFree || free < size/20 && free < enoughFree) {
		notes = append(notes, fmt.Sprintf("the device is nearly full: %d MB of %d MB are free", free>>20, size>>20))
	}
	return notes
}

// openBy lists the processes but this one that have a file open, as far as
// they can be looked into. Nothing is opened for it.
func openBy(path string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name(), "fd")
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue // another user's, or gone
		}
		for _, fd := range fds {
			if target, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(target, path) && (target == path || target == path+"-wal") {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids
}
