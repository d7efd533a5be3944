package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"batchq/store"
)

// Whatever is no database of ours is refused, named, and left as it is.
func TestOpen_Refuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		lay   func(t *testing.T, path string)
		want  error
		words string // what the message must say
	}{
		{"Directory", func(t *testing.T, path string) { noError(t, os.Mkdir(path, 0o700)) }, store.ErrForeign, "directory"},
		{"Text", func(t *testing.T, path string) { write(t, path, []byte("store-1\nstore-2\n")) }, store.ErrForeign, "not a batchq database"},
		{"RandomBytes", func(t *testing.T, path string) { write(t, path, randomBytes(64<<10)) }, store.ErrForeign, "not a batchq database"},
		{"OneByte", func(t *testing.T, path string) { write(t, path, []byte{0}) }, store.ErrForeign, "not a batchq database"},
		{"Zeroed", func(t *testing.T, path string) { write(t, path, make([]byte, len(ourFile(t)))) }, store.ErrForeign, "not a batchq database"},
		{"HeaderOnly", func(t *testing.T, path string) { write(t, path, ourFile(t)[:100]) }, store.ErrDamaged, "damaged"},
		{"Truncated", func(t *testing.T, path string) { write(t, path, ourFile(t)[:3*4096]) }, store.ErrDamaged, "damaged"},
		{"TruncatedInAPage", func(t *testing.T, path string) { write(t, path, ourFile(t)[:5*4096+77]) }, store.ErrDamaged, "damaged"},
		{"Foreign", func(t *testing.T, path string) { foreign(t, path, "PRAGMA application_id = 252006675") }, store.ErrForeign, "not a batchq database"},
		{"ForeignUnmarked", func(t *testing.T, path string) { foreign(t, path) }, store.ErrForeign, "not a batchq database"},
		{"ForeignWithALog", func(t *testing.T, path string) { hotForeign(t, path, true) }, store.ErrForeign, "not a batchq database"},
		{"ForeignAfterACrash", func(t *testing.T, path string) { hotForeign(t, path, false) }, store.ErrForeign, "not a batchq database"},
		{"Newer", func(t *testing.T, path string) { newer(t, path) }, store.ErrNewer, fmt.Sprintf("its schema is %d", schemaVersion+7)},
		{"Pipe", func(t *testing.T, path string) { noError(t, syscall.Mkfifo(path, 0o600)) }, store.ErrForeign, "no regular file"},
		{"NoParent", func(t *testing.T, path string) { noError(t, os.Remove(filepath.Dir(path))) }, store.ErrNoDatabase, "its directory does not exist"},
		{"RingOfLinks", func(t *testing.T, path string) { noError(t, os.Symlink(path, path)) }, store.ErrReadOnly, "too many levels of symbolic links"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			noError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "batchq.db")
			c.lay(t, path)
			before := picture(t, dir)
			for _, create := range []bool{false, true} {
				db, err := Open(context.Background(), path, Options{Create: create})
				if err == nil {
					t.Fatal(db.Close(), "it was opened")
				}
				var fe *store.FileError
				if !errors.Is(err, c.want) || !errors.As(err, &fe) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if fe.Path != path || fe.Hint == "" || !strings.Contains(err.Error(), c.words) {
					t.Errorf("path %q, hint %q, message %q: want the path, a hint, and %q", fe.Path, fe.Hint, err, c.words)
				}
				leaksNothing(t, err)
				if diff := cmp.Diff(before, picture(t, dir)); diff != "" {
					t.Errorf("create %v: the directory changed (-before +after):\n%s", create, diff)
				}
			}
		})
	}
}

// Only who brings items in creates; a typo in a path must not look like an
// empty list.
func TestOpen_NotThere(t *testing.T) {
	for _, name := range []string{"Missing", "Empty"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "batchq.db")
			if name == "Empty" {
				write(t, path, nil)
			}
			before := picture(t, dir)
			_, err := Open(context.Background(), path, Options{})
			if !errors.Is(err, store.ErrNoDatabase) || !strings.Contains(err.Error(), "no database at "+path) {
				t.Errorf("got %v, want %v with the path", err, store.ErrNoDatabase)
			}
			if diff := cmp.Diff(before, picture(t, dir)); diff != "" {
				t.Errorf("the directory changed (-before +after):\n%s", diff)
			}
			db := openWith(t, path, Options{Create: true})
			add(t, db, "a")
			sound(t, db)
		})
	}
}

// A foreign program has its file open: neither is disturbed.
func TestOpen_ForeignInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "theirs.db")
	foreign(t, path)
	theirs := raw(t, path)
	execute(t, theirs, "PRAGMA journal_mode = WAL", "INSERT INTO note VALUES ('two')", "BEGIN IMMEDIATE", "INSERT INTO note VALUES ('three')")
	before := picture(t, filepath.Dir(path))
	_, err := Open(context.Background(), path, Options{Create: true})
	if !errors.Is(err, store.ErrForeign) {
		t.Errorf("got %v, want %v", err, store.ErrForeign)
	}
	if diff := cmp.Diff(before, picture(t, filepath.Dir(path))); diff != "" {
		t.Errorf("the directory changed (-before +after):\n%s", diff)
	}
	execute(t, theirs, "COMMIT", "INSERT INTO note VALUES ('four')")
}

