package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"batchq/store"
)

// helpers are what this binary does in a process of its own.
var helpers = map[string]func(args []string) error{
	"create": func(args []string) error { return createAndAdd(args[0], args[1]) },
	"open":   func(args []string) error { return openAndClose(args[0]) },
	"killed": func(args []string) error { return addAndDie(args[0], args[1]) },
	"try":    tryToWrite,
	"full":   func(args []string) error { return writeUntilFull(args[0]) },
}

func createAndAdd(path, key string) (err error) {
	db, err := Open(context.Background(), path, Options{Create: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	out, err := db.Enqueue(context.Background(), store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte(key)}}})
	if err == nil && out.Outcomes[0] != store.Added {
		err = fmt.Errorf("outcome %d", out.Outcomes[0])
	}
	return err
}

func openAndClose(path string) error {
	db, err := Open(context.Background(), path, Options{Migrate: true})
	if err != nil {
		return err
	}
	return db.Close()
}

// tryToWrite says what kind of error a user meets.
func tryToWrite(args []string) error {
	err := createAndAdd(args[0], args[1])
	for _, kind := range []error{store.ErrReadOnly, store.ErrNoDatabase, store.ErrForeign, store.ErrDamaged, store.ErrBusy, store.ErrFull} {
		if errors.Is(err, kind) {
			fmt.Println(kind, "|", err)
			return nil
		}
	}
	fmt.Println("unclassified |", err)
	return nil
}

// Many processes begin at once on a path where nothing is: one makes the
// file, all of them use it.
func TestCreate_ManyProcesses(t *testing.T) {
	for _, name := range []string{"Missing", "Empty"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "batchq.db")
			if name == "Empty" {
				write(t, path, nil)
			}
			const n = 20
			var cmds [n]*exec.Cmd
			var outs [n]fmt.Stringer
			for i := range n {
				cmds[i], outs[i] = process(t, "create", path, fmt.Sprint("key ", i))
				noError(t, cmds[i].Start())
			}
			for i := range n {
				if err := cmds[i].Wait(); err != nil {
					t.Errorf("process %d: %v\n%s", i, err, outs[i])
				}
			}
			allThere(t, dir, n)
		})
	}
}

func TestCreate_ManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := createAndAdd(filepath.Join(dir, "batchq.db"), fmt.Sprint("key ", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	allThere(t, dir, n)
}

// allThere wants one database with n items in dir and nothing beside it.
func allThere(t *testing.T, dir string, n int64) {
	t.Helper()
	if names := namesIn(t, dir); !slices.Equal(names, []string{"batchq.db"}) {
		t.Errorf("in the directory lie %q, want the database alone", names)
	}
	db := openAt(t, filepath.Join(dir, "batchq.db"))
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c != (store.Counts{Enqueued: n, Ready: n}) {
		t.Errorf("counts %+v, %v", c, err)
	}
	sound(t, db)
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	noError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// A creator that was killed leaves a draft: the next one begins anew.
func TestCreate_DraftLeftBehind(t *testing.T) {
	dir := t.TempDir()
	for _, suffix := range []string{"", "-journal", "-wal"} {
		write(t, filepath.Join(dir, ".batchq.db.new"+suffix), []byte("half"))
	}
	noError(t, createAndAdd(filepath.Join(dir, "batchq.db"), "a"))
	allThere(t, dir, 1)
}

// Everything is 0600, whatever the umask says.
// A database that was moved away, or removed, while a run that was killed had
// a log beside it: the log must not be played into the new one.
func TestCreate_BesideAnOldLog(t *testing.T) {
	for name, away := range map[string]func(path string) error{
		"Moved":   func(path string) error { return os.Rename(path, path+".old") },
		"Removed": os.Remove,
		"Emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "q.db")
			db := openWith(t, path, Options{Create: true})
			var items []store.NewItem
			for i := range 500 {
				items = append(items, store.NewItem{Key: fmt.Appendf(nil, "old%d", i)})
			}
			if _, err := db.Enqueue(t.Context(), store.Enqueue{Job: "old", Items: items}); err != nil {
				t.Fatal(err)
			}
			// As after kill -9: the log is there and nobody has it open.
			for _, suffix := range []string{"-wal", "-shm"} {
				text, err := os.ReadFile(path + suffix)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path+suffix+".kept", text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{"-wal", "-shm"} {
				if err := os.Rename(path+suffix+".kept", path+suffix); err != nil {
					t.Fatal(err)
				}
			}
			if err := away(path); err != nil {
				t.Fatal(err)
			}
			fresh := openWith(t, path, Options{Create: true})
			if _, err := fresh.Enqueue(t.Context(), store.Enqueue{Job: "new", Items: items[:7]}); err != nil {
				t.Fatal(err)
			}
			counts, err := fresh.Counts(t.Context(), nil, nil)
			if err != nil || counts != (store.Counts{Enqueued: 7, Ready: 7}) {
				t.Errorf("%+v, %v", counts, err)
			}
			if h, err := fresh.Check(t.Context()); err != nil || !h.Sound() {
				t.Errorf("%+v, %v", h, err)
			}
		})
	}
}

func TestCreate_Modes(t *testing.T) {
	for _, mask := range []int{0o022, 0, 0o277} {
		t.Run(fmt.Sprintf("umask %03o", mask), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "batchq.db")
			old := syscall.Umask(mask)
			db, err := Open(context.Background(), path, Options{Create: true})
			if err == nil {
				_, err = db.Enqueue(context.Background(), store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}})
			}
			syscall.Umask(old)
			noError(t, err)
			got := map[string]os.FileMode{}
			for _, name := range namesIn(t, dir) {
				info, err := os.Stat(filepath.Join(dir, name))
				noError(t, err)
				got[name] = info.Mode()
			}
			want := map[string]os.FileMode{"batchq.db": 0o600, "batchq.db-wal": 0o600, "batchq.db-shm": 0o600}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("modes (-want +got):\n%s", diff)
			}
			noError(t, db.Close())
		})
	}
}

