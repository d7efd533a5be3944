package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"batchq/store"
)

// A device with less room than the log takes before the engine folds it in:
// it is folded in earlier, and nobody is told anything. It stopped for good
// once the log had filled the device.
func TestFull_DeviceSmallerThanTheLog(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("batchq-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	path := filepath.Join(dir, "batchq.db")
	const n = 300
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprint("key ", i)
	}
	db, err := Open(context.Background(), path, Options{Create: true})
	noError(t, err)
	add(t, db, items...)
	noError(t, db.Close())
	db = openAt(t, path)
	idle := openAt(t, path) // so that closing does not fold the log in either
	run := register(t, db, "run")
	largest := int64(0)
	for range n {
		s := start(t, db, run, claim(t, db, run, 1))
		_, err := idle.Renew(context.Background(), run, time.Minute)
		noError(t, err)
		_, err = db.Advance(context.Background(), store.Advance{Run: run, Settle: []store.Settlement{settlement(s[0], done)}})
		noError(t, err)
		largest = max(largest, sizeOf(path+"-wal"))
	}
	t.Logf("database %d bytes, log at most %d", sizeOf(path), largest)
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c != (store.Counts{Enqueued: n, Done: n}) {
		t.Errorf("counts %+v, %v", c, err)
	}
	sound(t, db)
	noError(t, db.Close())
}

// The log can't be begun anew while somebody reads from it: then it is said
// that there is no room, and when the reader has gone all goes on.
func TestFull_BehindAReader(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("batchq-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no small file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { noError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	path := filepath.Join(dir, "batchq.db")
	db, err := Open(context.Background(), path, Options{Create: true})
	noError(t, err)
	add(t, db, "first")
	reader := raw(t, path)
	execute(t, reader, "BEGIN", "SELECT count(*) FROM item")
	run := register(t, db, "run")
	added := int64(1)
	for err = nil; err == nil && added < 10_000; added++ {
		_, err = db.Enqueue(context.Background(), store.Enqueue{Job: "pos", Items: []store.NewItem{{Key: fmt.Append(nil, added)}}})
	}
	added--
	leaksNothing(t, err)
	if _, err := db.Renew(context.Background(), run, time.Minute); err == nil {
		t.Log("a small write has found room")
	}
	sound(t, db)
	execute(t, reader, "ROLLBACK")
	add(t, db, "one more")
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c.Enqueued != added+1 {
		t.Errorf("counts %+v, %v; want %d", c, err, added+1)
	}
	sound(t, db)
	noError(t, db.Close())
}