// The newer schema stands only in the log as yet.
func TestOpen_NewerInTheLog(t *testing.T) {
	db := openFresh(t)
	other := raw(t, db.Path())
	execute(t, other, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+1))
	_, err := Open(context.Background(), db.Path(), Options{Create: true})
	if !errors.Is(err, store.ErrNewer) {
		t.Errorf("got %v, want %v", err, store.ErrNewer)
	}
	execute(t, other, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion))
}

// Pages inside the file are gone: not every command meets them, and doctor
// does.
func TestOpen_DamagedInside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batchq.db")
	file := ourFile(t)
	copy(file[4096:], randomBytes(len(file)-4096))
	write(t, path, file)
	db, err := Open(context.Background(), path, Options{})
	if err == nil {
		t.Cleanup(func() { noError(t, db.Close()) })
		_, err = db.Enqueue(context.Background(), store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}})
		if h, check := db.Check(context.Background()); check == nil && h.Sound() {
			t.Errorf("doctor finds nothing: %+v", h)
		} else if check != nil {
			leaksNothing(t, check)
		}
	}
	if !errors.Is(err, store.ErrDamaged) {
		t.Fatalf("got %v, want %v", err, store.ErrDamaged)
	}
	leaksNothing(t, err)
}

// Two names of one file lead to one file.
func TestOpen_Links(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.MkdirAll(filepath.Join(dir, "data", "deep"), 0o700))
	noError(t, os.Symlink("data/deep", filepath.Join(dir, "there")))
	noError(t, os.Symlink("there/batchq.db", filepath.Join(dir, "two.db")))
	noError(t, os.Symlink(filepath.Join(dir, "two.db"), filepath.Join(dir, "one.db")))
	want := filepath.Join(dir, "data", "deep", "batchq.db")
	for i, name := range []string{"one.db", "two.db", "there/batchq.db", "there/../deep/batchq.db"} {
		db := openWith(t, dir+"/"+name, Options{Create: true}) // not Join, which would settle ".." by the words
		if db.Path() != want {
			t.Errorf("%s leads to %s, want %s", name, db.Path(), want)
		}
		if add(t, db, "a"); i == 0 {
			continue
		}
		if c, err := db.Counts(context.Background(), nil, nil); err != nil || c.Enqueued != 1 {
			t.Errorf("%s: %+v, %v: want the same item", name, c, err)
		}
	}
	for _, link := range []string{"one.db", "two.db"} {
		if info, err := os.Lstat(filepath.Join(dir, link)); err != nil || info.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is a link no more: %v, %v", link, info, err)
		}
	}
	t.Chdir(dir)
	if db := openAt(t, "one.db"); db.Path() != want {
		t.Errorf("a relative name leads to %s, want %s", db.Path(), want)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	noError(t, os.WriteFile(path, content, 0o600))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(b) // never fails
	return b
}

// ourFile is the content of a database with a few items, closed.
func ourFile(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ours.db")
	db, err := Open(context.Background(), path, Options{Create: true})
	noError(t, err)
	add(t, db, "a", "b", "c")
	noError(t, db.Close())
	content, err := os.ReadFile(path)
	noError(t, err)
	return content
}

// foreign makes another program's database.
func foreign(t *testing.T, path string, more ...string) {
	t.Helper()
	t.Run("lay", func(t *testing.T) {
		conn := raw(t, path)
		execute(t, conn, append([]string{"CREATE TABLE note (text TEXT)", "INSERT INTO note VALUES ('one')"}, more...)...)
	})
}

// hotForeign makes one whose program was killed: what it wrote last stands in
// its log. After a reboot the log's index is gone.
func hotForeign(t *testing.T, path string, index bool) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "running.db")
	foreign(t, source, "PRAGMA application_id = 77", "PRAGMA journal_mode = WAL")
	t.Run("kill", func(t *testing.T) {
		conn := raw(t, source)
		execute(t, conn, "INSERT INTO note VALUES ('two')")
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if suffix == "-shm" && !index {
				continue
			}
			content, err := os.ReadFile(source + suffix)
			noError(t, err)
			write(t, path+suffix, content)
		}
	})
}

// newer makes a database of a later batchq.
func newer(t *testing.T, path string) {
	t.Helper()
	write(t, path, ourFile(t))
	t.Run("upgrade", func(t *testing.T) {
		execute(t, raw(t, path), fmt.Sprintf("PRAGMA user_version = %d", schemaVersion+7))
	})
}

// picture is what lies in a directory: names, modes and contents.
func picture(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	noError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		noError(t, err)
		all[e.Name()] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(filepath.Join(dir, e.Name()))
			noError(t, err)
			all[e.Name()] += " " + string(content)
		}
	}
	return all
}