const nobody = 65534 // uid and gid that own nothing

// Where a user may not write, it is said so; nothing is made or changed.
func TestCreate_NoPermission(t *testing.T) {
	base, err := os.MkdirTemp("", "batchq-test-")
	noError(t, err)
	t.Cleanup(func() { noError(t, os.RemoveAll(base)) })
	noError(t, os.Chmod(base, 0o755)) // another user has to get there
	for _, c := range []struct {
		name          string
		dirMode, mode os.FileMode // mode 0: no file
	}{
		{"NewInAReadOnlyDirectory", 0o555, 0},
		{"UnreadableFile", 0o755, 0o600},
		{"ReadOnlyFile", 0o777, 0o444},
		{"ReadOnlyFileAndDirectory", 0o555, 0o444},
		{"ClosedDirectory", 0o700, 0o644},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(base, c.name)
			noError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "batchq.db")
			if c.mode != 0 {
				noError(t, createAndAdd(path, "a"))
				noError(t, os.Chmod(path, c.mode))
			}
			noError(t, os.Chmod(dir, c.dirMode))
			cmd, out := process(t, "try", path, "b")
			switch {
			case os.Geteuid() == 0:
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			case c.mode == 0o600 || c.dirMode == 0o700:
				t.Skip("needs another user, and so root to begin with")
			}
			noError(t, cmd.Run())
			if !strings.HasPrefix(out.String(), store.ErrReadOnly.Error()) {
				t.Errorf("the user is told: %s", out)
			}
			noError(t, os.Chmod(dir, 0o700))
			if names := namesIn(t, dir); len(names) > 1 || c.mode == 0 && len(names) > 0 {
				t.Errorf("in the directory lie %q", names)
			}
		})
	}
}

// What root makes in somebody's directory is that somebody's; so are the side
// files of a database that root only uses.
func TestCreate_AsRootForAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	noError(t, os.Chown(dir, nobody, nobody))
	db := openWith(t, filepath.Join(dir, "batchq.db"), Options{Create: true})
	add(t, db, "a")
	for _, name := range namesIn(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		noError(t, err)
		if st := info.Sys().(*syscall.Stat_t); st.Uid != nobody || st.Gid != nobody {
			t.Errorf("%s belongs to %d:%d, want %d", name, st.Uid, st.Gid, nobody)
		}
	}
}

// oban#1087, #1093: an enqueue that died before its commit has added nothing,
// and its key is not taken.
func TestEnqueue_KilledBeforeCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batchq.db")
	db := openWith(t, path, Options{Create: true})
	cmd, out := process(t, "killed", path, "a")
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the helper ended with %v: %s", err, out)
	}
	if got := add(t, db, "a"); got[0] != store.Added {
		t.Errorf("outcome %d, want it to be added", got[0])
	}
	if c, err := db.Counts(context.Background(), nil, nil); err != nil || c.Enqueued != 1 {
		t.Errorf("counts %+v, %v", c, err)
	}
	sound(t, db)
}

// addAndDie kills its own process when everything but the commit is done.
func addAndDie(path, key string) error {
	db, err := Open(context.Background(), path, Options{})
	if err != nil {
		return err
	}
	return db.write(context.Background(), "dying", synced, func(t *tx) error {
		p := &producer{tx: t, e: store.Enqueue{Job: "pos", OnDuplicate: store.Skip}, next: 1}
		if p.job, err = t.jobID("pos"); err != nil {
			return err
		}
		if p.scope, err = t.scopeID(""); err != nil {
			return err
		}
		if _, err := p.add([]store.NewItem{{Key: []byte(key)}}); err != nil {
			return err
		}
		if err := errors.Join(p.close(), t.writeBooks()); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	})
}
