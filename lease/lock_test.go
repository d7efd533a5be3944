package lease

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
	"batchq/store/sqlite"
)

func TestLock_Exclusive(t *testing.T) {
	b := setup(t)
	defer syscall.Umask(syscall.Umask(0))
	r := b.register()
	path := lockPath(b.path, r.Info.Token)
	if m := mode(t, path); m != 0o600 {
		t.Errorf("mode %v under umask 0", m)
	}
	f, err := os.Open(path)
	b.must(err)
	defer f.Close()
	for _, how := range []int{syscall.LOCK_SH, syscall.LOCK_EX} {
		if err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			t.Errorf("lock %d: %v", how, err)
		}
	}
	if s := probe(path); s != lives {
		t.Errorf("probe of a live run: %d", s)
	}
	b.must(r.Close(context.Background(), store.RunEnd{}))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}

// What a job leaves in the background must not keep our lock (tuios#141,
// measured with flock(1) as well).
func TestLock_NotInherited(t *testing.T) {
	b := setup(t)
	token := "inherit"
	f, err := acquire(b.path, token)
	b.must(err)
	child := exec.Command("sleep", "60")
	b.must(child.Start())
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	b.must(f.Close()) // as the kernel does at any death
	if s := probe(lockPath(b.path, token)); s != died {
		t.Errorf("with the child alive the probe says %d", s)
	}
}

// A run is killed while a child of it is being made, which shares its lock
// until it executes its program: what the lock says is no life. Its process has
// gone, and the next run takes over at once.
func TestLock_SharedByAChild(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "b")
	p := b.process(role{Spec: b.spec(holds), Claim: 2, Start: 1, LeaveLock: true})
	r := b.rescuer()
	if s := ask(b.path, r.Info, b.info(p.Run)); s != lives {
		t.Errorf("before its death it is said to be %d", s)
	}
	p.kill()
	if s := probe(lockPath(b.path, p.Token)); s != lives || !alive(p.Left) {
		t.Fatalf("the lock says %d: nothing is shown", s)
	}
	if Look(b.path, b.info(p.Run)) != Dead {
		t.Error("it is taken for alive")
	}
	r.rescue()
	b.want("a ready, b ready")
	b.wantCrashes("a", 1)
	if _, err := os.Stat(lockPath(b.path, p.Token)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its lock file: %v", err)
	}
}

// From the moment at which kill -9 returns a run is dead, or seen to be dying
// and waited for: the same line again right behind it finds no lane full.
func TestLock_RightBehindAKill(t *testing.T) {
	b := setup(t)
	for range 20 {
		b.enqueue("a")
		p := b.process(role{Spec: b.spec(holds), Claim: 1})
		r := b.register()
		kill(p.cmd.Process.Pid, syscall.SIGKILL)
		b.must(r.Rescue(context.Background()))
		b.want("a ready")
		b.must(r.Close(context.Background(), store.RunEnd{Outcome: "finished"}))
	}
}

func TestLock_Probe(t *testing.T) {
	b := setup(t)
	path := lockPath(b.path, "missing")
	if s := probe(path); s != unknown {
		t.Errorf("of a missing file: %d", s)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the probe made the file: %v", err)
	}
	b.must(os.Symlink("batchq.db-run-loop", lockPath(b.path, "loop")))
	if s := probe(lockPath(b.path, "loop")); s != unknown {
		t.Errorf("of a file that can't be read: %d", s)
	}
	b.must(os.Remove(lockPath(b.path, "loop")))
	// Two that probe at once don't take each other for a live run.
	b.must(os.WriteFile(path, nil, 0o600))
	f, err := os.Open(path)
	b.must(err)
	defer f.Close()
	b.must(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB))
	if s := probe(path); s != died {
		t.Errorf("beside another probe: %d", s)
	}
}

func TestLock_Strays(t *testing.T) {
	b := setup(t)
	live, other := b.register(), filepath.Join(b.dir, "batchq.db-running")
	defer func() { b.must(live.Close(context.Background(), store.RunEnd{})) }()
	stray := lockPath(b.path, strings.Repeat("a2", 13))
	b.must(os.WriteFile(stray, nil, 0o600))
	b.must(os.WriteFile(other, nil, 0o600))
	// What only looks like one is somebody's: a name of another form, something in it.
	dated, full := lockPath(b.path, "2026-11-29.log"), lockPath(b.path, strings.Repeat("b3", 13))
	b.must(os.WriteFile(dated, nil, 0o600))
	b.must(os.WriteFile(full, []byte("precious"), 0o600))
	b.rescuer().rescue()
	for path, stays := range map[string]bool{stray: false, other: true, dated: true, full: true, lockPath(b.path, live.Info.Token): true} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v; want it to stay: %v", path, err, stays)
		}
	}
}

