package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	sqlitedriver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"batchq/store"
)

// code returns the primary result code of a driver error, or 0.
func code(err error) int {
	var e *sqlitedriver.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// busy says whether err means that somebody else holds the lock.
func busy(err error) bool {
	c := code(err)
	return c == lib.SQLITE_BUSY || c == lib.SQLITE_LOCKED
}

// noRoom says whether err means that the system had no room for a write: on
// the device, or within a limit.
func noRoom(err error) bool {
	var e *sqlitedriver.Error
	return errors.As(err, &e) && (code(err) == lib.SQLITE_FULL || e.Code() == lib.SQLITE_IOERR_WRITE)
}

// outward turns a driver error into one of the store's own, with the path, so
// that no SQLite word leaves this package. nil stays nil; errors that are
// already the store's stay as they are.
func (db *DB) outward(doing string, err error) error {
	if err == nil {
		return nil
	}
	var fe *store.FileError
	if errors.As(err, &fe) {
		return err
	}
	file := func(kind error, hint string) error {
		return &store.FileError{Path: db.path, Err: kind, Detail: doing, Hint: hint}
	}
	switch c := code(err); c {
	case 0:
		return fmt.Errorf("%s: %w", doing, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return file(store.ErrBusy, "find it with: fuser "+db.path)
	case lib.SQLITE_NOTADB:
		return &store.FileError{Path: db.path, Err: store.ErrForeign, Hint: "name another file with --db; this one was left as it is"}
	case lib.SQLITE_CORRUPT:
		return file(store.ErrDamaged, "restore a backup, and remove the -wal and -shm beside the old file first")
	case lib.SQLITE_FULL:
		return file(store.ErrFull, "make room on the device; what was recorded is safe")
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_CANTOPEN:
		return file(store.ErrReadOnly, "check the owner and mode of the file and its directory")
	case lib.SQLITE_IOERR:
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EFBIG) {
			return file(store.ErrFull, "make room on the device; what was recorded is safe")
		}
		// A write that the system refuses (file size limit, quota) is reported
		// by the engine as an I/O error without its cause.
		return &store.FileError{Path: db.path, Err: store.ErrFull, Detail: doing + ": reading or writing the file failed",
			Hint: "check the device, its free space and ulimit -f"}
	default:
		return &store.FileError{Path: db.path, Err: store.ErrDamaged, Detail: fmt.Sprintf("%s: %v", doing, err),
			Hint: "run: batchq doctor"}
	}
}
