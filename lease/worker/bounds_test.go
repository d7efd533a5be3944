package worker_test

import (
	"sync/atomic"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
	"batchq/store/sqlite"
)

// A run is never responsible for more than a batch in a lane.
func TestBounds_Batch(t *testing.T) {
	b := setup(t)
	b.enqueue("j", keys("k", 40)...)
	b.enqueue("s", keys("s", 10)...)
	p := plan(lane("parallel", 3, b.job("j", "parallel", quick)), serial(b.job("s", jobs.Serial, quick)))
	p.Batch = 7
	var most atomic.Int64
	watcher := b.open(sqlite.Options{})
	r := b.startWith(p, options{started: func(it *jobs.Item) {
		c, err := watcher.Counts(b.Context(), []string{it.Job}, nil)
		b.check(err)
		most.Store(max(most.Load(), c.Claimed+c.Running))
	}})
	if sum := r.wait(); sum.Done != 50 {
		t.Errorf("%+v", sum)
	}
	if n := most.Load(); n > 7 || n < 2 {
		t.Errorf("%d were held at once", n)
	}
}

// --once is one claim a lane.
func TestBounds_Once(t *testing.T) {
	b := setup(t)
	b.enqueue("j", keys("j", 9)...)
	b.enqueue("s", keys("s", 9)...)
	p := plan(lane("parallel", 2, b.job("j", "parallel", quick)), serial(b.job("s", jobs.Serial, quick)))
	p.Batch, p.Once = 4, true
	sum := b.work(p)
	if sum.Done != 8 || sum.Claims != 2 || sum.Books.Left() != 10 {
		t.Errorf("%+v", sum)
	}
	b.wantCounts(store.Counts{Done: 8, Ready: 10})
}

// With --once a claim that is made anew, because of what was held for a whole
// lease, takes no more than was given back.
func TestBounds_OnceAnew(t *testing.T) {
	b := setup(t)
	b.enqueue("j", keys("k", 9)...)
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	p.Batch, p.Once, p.Lease = 3, true, 300*time.Millisecond
	r := b.start(p)
	b.begun("k1")
	b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
	b.enqueueAs("j", store.NewItem{Priority: 9}, "urgent")
	b.touch("go")
	if sum := r.wait(); sum.Done != 3 {
		t.Errorf("%+v", sum)
	}
	b.once("k1", "urgent", "k2")
}

// --limit is exact, over lanes, retries and what was given back.
func TestBounds_Limit(t *testing.T) {
	for name, text := range map[string]string{"Done": quick, "Retried": `say start; say end; exit 1`} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.enqueue("j", keys("j", 12)...)
			b.enqueue("s", keys("s", 12)...)
			p := plan(lane("parallel", 3, b.job("j", "parallel", text)), serial(b.job("s", jobs.Serial, text)))
			p.Limit, p.Batch, p.Wait = 10, 4, true
			sum := b.work(p)
			if n := b.ran("", "start"); n != 10 || sum.Done+sum.Retried != 10 {
				t.Errorf("%d were started: %+v", n, sum)
			}
		})
	}
	t.Run("GivenBack", func(t *testing.T) {
		b := setup(t)
		b.enqueue("j", keys("k", 9)...)
		p := plan(serial(b.job("j", jobs.Serial, holds)))
		p.Limit, p.Lease = 4, 300*time.Millisecond
		r := b.start(p)
		b.begun("k1")
		b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
		b.touch("go")
		r.wait()
		b.once(keys("k", 4)...)
		b.wantCounts(store.Counts{Done: 4, Ready: 5})
	})
}

// --max-runtime starts nothing more; what runs may finish.
func TestBounds_MaxRuntime(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c")
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	p.MaxRuntime, p.Wait = 300*time.Millisecond, true
	r := b.start(p)
	b.begun("a")
	b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
	b.want("a", jobs.Running, 0, 0)
	b.touch("go")
	sum := r.wait()
	b.once("a")
	b.wantCounts(store.Counts{Done: 1, Ready: 2})
	if sum.Stopped || sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
}

