package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	lib "modernc.org/sqlite/lib"

	"batchq/jobs/fault"
	"batchq/store"
)

// applicationID marks a file as ours: "bhq1" in the header's application id.
const applicationID = 0x62687131

type inode struct{ dev, ino uint64 }

func (i inode) String() string { return fmt.Sprintf("%d:%d", i.dev, i.ino) }

func inodeOf(path string) (inode, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return inode{}, err
	}
	return inode{uint64(st.Dev), st.Ino}, nil
}

// File systems on which two hosts may have the file open, and on which locks
// are not to be trusted. Source: linux/magic.h.
var networkFS = map[int64]string{
	0x6969: "NFS", 0x517b: "SMB", 0xff534d42: "CIFS", 0xfe534d42: "SMB2", 0x01021997: "9p",
	0x73757245: "Coda", 0x5346414f: "AFS", 0x6b414653: "AFS", 0x00c36400: "Ceph", 0x19830326: "BeeGFS",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x7461636f: "OCFS2", 0x01161970: "GFS2",
}

func (db *DB) refuseNetwork() error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(db.path), &st); err != nil {
		return nil // what is wrong with the directory is said by who opens the file
	}
	if name, ok := networkFS[int64(uint32(st.Type))]; ok {
		return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it lies on a network file system, " + name,
			Hint: "keep the database on a local disk: locks are not reliable there"}
	}
	return nil
}

// refuseSecondName keeps a file from being written that has another name than
// its path: the log lies beside the name, so that each of two names would have
// one, and what is written through one would be unknown to the other, or lost.
func (db *DB) refuseSecondName(info os.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: fmt.Sprintf("it has %d names (hard links), and each would get a log of its own", st.Nlink),
			Hint: fmt.Sprintf("remove the others (find DIR -xdev -inum %d); batchq backup makes a copy", st.Ino)}
	}
	mounted, err := isMountPoint(db.path)
	if err != nil {
		return fmt.Errorf("%s: %w", db.path, err)
	}
	if mounted {
		return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: "it is mounted by itself, so that its log would lie beside this name and not beside its other one",
			Hint: "mount the directory that it lies in"}
	}
	return nil
}

// isMountPoint says whether something is mounted at path itself. Where there
// is no /proc, nothing is known to be.
func isMountPoint(path string) (bool, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && mountEscapes.Replace(fields[4]) == path {
			return true, nil
		}
	}
	return false, nil
}

// mountEscapes undoes what the kernel does to a path in that table: proc(5).
var mountEscapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// create makes a complete database beside the path and moves it there in one
// step, so that no other process ever sees half of one. A lock on the
// directory lets one of many creators do it.
func (db *DB) create(ctx context.Context) (err error) {
	dir := filepath.Dir(db.path)
	d, err := os.Open(dir)
	if err != nil {
		return &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: pathReason(err), Hint: "check the owner and mode of " + dir}
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("%s: locking the directory: %w", dir, err)
	}
	if info, err := os.Stat(db.path); err == nil && info.Size() > 0 {
		return nil // another process was first
	}
	draft := filepath.Join(dir, "."+filepath.Base(db.path)+".new")
	// A draft that lies there was left by a creator that was killed: we hold the lock.
	removeDraft := func() {
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			_ = os.Remove(draft + suffix) // not there is what is wanted
		}
	}
	removeDraft()
	defer removeDraft()
	// 0600 from the first moment, whatever the umask; the engine gives its
	// side files the same mode.
	f, err := os.OpenFile(draft, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return db.cantCreate(err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return db.cantCreate(err)
	}
	fault.Here("create", "begun")
	if err := db.draft(ctx, draft); err != nil {
		return err
	}
	fault.Here("create", "drafted")
	if err := adoptOwner(draft, dir); err != nil {
		return err
	}
	// A log that lies beside no database, or beside an empty one, is that of
	// another file which was moved or removed: it would be played into ours.
	for _, suffix := range []string{"-wal", "-shm", "-journal"} {
		if err := os.Remove(db.path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return db.cantCreate(err)
		}
	}
	fault.Here("create", "cleared")
	if err := os.Rename(draft, db.path); err != nil {
		return db.cantCreate(err)
	}
	fault.Here("create", "renamed")
	if err := d.Sync(); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// alignSideFiles gives the log and its index the mode of the database. They
// keep the one it had when they were made: after a look at a file that was
// read-only then, they would keep everybody out for good.
func alignSideFiles(path string) {
	info, err := os.Stat(path)
	if err != nil {
		return // who opens the file says what is wrong with it
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		side, err := os.Stat(path + suffix)
		if err == nil && side.Mode().Perm() != info.Mode().Perm() {
			_ = os.Chmod(path+suffix, info.Mode().Perm()) // not ours to change: then not ours to open
		}
	}
}

// foldAfter says how long the log may become before a commit folds it in: what
// the engine takes by itself (4 MB), but no more than a quarter of what the
// device has left. A log that has taken all the room can't be folded in any
// more when the file has to grow for that, and then nothing goes on.
func foldAfter(path string) string {
	const usual, page = 1000, 4096
	pages := int64(usual)
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err == nil {
		room := int64(st.Bavail)*st.Bsize + sizeOf(path+"-wal") // which is used again
		pages = max(min(room/4/page, usual), 1)
	}
	return fmt.Sprintf("wal_autocheckpoint(%d)", pages)
}

func (db *DB) cantCreate(err error) error {
	kind := store.ErrReadOnly
	hint := "check the owner and mode of its directory"
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		kind, hint = store.ErrFull, "make room on the device"
	}
	return &store.FileError{Path: db.path, Err: kind, Detail: pathReason(err), Hint: hint}
}

