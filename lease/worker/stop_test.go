package worker_test

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
)

// A stop starts nothing more, gives back what had not started, and lets what
// runs come to its end within the grace (sidekiq#5030: TERM lost jobs).
func TestStop_Grace(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c")
	r := b.start(plan(serial(b.job("j", jobs.Serial, holds))))
	b.begun("a")
	r.soft()
	b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
	b.wantCounts(store.Counts{Running: 1, Ready: 2})
	b.touch("go")
	sum := r.wait()
	b.once("a")
	if !sum.Stopped || sum.Done != 1 || sum.Interrupted != 0 || sum.Books.Left() != 2 {
		t.Errorf("%+v", sum)
	}
	b.wantCounts(store.Counts{Done: 1, Ready: 2})
}

// After the grace TERM, after kill_after KILL; what was interrupted is ready
// again and free (river PR#1290, sidekiq#6941: it counted as a failure, which
// with the last attempt meant the end of the item).
func TestStop_TermThenKill(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "polite", "deaf", "unstarted")
	spec := b.job("j", "parallel", `[ $key = polite ] && trap 'say term; exit 1' TERM || trap 'say term' TERM
		say start; while :; do sleep 0.02; done`)
	spec.Policy.MaxAttempts = 1
	p := plan(lane("parallel", 2, spec))
	p.Grace = 50 * time.Millisecond
	r := b.start(p)
	b.begun("polite")
	b.begun("deaf")
	r.soft()
	sum := r.wait()
	if sum.Interrupted != 2 || sum.Retried+sum.Dead != 0 || !sum.Stopped {
		t.Errorf("%+v", sum)
	}
	for _, k := range []string{"polite", "deaf"} {
		b.want(k, jobs.Ready, 0, 0)
		if b.ran(k, "term") != 1 {
			t.Errorf("%s got TERM %d times", k, b.ran(k, "term"))
		}
	}
	b.want("unstarted", jobs.Ready, 0, 0)
	for _, e := range b.log() {
		if alive(e.pid) {
			t.Errorf("process %d of %s lives", e.pid, e.key)
		}
	}
	var listed int
	b.sqlRow(&listed, "SELECT count(*) FROM attempt WHERE class = 'free' AND reason LIKE 'interrupted%'")
	if listed != 2 {
		t.Errorf("%d attempts are listed as interrupted", listed)
	}
	// It keeps its place in the line, and needs no wait.
	b.touch("go")
	q := plan(serial(b.job("j", "parallel", quick)))
	if sum := b.work(q); sum.Done != 3 {
		t.Errorf("%+v", sum)
	}
}

// Where the outcome must be known, an interrupted item is set aside.
func TestStop_OnCrashDead(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	spec := b.job("j", jobs.Serial, `say start; wait_for never`)
	spec.Policy.OnCrash = jobs.CrashDead
	p := plan(serial(spec))
	p.Grace = 0
	r := b.start(p)
	b.begun("a")
	r.soft()
	if sum := r.wait(); sum.Dead != 1 {
		t.Errorf("%+v", sum)
	}
	b.wantCounts(store.Counts{Dead: 1, Ready: 1})
}

// The second stop kills at once.
func TestStop_Hard(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	spec := b.job("j", jobs.Serial, `trap '' TERM; say start; while :; do sleep 0.02; done`)
	spec.Policy.KillAfter = patience
	r := b.start(plan(serial(spec)))
	b.begun("a")
	r.soft()
	b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
	r.hard()
	if sum := r.wait(); sum.Interrupted != 1 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Ready, 0, 0)
}

// waiting tells when the loop waits for the write lock.
type waiting struct {
	worker.Store
	writing atomic.Int64
	changed atomic.Int64
}

func (w *waiting) Release(ctx context.Context, run int64, items []store.Held) (int, error) {
	w.writing.Add(1)
	return w.Store.Release(ctx, run, items)
}

func (w *waiting) Advance(ctx context.Context, a store.Advance) (store.Advanced, error) {
	w.writing.Add(1)
	return w.Store.Advance(ctx, a)
}

func (w *waiting) Changed(ctx context.Context) (bool, error) {
	w.changed.Add(1)
	return w.Store.Changed(ctx)
}

// Somebody else is just writing when the second stop comes: what was killed
// is recorded as interrupted all the same, and not left to look like a crash.
func TestStop_HardBesideAWriter(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	var s *waiting
	r := b.startWith(plan(serial(b.job("j", jobs.Serial, holds))), options{store: func(w worker.Store) worker.Store {
		s = &waiting{Store: w}
		return s
	}})
	b.begun("a")
	unlock := b.lock()
	before := s.writing.Load()
	r.hard()
	b.until("something is to be recorded", func() bool { return s.writing.Load() > before || r.hasEnded() })
	time.Sleep(50 * time.Millisecond) // the moment of contention
	unlock()
	if sum := r.wait(); sum.Interrupted != 1 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Ready, 0, 0)
	b.want("b", jobs.Ready, 0, 0)
}