// A run that makes its file while another one clears strays away holds a lock
// on a file that is there, or knows that it does not.
func TestLock_ClearedWhileMade(t *testing.T) {
	b := setup(t)
	r := b.rescuer()
	var stop atomic.Bool
	var clearing sync.WaitGroup
	clearing.Go(func() {
		for !stop.Load() {
			b.check(r.clearLocks(context.Background(), nil))
		}
	})
	made, gone := 0, 0
	for i := 0; i < 400; i++ {
		token := "race" + time.Duration(i).String()
		f, err := acquire(b.path, token)
		if errors.Is(err, errLockGone) {
			gone++
			continue
		}
		b.must(err)
		made++
		if s := probe(lockPath(b.path, token)); s != lives {
			t.Errorf("its lock says %d", s)
		}
		b.must(f.Close())
	}
	stop.Store(true)
	clearing.Wait()
	if made == 0 {
		t.Error("no lock could be had at all")
	}
	t.Logf("%d made, %d cleared away in the making", made, gone)
}

// Root's lock file belongs to whom the database belongs, whose later runs must
// be able to look at it.
func TestLock_Owner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root")
	}
	b := setup(t)
	const other = 12345
	b.must(os.Chown(b.path, other, other))
	r := b.rescuer()
	info, err := os.Stat(lockPath(b.path, r.Info.Token))
	b.must(err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != other || st.Gid != other || info.Mode() != 0o600 {
		t.Errorf("it belongs to %d:%d with mode %v", st.Uid, st.Gid, info.Mode())
	}
}

// What can be told about a run from outside, by a look that changes nothing.
func TestLook(t *testing.T) {
	b := setup(t)
	p, r := b.process(role{}), b.rescuer()
	living, dying := b.info(r.Info.ID), b.info(p.Run)
	if Look(b.path, living) != Alive || Look(b.path, dying) != Alive {
		t.Error("a live run is not alive")
	}
	p.kill()
	if Look(b.path, dying) != Dead {
		t.Error("a killed run is not dead")
	}
	b.must(os.Remove(lockPath(b.path, p.Token)))
	if Look(b.path, dying) != Dead {
		t.Error("without its lock file a killed run is not dead")
	}
	living.Token = "missing"
	if Look(b.path, living) != Alive {
		t.Error("without its lock file a live run is not alive")
	}
	living.PIDNS = "pid:[1]"
	if Look(b.path, living) != Unknown {
		t.Error("something is known of a run in another namespace")
	}
	living.BootID = "another"
	if Look(b.path, living) != Dead {
		t.Error("a run has survived a boot")
	}
}

// spy sees what is true at the moment of a call.
type spy struct {
	*sqlite.DB
	register func(store.RunInfo)
	others   func()
}

func (s *spy) Register(ctx context.Context, r store.RunInfo) (int64, error) {
	if s.register != nil {
		s.register(r)
	}
	return s.DB.Register(ctx, r)
}

func (s *spy) OtherRuns(ctx context.Context, run int64) ([]store.OtherRun, error) {
	others, err := s.DB.OtherRuns(ctx, run)
	if s.others != nil {
		s.others()
	}
	return others, err
}

// The lock comes first and then the row, so that a row without a lock is
// always a dead run.
func TestRegister_Order(t *testing.T) {
	b := setup(t)
	var at sign
	own := &spy{DB: b.open(), register: func(r store.RunInfo) { at = probe(lockPath(b.path, r.Token)) }}
	run, err := Register(context.Background(), own, Options{Database: b.path, Lease: time.Minute, Note: func(jobs.Note) {}})
	b.must(err)
	if at != lives {
		t.Errorf("when the row was written the lock said %d", at)
	}
	b.must(run.Close(context.Background(), store.RunEnd{}))
}

func TestRegister_Fails(t *testing.T) {
	b := setup(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	own := b.open()
	b.must(own.Close())
	if _, err := Register(ctx, own, Options{Database: b.path, Lease: time.Minute, Note: func(jobs.Note) {}}); err == nil {
		t.Fatal("registered in a closed database")
	}
	left, err := filepath.Glob(b.path + "-run-*")
	b.must(err)
	if len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

// A run that registers, claims and dies while another one is looking around is
// in nobody's list; its lock file says that it is dead and must stay.
func TestRescue_DiedDuringTheLook(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	own := &spy{DB: b.open()}
	run, err := Register(context.Background(), own, Options{Database: b.path, Lease: time.Minute, Note: func(jobs.Note) {}})
	b.must(err)
	var p *player
	own.others = func() {
		if p == nil {
			p = b.process(role{Spec: b.spec(holds), Claim: 1})
			p.kill()
		}
	}
	b.must(run.Rescue(context.Background()))
	b.must(run.Rescue(context.Background()))
	b.want("a ready")
	b.must(run.Close(context.Background(), store.RunEnd{}))
}

// Somebody has removed the lock file of a live run: its end is no failure.
func TestClose_LockFileGone(t *testing.T) {
	b := setup(t)
	r := b.register()
	b.must(os.Remove(lockPath(b.path, r.Info.Token)))
	b.must(r.Close(context.Background(), store.RunEnd{}))
}

// A run that can't write its end leaves the lock file, by which the next one
// sees at once that it is dead.
func TestClose_CantWrite(t *testing.T) {
	b := setup(t)
	b.enqueue("a")
	r := b.register()
	r.claims(b.spec(holds))
	b.must(r.own.(*sqlite.DB).Close())
	if err := r.Close(context.Background(), store.RunEnd{}); err == nil {
		t.Error("closed without a database")
	}
	b.rescuer().rescue()
	b.want("a ready")
}
