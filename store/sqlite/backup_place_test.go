package sqlite

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"batchq/store"
)

// Of several backups to one file one wins, whole, and the others say why not.
func TestBackup_TwoAtOnce(t *testing.T) {
	db := openFresh(t)
	ballast(t, db)
	dir := t.TempDir()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		own := openAt(t, db.Path())
		all.Go(func() {
			_, err := own.Backup(context.Background(), dir+"/copy", nil)
			switch {
			case err == nil:
				won.Add(1)
			case !strings.Contains(err.Error(), "another backup to it is under way") && !strings.Contains(err.Error(), "it is there already"):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || filesIn(t, dir) != "copy" {
		t.Errorf("%d won; files: %s", won.Load(), filesIn(t, dir))
	}
	sound(t, openAt(t, dir+"/copy"))
}

// A draft at which somebody is at work is left alone; what cannot be a draft too.
func TestBackup_Draft(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	dir := t.TempDir()
	lock, err := (&DB{path: dir + "/copy"}).ownDraft(dir + "/.copy.new")
	noError(t, err)
	_, err = db.Backup(context.Background(), dir+"/copy", nil)
	if err == nil || !strings.Contains(err.Error(), "another backup to it is under way") || filesIn(t, dir) != ".copy.new" {
		t.Errorf("got %v; files: %s", err, filesIn(t, dir))
	}
	noError(t, lock.Close()) // as if it had been killed
	noError(t, os.Symlink("elsewhere", dir+"/.other.new"))
	_, err = db.Backup(context.Background(), dir+"/other", nil)
	if err == nil || !strings.Contains(err.Error(), "is in the way") {
		t.Errorf("got %v", err)
	}
	noError(t, os.Remove(dir+"/.other.new"))
	_, err = db.Backup(context.Background(), dir+"/copy", nil)
	noError(t, err)
	if got := filesIn(t, dir); got != "copy" {
		t.Errorf("files: %s", got)
	}
}

// What lies beside a database is no place for a copy: who works on that database
// would take it for its own.
func TestBackup_SideFiles(t *testing.T) {
	db := openFresh(t)
	dir := t.TempDir()
	for name, of := range map[string]string{
		"q.db-wal": "q.db", "q.db-shm": "q.db", "q.db-journal": "q.db", "q.db-run-abcdefghijklmnopqrstuvwxy2": "q.db", ".q.db.new": "q.db",
		"wal": "", "-wal": "", "q.db-run-3": "", "q-wal.db": "", "q.db.new": "", ".q.db": "", "q.db-walrus": "",
	} {
		want := ""
		if of != "" {
			want = dir + "/" + of
		}
		if got := SideFileOf(dir + "/" + name); got != want {
			t.Errorf("%s is taken for a file beside %q, want %q", name, got, want)
		}
		_, err := db.Backup(context.Background(), dir+"/"+name, nil)
		if (err == nil) != (of == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := db.Backup(context.Background(), dir+"/nothere/", nil)
	if fe, ok := errors.AsType[*store.FileError](err); !ok || fe.Detail != "it ends in a slash, and there is no such directory" {
		t.Errorf("a slash at the end: %v", err)
	}
}

// Where it can't go is said in words of its own.
func TestBackup_NoPlace(t *testing.T) {
	db := openFresh(t)
	for path, want := range map[string]string{
		db.Path():                      "it is the database itself",
		t.TempDir() + "/missing/copy":  "its directory does not exist",
		t.TempDir() + "/missing/copy/": "its directory does not exist",
	} {
		_, err := db.Backup(context.Background(), path, nil)
		fe, ok := errors.AsType[*store.FileError](err)
		if !ok || fe.Detail != want || fe.Hint == "" {
			t.Errorf("%s: %v", path, err)
		}
	}
}