// The heart beats until the last result is recorded (solid_queue#568: it
// stopped at SIGTERM, before the drain): nobody takes over meanwhile.
func TestStop_HeartbeatInTheDrain(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	p.Lease = 2 * time.Second
	r := b.start(p)
	b.begun("a")
	r.soft()
	until := func() (ms int64) { b.sqlRow(&ms, "SELECT until FROM claim"); return ms }
	for range 2 {
		was := until()
		b.until("the lease is renewed", func() bool { return until() > was })
	}
	if sum := b.work(p); sum.Done != 0 || len(sum.FullLanes) != 1 {
		t.Errorf("a second run: %+v", sum)
	}
	b.touch("go")
	if sum := r.wait(); sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
	b.once("a")
	if c := b.counters("j"); c.Lapses+c.Crashes+c.Stale != 0 {
		t.Errorf("%+v", c)
	}
}

// between calls f after the last write of a turn, when only a process was to be
// noted: between the loop's look at the stops and a long rest.
type between struct {
	worker.Store
	f func()
}

func (s *between) Advance(ctx context.Context, a store.Advance) (store.Advanced, error) {
	if len(a.Pids) > 0 {
		defer s.f()
	}
	return s.Store.Advance(ctx, a)
}

// A stop that comes just before the loop rests is not slept through.
func TestStop_JustBeforeTheRest(t *testing.T) {
	for _, hard := range []bool{false, true} {
		b := setup(t)
		b.enqueue("j", "a", "b")
		var r *run
		started := make(chan struct{})
		r = b.startWith(plan(serial(b.job("j", jobs.Serial, holds))), options{store: func(s worker.Store) worker.Store {
			return &between{s, func() {
				<-started
				if r.soft(); hard {
					r.hard()
				}
			}}
		}})
		close(started)
		b.begun("a")
		b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
		b.touch("go")
		if sum := r.wait(); !sum.Stopped || sum.Done+sum.Interrupted != 1 {
			t.Errorf("%+v", sum)
		}
	}
}

// A stop does not wait for what a dead run has left and that takes its time:
// the next run goes on with that.
func TestStop_WhileEndingOrphans(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	spec := b.job("j", jobs.Serial, `trap '' TERM; say start; while :; do sleep 0.02; done`)
	spec.Policy.KillAfter = time.Hour
	p := plan(serial(spec))
	x := b.process(p)
	b.begun("a")
	// One finds the lane full before its run is dead, one finds it dead at once.
	b.enqueue("k", "k1")
	r := b.start(plan(lane("other", 1, b.job("k", "other", holds)), p.Lanes[0]))
	b.begun("k1")
	x.kill()
	b.touch("go")
	b.until("the orphan is its", func() bool {
		var n int
		b.sqlRow(&n, "SELECT count(*) FROM slot WHERE orphan IS NOT NULL")
		return n == 1
	})
	r.soft()
	r.wait()
	r = b.start(p)
	b.until("the orphan is being ended", func() bool { n, stuck := r.lease.Pending(); return n == 1 && !stuck })
	r.soft()
	r.wait()
	b.want("a", jobs.Running, 0, 0)
	x.endItems()
	p.Lanes[0].Jobs[0] = b.job("j", jobs.Serial, quick)
	if sum := b.work(p); sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Done, 0, 1)
}

// A stop that comes before anything, and one that comes while it waits.
func TestStop_AnyTime(t *testing.T) {
	b := setup(t)
	p := plan(serial(b.job("j", jobs.Serial, quick)))
	p.Wait = true
	b.enqueueAs("j", store.NewItem{Delay: time.Hour}, "later")
	r := b.start(p)
	r.soft()
	r.wait()
	r = b.start(p)
	time.Sleep(20 * time.Millisecond)
	r.soft()
	r.wait()
	b.enqueue("j", "a")
	r = b.start(p)
	b.begun("a")
	r.hard()
	r.wait()
	b.want("later", jobs.Delayed, 0, 0)
}

// TERM at any moment loses nothing, charges nothing and leaves nothing held
// (sidekiq#5030, litejob's exit callback, bayes-platform#794).
func TestStop_AtRandom(t *testing.T) {
	slow(t)
	b := setup(t)
	all := keys("k", 200)
	b.enqueue("j", all...)
	p := plan(lane("parallel", 4, b.job("j", "parallel", `guard 4; say start; sleep 0.03; say end`)))
	p.Batch, p.Grace = 20, time.Millisecond
	for i := range 12 {
		x := b.process(p)
		time.Sleep(time.Duration(i*i) * time.Millisecond)
		x.signal(syscall.SIGTERM)
		x.wait()
		if c := b.counts(); c.Claimed+c.Running+c.Dead+c.Delayed != 0 {
			t.Fatalf("after TERM %d: %+v", i, c)
		}
	}
	b.work(p)
	b.wantCounts(store.Counts{Done: 200})
	if c := b.counters("j"); c.Crashes+c.Retries+c.Stale+c.Lapses != 0 {
		t.Errorf("%+v", c)
	}
	if n := strings.Count(b.file("log"), " over "); n > 0 {
		t.Errorf("%d times more than four ran at once", n)
	}
	for _, k := range all {
		if n := b.ran(k, "end"); n < 1 {
			t.Errorf("%s has never come to its end", k)
		}
	}
}