// draft fills an empty file with the newest schema.
func (db *DB) draft(ctx context.Context, path string) (err error) {
	pool, err := sql.Open("sqlite", dsn(path, "rw", "synchronous(FULL)"))
	if err != nil {
		return db.outward("creating", err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return db.outward("creating", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, m := range migrations() {
		if err := db.apply(ctx, conn, m); err != nil {
			return db.outward("creating", err)
		}
	}
	for _, q := range []string{
		fmt.Sprintf("PRAGMA application_id = %d", applicationID),
		"INSERT INTO book (one, identity) VALUES (1, '" + strings.ToLower(rand.Text()) + "')",
		// Last, so that the draft is one file when it is moved: closing folds the log in.
		"PRAGMA journal_mode = WAL",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			return db.outward("creating", err)
		}
	}
	return nil
}

// adoptOwner gives a file that root made in somebody else's directory to that
// somebody, who could not open it otherwise.
func adoptOwner(path, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	// A directory that anyone may write to (as /tmp) says nothing about owners.
	if st.Uid == 0 || st.Mode&0o002 != 0 {
		return nil
	}
	if err := os.Chown(path, int(st.Uid), int(st.Gid)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// identify says what the file is, so that one which is not ours stays
// untouched. It returns the schema version.
//
// The first look goes through a connection that takes no lock and leaves the
// log and its index alone: they may be another program's. That shows the
// header as it was last folded in, which bears our mark from the first moment.
// A torn picture beside a log (another program folds it in right now, or was
// killed when it did) is left to the second look, which reads what is current.
func (db *DB) identify(ctx context.Context) (version int, err error) {
	app, version, err := db.header(ctx, modeLook)
	logged := sizeOf(db.path+"-wal") > 0
	if torn(err) && !logged {
		app, version, err = db.header(ctx, modeLook) // it may have been folded in meanwhile
	}
	if !torn(err) || !logged {
		if err := db.judge(app, version, err); err != nil {
			return 0, err
		}
	}
	if err := syscall.Access(db.path, accessWrite); err != nil {
		// The engine would open it all the same, and leave files beside it.
		return 0, &store.FileError{Path: db.path, Err: store.ErrReadOnly, Detail: err.Error(), Hint: "check its owner and mode"}
	}
	if app, version, err = db.header(ctx, "ro"); err == nil {
		err = db.judge(app, version, nil)
	}
	return version, db.outward("opening", err)
}

// accessWrite is access(2)'s W_OK.
const accessWrite = 2

// torn says whether a file did not hang together when it was read.
func torn(err error) bool { return code(err) == lib.SQLITE_CORRUPT || code(err) == lib.SQLITE_IOERR }

// header reads the numbers that mark a file.
func (db *DB) header(ctx context.Context, mode string) (app, version int, err error) {
	pool, err := sql.Open("sqlite", dsn(db.path, mode, "busy_timeout(50)"))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	err = db.patiently(ctx, func() error {
		return pool.QueryRowContext(ctx, "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)").Scan(&app, &version)
	})
	return app, version, err
}

// judge turns what a header says into the error that belongs to it.
func (db *DB) judge(app, version int, err error) error {
	switch {
	case err != nil:
		return db.outward("opening", err)
	case app != applicationID:
		return &store.FileError{Path: db.path, Err: store.ErrForeign, Hint: "name another file with --db; this one was left as it is"}
	case version > schemaVersion:
		return &store.FileError{Path: db.path, Err: store.ErrNewer,
			Detail: fmt.Sprintf("its schema is %d, this batchq knows %d", version, schemaVersion), Hint: "use the newer batchq; the file was left as it is"}
	}
	return nil
}

// patiently repeats f while somebody else holds the lock, at most db.wait.
func (db *DB) patiently(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(db.wait)
	pause := time.Millisecond
	for {
		err := f()
		if err == nil || !busy(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
		pause = min(pause*2, 10*time.Millisecond)
	}
}
