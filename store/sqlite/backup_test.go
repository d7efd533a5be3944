package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"batchq/store"
)

// filesIn lists a directory.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	noError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// ballast makes a database that is copied in several steps.
func ballast(t *testing.T, db *DB) {
	t.Helper()
	e := store.Enqueue{Job: "ballast", OnDuplicate: store.Skip}
	for i := range 20 {
		e.Items = append(e.Items, store.NewItem{Key: fmt.Append(nil, i), Payload: make([]byte, 1<<20)})
	}
	_, err := db.Enqueue(context.Background(), e)
	noError(t, err)
}

// A copy is one file, readable by its owner alone, whatever lay there under
// the name of the draft.
func TestBackup_OneFile(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	dir := t.TempDir()
	noError(t, os.WriteFile(dir+"/.copy.new", []byte("of one that was killed"), 0o644))
	c, err := db.Backup(context.Background(), dir+"/copy", nil)
	noError(t, err)
	if got := filesIn(t, dir); got != "copy" {
		t.Errorf("files: %s", got)
	}
	info, err := os.Stat(c.Path)
	noError(t, err)
	if info.Mode().Perm() != 0o600 || info.Size() != c.Bytes {
		t.Errorf("mode %v, %d bytes; it said %d", info.Mode(), info.Size(), c.Bytes)
	}
	sound(t, openAt(t, c.Path))
}

// A path without a directory is meant from here.
func TestBackup_RelativePath(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	t.Chdir(t.TempDir())
	c, err := db.Backup(context.Background(), "copy", nil)
	noError(t, err)
	here, err := os.Getwd()
	noError(t, err)
	if c.Path != filepath.Join(here, "copy") || filesIn(t, here) != "copy" {
		t.Errorf("it says %s; files: %s", c.Path, filesIn(t, here))
	}
}

// What is there stays as it is, also a link that leads nowhere, and what fails
// leaves nothing behind.
func TestBackup_Refuses(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	dir := t.TempDir()
	noError(t, os.WriteFile(dir+"/file", []byte("precious"), 0o600))
	noError(t, os.WriteFile(dir+"/empty", nil, 0o600))
	noError(t, os.Mkdir(dir+"/dir", 0o700))
	noError(t, os.Symlink("nowhere", dir+"/link"))
	before := filesIn(t, dir)
	for _, name := range []string{"file", "empty", "dir", "link", "missing/copy", "file/copy"} {
		_, err := db.Backup(context.Background(), dir+"/"+name, nil)
		fe, ok := errors.AsType[*store.FileError](err)
		if !ok || !errors.Is(err, store.ErrReadOnly) || fe.Path != dir+"/"+name || fe.Hint == "" {
			t.Errorf("%s: %v", name, err)
			continue
		}
		leaksNothing(t, err)
	}
	if text, err := os.ReadFile(dir + "/file"); err != nil || string(text) != "precious" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if got := filesIn(t, dir); got != before {
		t.Errorf("files: %s, want %s", got, before)
	}
}

// untilGrown is a context that is cancelled when a file has some size.
type untilGrown struct {
	context.Context
	path string
	size int64
}

func (c untilGrown) Err() error {
	if sizeOf(c.path) >= c.size {
		return context.Canceled
	}
	return nil
}

// It can be stopped half way, and leaves nothing.
func TestBackup_CancelledHalfWay(t *testing.T) {
	db := openFresh(t)
	ballast(t, db)
	dir := t.TempDir()
	ctx := untilGrown{context.Background(), dir + "/.copy.new", 1}
	c, err := db.Backup(ctx, dir+"/copy", nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", c, err)
	}
	if got := filesIn(t, dir); got != "" {
		t.Errorf("files: %s", got)
	}
	add(t, db, "a") // and nobody is kept waiting by it
	_, err = db.Backup(context.Background(), dir+"/copy", nil)
	noError(t, err)
}

// What is written between two steps of copying is not in it, and does not make
// it begin anew: the copy shows the moment at which it began.
func TestBackup_OneMoment(t *testing.T) {
	db := openFresh(t)
	ballast(t, db)
	other := openAt(t, db.Path())
	dir := t.TempDir()
	n := 0
	ctx := eachStep{context.Background(), func() {
		if sizeOf(dir+"/.copy.new") > 0 {
			add(t, other, fmt.Sprint("later ", n))
			n++
		}
	}}
	c, err := db.Backup(ctx, dir+"/copy", nil)
	noError(t, err)
	if n < 2 {
		t.Fatalf("it was copied in %d steps", n)
	}
	if c.Items != 20 {
		t.Errorf("%d items, want the 20 that were there when it began", c.Items)
	}
	sound(t, openAt(t, c.Path))
}

// eachStep is a context that does something whenever it is asked.
type eachStep struct {
	context.Context
	do func()
}

func (c eachStep) Err() error {
	c.do()
	return nil
}

// A copy that does not balance is no backup: it says so, and leaves none.
func TestBackup_NotSound(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a", "b")
	execute(t, raw(t, db.Path()), "UPDATE tally SET enqueued = enqueued + 1, ready = ready + 1")
	dir := t.TempDir()
	_, err := db.Backup(context.Background(), dir+"/copy", nil)
	fe, ok := errors.AsType[*store.FileError](err)
	if !ok || !errors.Is(err, store.ErrDamaged) || fe.Path != db.Path() || !strings.Contains(fe.Detail, "the books say 3 ready, there are 2") {
		t.Errorf("got %v", err)
	}
	if got := filesIn(t, dir); got != "" {
		t.Errorf("files: %s", got)
	}
}

// A run belongs to a file, not to a path: it stays known when the file is
// renamed, and is a stranger's when a copy takes the file's place.
func TestForeign_FileNotPath(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(context.Background(), dir+"/batchq.db", Options{Create: true})
	noError(t, err)
	add(t, db, "a")
	run := register(t, db, "of the original")
	start(t, db, run, claim(t, db, run, 1))
	_, err = db.Backup(context.Background(), dir+"/copy", nil)
	noError(t, err)
	noError(t, db.Close())

	noError(t, os.Rename(dir+"/batchq.db", dir+"/renamed"))
	noError(t, os.Rename(dir+"/copy", dir+"/batchq.db"))
	noError(t, os.Symlink("renamed", dir+"/link"))
	for name, want := range map[string]bool{"renamed": false, "link": false, "batchq.db": true} {
		db := openAt(t, dir+"/"+name)
		others, err := db.OtherRuns(context.Background(), 0)
		noError(t, err)
		if len(others) != 1 || others[0].Token != "of the original" || others[0].Foreign != want {
			t.Errorf("%s: %+v, want foreign %v", name, others, want)
		}
	}
	for name, want := range map[string]bool{"renamed": false, "batchq.db": true} {
		db := openAt(t, dir+"/"+name)
		rescuer := register(t, db, "rescuer")
		_, err := db.TakeOver(context.Background(), run, rescuer, store.DeathLock, time.Minute)
		noError(t, err)
		orphans, err := db.Orphans(context.Background(), rescuer)
		noError(t, err)
		if len(orphans) != 1 || orphans[0].Owner.Token != "of the original" || orphans[0].Owner.Foreign != want {
			t.Errorf("%s: orphans %+v, want foreign %v", name, orphans, want)
		}
		others, err := db.OtherRuns(context.Background(), 0)
		noError(t, err)
		if len(others) != 1 || others[0].ID != rescuer || others[0].Foreign {
			t.Errorf("%s: %+v, want the rescuer, at home", name, others)
		}
	}
}
