package lease

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"batchq/jobs/handler"
	"batchq/store"
	"batchq/store/sqlite"
)

// copied is a bundle whose database is a copy, by the store's own means, of
// b's as it is now: with the same runs, claims and items in it.
func (b *bundle) copied() *bundle {
	b.Helper()
	dir := b.TempDir()
	c := &bundle{T: b.T, dir: dir, path: filepath.Join(dir, "batchq.db"), clock: b.clock}
	src, err := sqlite.Open(context.Background(), b.path, sqlite.Options{})
	b.must(err)
	_, err = src.Backup(context.Background(), c.path, nil)
	b.must(err)
	b.must(src.Close())
	c.db = c.open()
	return c
}

// original starts a process that nobody rescues in the database that it works.
func (b *bundle) original(r role) *player {
	b.Helper()
	p := b.process(r)
	b.Cleanup(func() {
		p.kill()
		endMarked(p.Token)
		b.check(handler.Clean(p.Token))
	})
	return p
}

// untouched checks that nothing happened to the original.
func (b *bundle) untouched(p *player) {
	b.Helper()
	if p.hasEnded() || !alive(p.PIDs[0]) {
		b.Error("the original's run or its command was ended")
	}
	if s := probe(lockPath(b.path, p.Token)); s != lives {
		b.Errorf("the original's lock says %d", s)
	}
	if _, err := os.Stat(filepath.Join(os.TempDir(), "batchq-"+p.Token)); err != nil {
		b.Errorf("the private directory of the original's run: %v", err)
	}
}

// A copy of the database tells of a run that works the original: what that
// run had not started is ready in the copy at once, and nothing of the run is
// touched, whatever the copy's lease and lock files say. What it is at work on
// stays held in the copy until its process has ended.
func TestOwn_Copy(t *testing.T) {
	for name, change := range map[string]string{
		"AsItIs":     "",
		"LockFile":   "",
		"Lapsed":     "UPDATE claim SET until = 1, lapsed = 1",
		"NoPID":      "UPDATE slot SET pid = 0, pid_start = 0",
		"ClaimsGone": "DELETE FROM claim",
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.enqueue("a", "b")
			p := b.original(role{Spec: b.spec(`say start; wait_for go; say end`), Claim: 2, Start: 1, Beat: true})
			b.until("a runs", func() bool { return strings.Contains(b.log(), "a start") })
			c := b.copied()
			if change != "" {
				c.exec(change)
			}
			if name == "LockFile" { // it is no sign of anything
				b.must(os.WriteFile(lockPath(c.path, p.Token), nil, 0o600))
			}
			r := c.rescuer()
			r.rescue()
			c.want("a running, b ready")
			r.rescue()
			c.want("a running, b ready")
			if said := r.said("is at work on it for another copy of this database: drop it, or wait"); len(said) != 1 {
				t.Errorf("said of what is at work: %q", said)
			}
			b.untouched(p)
			b.want("a running, b claimed")
			b.touch("go")
			b.until("its process is gone", func() bool { return !alive(p.PIDs[0]) })
			r.rescue()
			c.want("a ready, b ready")
			c.wantCrashes("a", 1)
			if p.hasEnded() || probe(lockPath(b.path, p.Token)) != lives {
				t.Error("the original's run has ended")
			}
		})
	}
}

// After a boot nothing can be at work, for whatever file.
func TestOwn_CopyAfterABoot(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.original(role{Spec: b.spec(holds), Claim: 2, Start: 1})
	c := b.copied()
	c.exec("UPDATE run SET boot = 'another'")
	c.rescuer().rescue()
	c.want("a ready, b ready")
	b.untouched(p)
}

// The original's run dies while the copy holds its item: the command is the
// original's to end, not the copy's, and the copy has it when it is gone.
func TestOwn_CopyOfADeadRun(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	p := b.original(role{Spec: b.spec(holds), Claim: 1, Start: 1})
	c := b.copied()
	p.kill()
	r := c.rescuer()
	r.rescue()
	c.want("a running")
	if !alive(p.PIDs[0]) {
		t.Error("the copy has ended what the original's run left")
	}
	b.rescuer().rescue()
	b.want("a ready")
	b.wantCrashes("a", 1)
	r.rescue()
	c.want("a ready")
}

// A restored backup stands in the original's place: the lock file beside it is
// that of a run of the file that was replaced, and stays as long as it is held.
func TestOwn_Restored(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.original(role{Spec: b.spec(holds), Claim: 2, Start: 1})
	c := b.copied()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Rename(b.path+suffix, b.path+".old"+suffix); err != nil && suffix == "" {
			t.Fatal(err)
		}
	}
	b.must(c.db.Close())
	b.must(os.Rename(c.path, b.path))
	restored := &bundle{T: t, dir: b.dir, path: b.path, clock: b.clock}
	restored.db = restored.open()
	r := restored.rescuer()
	r.rescue()
	restored.want("a running, b ready")
	b.untouched(p)
	p.kill()
	endMarked(p.Token)
	r.rescue()
	restored.want("a ready, b ready")
	b.until("its lock file is cleared away", func() bool {
		r.rescue()
		_, err := os.Stat(lockPath(b.path, p.Token))
		return os.IsNotExist(err)
	})
}

// What a reader of the book makes of such a run.
func TestOwn_LookAtACopy(t *testing.T) {
	b := setup(t)
	p := b.register()
	info := p.Info
	if Look(b.path, info) != Alive {
		t.Error("a live run does not look alive")
	}
	info.Foreign = true
	if Look(b.path, info) != Dead {
		t.Error("for a copy it is not dead")
	}
	b.must(p.Close(context.Background(), store.RunEnd{}))
}
