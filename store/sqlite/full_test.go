package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"batchq/store"
)

// A device without room: said as such, nothing lost, and the same call goes
// through when there is room again.
func TestFull_FileSizeLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batchq.db")
	noError(t, createAndAdd(path, "first"))
	runHelper(t, "full", path)
	sound(t, openAt(t, path))
}

// writeUntilFull runs under a file size limit, as a process of its own.
func writeUntilFull(path string) (err error) {
	signal.Ignore(syscall.SIGXFSZ) // or the system ends the process
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	db, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	room := limit
	limit.Cur = 512 << 10
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	return fillUp(db, func() error { return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &room) })
}

// fillUp adds items until there is no room, makes room, and compares.
func fillUp(db *DB, makeRoom func() error) error {
	ctx := context.Background()
	e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip}
	var err error
	added := int64(1)
	for i := 0; err == nil && i < 10_000; i++ {
		e.Items = nil
		for j := range 20 {
			e.Items = append(e.Items, store.NewItem{Key: fmt.Appendf(nil, "%d-%d", i, j), Payload: randomBytes(2000)})
		}
		if _, err = db.Enqueue(ctx, e); err == nil {
			added += int64(len(e.Items))
		}
	}
	var fe *store.FileError
	if !errors.Is(err, store.ErrFull) || !errors.As(err, &fe) || fe.Hint == "" {
		return fmt.Errorf("with no room left: got %v, want %w with a hint", err, store.ErrFull)
	}
	// Reading goes on, and nothing of the failed call is there.
	if c, err := db.Counts(ctx, nil, nil); err != nil || c.Enqueued != added {
		return fmt.Errorf("%+v, %w: want %d items", c, err, added)
	}
	if h, err := db.Check(ctx); err != nil || !h.Sound() {
		return fmt.Errorf("the books: %+v, %w", h, err)
	}
	if _, err := db.Enqueue(ctx, e); !errors.Is(err, store.ErrFull) {
		return fmt.Errorf("once more: %w", err)
	}
	if err := makeRoom(); err != nil {
		return err
	}
	out, err := db.Enqueue(ctx, e)
	if err != nil {
		return fmt.Errorf("when there is room again: %w", err)
	}
	for _, o := range out.Outcomes {
		if o != store.Added {
			return fmt.Errorf("the failed call left something: outcome %d", o)
		}
	}
	return nil
}

// The same with a device that is really full, where one can be mounted.
func TestFull_Device(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("batchq-test", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	db, err := Open(context.Background(), filepath.Join(dir, "batchq.db"), Options{Create: true})
	noError(t, err)
	add(t, db, "first")
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, make([]byte, 512<<10))
	noError(t, fillUp(db, func() error { return os.Remove(ballast) }))
	sound(t, db)
	noError(t, db.Close())
}

// A new database does not fit: nothing of it stays.
func TestFull_Create(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("batchq-test", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	_, err := Open(context.Background(), filepath.Join(dir, "batchq.db"), Options{Create: true})
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want %v", err, store.ErrFull)
	}
	if names := namesIn(t, dir); len(names) > 0 {
		t.Errorf("in the directory lie %q", names)
	}
}