// A dependency that is down ends the job for this run and keeps its items
// (ci-queue#68, cmdstalk#17, HQ#34); other jobs go on.
func TestBounds_StopAfter(t *testing.T) {
	b := setup(t)
	b.enqueue("down", keys("d", 50)...)
	b.enqueue("up", keys("u", 20)...)
	down := b.job("down", jobs.Serial, `say start; exit 75`)
	down.Policy.BackoffBase, down.Policy.BackoffCap = time.Hour, time.Hour
	p := plan(serial(down, b.job("up", jobs.Serial, quick)))
	p.StopAfter = 5
	sum := b.work(p)
	if sum.Halted["down"] == "" || sum.Retried != 5 || sum.Done != 20 || sum.Dead != 0 {
		t.Errorf("%+v", sum)
	}
	b.once(keys("u", 20)...)
	c, err := b.db.Counts(b.Context(), []string{"down"}, nil)
	b.must(err)
	if c.Ready != 45 || c.Delayed != 5 {
		t.Errorf("%+v", c)
	}
}

// A success between them means that the dependency is up.
func TestBounds_StopAfterInARow(t *testing.T) {
	b := setup(t)
	b.enqueue("j", keys("k", 12)...)
	spec := b.job("j", jobs.Serial, `case $key in k3|k6|k9|k12) exit 0;; esac; exit 1`)
	spec.Policy.BackoffBase, spec.Policy.BackoffCap = time.Hour, time.Hour
	p := plan(serial(spec))
	p.StopAfter = 3
	if sum := b.work(p); len(sum.Halted) != 0 || sum.Done != 4 || sum.Retried != 8 {
		t.Errorf("%+v", sum)
	}
}

// Without --wait a run leaves when only delayed items remain; with it, it
// stays for them, and for what another run holds.
func TestBounds_Wait(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "now")
	b.enqueueAs("j", store.NewItem{Delay: time.Hour}, "later")
	p := plan(serial(b.job("j", jobs.Serial, quick)))
	if sum := b.work(p); sum.Done != 1 || sum.Books.Delayed != 1 {
		t.Errorf("without --wait: %+v", sum)
	}
	_, err := b.db.Enqueue(b.Context(), store.Enqueue{Job: "j", OnDuplicate: store.Replace, Items: []store.NewItem{{Key: []byte("later"), Delay: 400 * time.Millisecond}}})
	b.must(err)
	b.enqueue("j", "held")
	holder := plan(serial(b.job("j", jobs.Serial, holds)))
	r := b.start(holder)
	b.begun("held")
	p.Wait = true
	w := b.start(p)
	b.until("the delayed one is due", func() bool { return b.item("later").Due.Before(time.Now()) })
	if w.hasEnded() {
		t.Error("it did not wait")
	}
	b.touch("go")
	r.wait()
	sum := w.wait()
	b.once("now", "later", "held")
	if sum.Books.Left() != 0 || len(sum.FullLanes) != 0 {
		t.Errorf("with --wait: %+v", sum)
	}
}

// What a job's scope does not name is neither worked nor waited for.
func TestBounds_Scope(t *testing.T) {
	b := setup(t)
	for _, scope := range []string{"monday", "tuesday"} {
		_, err := b.db.Enqueue(b.Context(), store.Enqueue{Job: "j", Scope: scope, Items: []store.NewItem{{Key: []byte(scope)}}})
		b.must(err)
	}
	p := plan(serial(b.job("j", jobs.Serial, `say "start$BATCHQ_SCOPE"`)))
	scope := "tuesday"
	p.Scope, p.Wait = &scope, true
	sum := b.work(p)
	if sum.Done != 1 || sum.Books.Enqueued != 1 || b.item("monday").State != jobs.Ready || b.item("tuesday").State != jobs.Done {
		t.Errorf("%+v", sum)
	}
}
