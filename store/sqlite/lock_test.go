package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"batchq/store"
)

// Another program holds the lock for a while: the user does not see it.
func TestLock_Waited(t *testing.T) {
	db := openFresh(t)
	other := raw(t, db.Path())
	execute(t, other, "BEGIN IMMEDIATE")
	result := make(chan error)
	go func() {
		_, err := db.Enqueue(context.Background(), store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}})
		result <- err
	}()
	select {
	case err := <-result:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	execute(t, other, "COMMIT")
	noError(t, <-result)
	sound(t, db)
}

// After its wait a command says who is in the way and what can be done.
func TestLock_GivenUp(t *testing.T) {
	path := openFresh(t).Path()
	db := openWith(t, path, Options{Wait: 20 * time.Millisecond})
	other := raw(t, path)
	execute(t, other, "BEGIN IMMEDIATE")
	_, err := db.Enqueue(context.Background(), store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}})
	var fe *store.FileError
	if !errors.Is(err, store.ErrBusy) || !errors.As(err, &fe) || !strings.Contains(fe.Hint, path) {
		t.Errorf("got %v, want %v with a hint", err, store.ErrBusy)
	}
	leaksNothing(t, err)
	// Who only reads is not in anybody's way.
	if _, err := db.Stats(context.Background()); err != nil {
		t.Error(err)
	}
	execute(t, other, "ROLLBACK")
	add(t, db, "a")
}

// A wait for a lock ends with the command.
func TestLock_Cancelled(t *testing.T) {
	db := openFresh(t)
	execute(t, raw(t, db.Path()), "BEGIN IMMEDIATE")
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := db.Enqueue(ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// Another program has the whole file for itself, as the last one does that
// folds the log back: opening, reading and writing wait for it, too.
func TestLock_Exclusive(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	path := db.Path()
	noError(t, db.Close())
	pool, err := sql.Open("sqlite", "file:"+path)
	noError(t, err)
	pool.SetMaxOpenConns(1)
	for _, s := range []string{"PRAGMA locking_mode = EXCLUSIVE", "UPDATE book SET last_item = last_item"} {
		_, err := pool.Exec(s)
		noError(t, err)
	}
	_, err = Open(context.Background(), path, Options{Wait: 20 * time.Millisecond})
	if !errors.Is(err, store.ErrBusy) {
		t.Errorf("opening: got %v, want %v", err, store.ErrBusy)
	}
	time.AfterFunc(150*time.Millisecond, func() {
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	db, err = Open(context.Background(), path, Options{})
	noError(t, err)
	t.Cleanup(func() { noError(t, db.Close()) })
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c.Enqueued != 1 {
		t.Errorf("counts %+v, %v", c, err)
	}
}

// A process that opens and closes the file, also from inside the process that
// has it open, takes nobody's lock and removes nobody's log (honker#80,
// mempalace#2471).
func TestLock_SurvivesOtherOpens(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	wal, err := inodeOf(db.Path() + "-wal")
	noError(t, err)
	noError(t, openAndClose(db.Path()))
	_, err = Open(context.Background(), filepath.Join(filepath.Dir(db.Path()), "not.there"), Options{})
	if err == nil {
		t.Error("opened what is not there")
	}
	runHelper(t, "open", db.Path())
	runHelper(t, "create", db.Path(), "b")
	add(t, db, "c")
	runHelper(t, "open", db.Path())
	if now, err := inodeOf(db.Path() + "-wal"); err != nil || now != wal {
		t.Errorf("the log in use was removed: %v, %v", now, err)
	}
	if c, err := openAt(t, db.Path()).Counts(context.Background(), nil, nil); err != nil || c.Enqueued != 3 {
		t.Errorf("counts by another handle: %+v, %v", c, err)
	}
}

// Closing leaves one file, no goroutine, and a DB that says that it is closed.
func TestClose(t *testing.T) {
	before := goleak.IgnoreCurrent()
	dir := t.TempDir()
	db, err := Open(context.Background(), filepath.Join(dir, "batchq.db"), Options{Create: true})
	noError(t, err)
	add(t, db, "a")
	_, err = db.Stats(context.Background())
	noError(t, err)
	noError(t, db.Close())
	if names := namesIn(t, dir); !slices.Equal(names, []string{"batchq.db"}) {
		t.Errorf("in the directory lie %q, want the database alone", names)
	}
	goleak.VerifyNone(t, before)
	for name, f := range map[string]func() error{
		"Enqueue": func() error { _, err := db.Enqueue(context.Background(), store.Enqueue{Job: "pos"}); return err },
		"Stats":   func() error { _, err := db.Stats(context.Background()); return err },
		"Counts":  func() error { _, err := db.Counts(context.Background(), nil, nil); return err },
		"Changed": func() error { _, err := db.Changed(context.Background()); return err },
		"Check":   func() error { _, err := db.Check(context.Background()); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	noError(t, db.Close())
	if names := namesIn(t, dir); !slices.Equal(names, []string{"batchq.db"}) {
		t.Errorf("in the directory lie %q, want the database alone", names)
	}
}

// The path leads to another file, or nowhere: who goes on would write into a
// file that nobody sees.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "batchq.db")
	db := openWith(t, path, Options{Create: true})
	want := func(replaced bool, when string) {
		t.Helper()
		if got := db.Replaced(); got != replaced {
			t.Errorf("%s: replaced %v, want %v", when, got, replaced)
		}
	}
	want(false, "at the beginning")
	add(t, db, "a")
	want(false, "after a write")
	noError(t, os.Link(path, path+".link"))
	want(false, "with a second name")
	noError(t, os.Rename(path, path+".moved"))
	want(true, "moved away")
	write(t, path, []byte("another file"))
	want(true, "another file in its place")
	noError(t, os.Remove(path))
	want(true, "removed")
	noError(t, os.Rename(path+".moved", path))
	want(false, "put back")
}
