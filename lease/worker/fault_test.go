package worker_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
	"batchq/store/sqlite"
)

// The database failed while an item was finished: it stayed claimed while the
// worker lived on (solid_queue#748). Here the lock is held for longer than a
// write waits as the item ends: the result is kept, tried again, and recorded.
func TestFault_LockedAsItEnds(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	b.enqueueAs("j", store.NewItem{Delay: 300 * time.Millisecond}, "later")
	var s *waiting
	p := plan(lane("parallel", 2, b.job("j", "parallel", holds)))
	p.Wait = true
	r := b.startWith(p, options{wait: 50 * time.Millisecond, store: func(w worker.Store) worker.Store {
		s = &waiting{Store: w}
		return s
	}})
	b.begun("a")
	unlock := b.lock()
	b.touch("go")
	b.until("a has ended", func() bool { return b.ran("a", "end") == 1 })
	b.until("its result could not be recorded", func() bool { return len(r.said("trying again")) > 0 })
	looks := s.changed.Load()
	time.Sleep(500 * time.Millisecond) // in which the delayed one is due
	if n := s.changed.Load() - looks; n > 20 {
		t.Errorf("it looked %d times meanwhile: it spins", n)
	}
	if r.hasEnded() {
		t.Fatal("it gave up")
	}
	unlock()
	if sum := r.wait(); sum.Done != 2 || sum.Stale != 0 {
		t.Errorf("%+v", sum)
	}
	b.once("a", "later")
	b.want("a", jobs.Done, 0, 0)
	if n := len(r.said("trying again")); n > 3 {
		t.Errorf("it said %d times that it tries again", n)
	}
}

// The lock is held while the run would leave, claim, give back or look for
// the dead: it waits, and ends as it would have.
func TestFault_LockedAtAnyTime(t *testing.T) {
	slow(t)
	for name, c := range map[string]struct {
		text string
		set  func(*worker.Plan)
		stop bool
		want store.Counts
	}{
		"Claim":     {quick, func(*worker.Plan) {}, false, store.Counts{Done: 6}},
		"Wait":      {quick, func(p *worker.Plan) { p.Wait = true }, false, store.Counts{Done: 6}},
		"Broken":    {`exit 127`, func(*worker.Plan) {}, false, store.Counts{Ready: 6}},
		"StopAfter": {`exit 75`, func(p *worker.Plan) { p.StopAfter = 2 }, false, store.Counts{Ready: 4, Delayed: 2}},
		"Stop":      {holds, func(p *worker.Plan) { p.Grace = 0 }, true, store.Counts{Ready: 6}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.enqueue("j", keys("k", 6)...)
			spec := b.job("j", jobs.Serial, c.text)
			spec.Policy.BackoffBase, spec.Policy.BackoffCap = time.Hour, time.Hour
			p := plan(serial(spec))
			p.Batch = 4
			c.set(&p)
			r := b.startWith(p, options{wait: 20 * time.Millisecond})
			for i := 0; !r.hasEnded() && i < 4; i++ {
				unlock := b.lock()
				if c.stop && i == 0 {
					r.soft()
				}
				time.Sleep(80 * time.Millisecond)
				unlock()
				time.Sleep(time.Duration(1+i) * time.Millisecond)
			}
			r.wait()
			c.want.Enqueued = 6
			if got := b.counts(); name != "StopAfter" && got != c.want || got.Left()+got.Done != 6 {
				t.Errorf("counts are %+v; want %+v", got, c.want)
			}
		})
	}
}

// A run that ends before its heart beats once has recorded into a file that
// nobody finds any more: it must not end as if all was well.
func TestFault_FileReplacedAtTheEnd(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	r := b.startWith(plan(serial(b.job("j", jobs.Serial, `say start; wait_for go`))), options{replaced: true})
	b.begun("a")
	b.must(os.Rename(b.path, b.path+".moved"))
	b.touch("go")
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	b.must(os.Rename(b.path+".moved", b.path))
	if r.err == nil || !strings.Contains(r.err.Error(), "no longer the file") {
		t.Errorf("it says %v", r.err)
	}
}

// The file was replaced under a live run (a restored backup, a moved file):
// what runs is ended, because its result could not be recorded, and it says so.
func TestFault_FileReplaced(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	p := plan(serial(b.job("j", jobs.Serial, `trap '' TERM; say start; wait_for never`)))
	p.Lease = 200 * time.Millisecond
	r := b.startWith(p, options{replaced: true})
	b.begun("a")
	b.until("its pid is on record", func() bool {
		var pid int
		b.sqlRow(&pid, "SELECT pid FROM slot")
		return pid > 0
	})
	b.must(os.Rename(b.path, b.path+".moved"))
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("it does not notice")
	}
	b.must(os.Rename(b.path+".moved", b.path))
	if r.err == nil || !strings.Contains(r.err.Error(), "no longer the file") {
		t.Errorf("it says %v", r.err)
	}
	if e := b.log()[0]; alive(e.pid) {
		t.Errorf("process %d lives", e.pid)
	}
	if b.ran("b", "start") > 0 {
		t.Error("it went on")
	}
}

// SQLite's heartbeat starved for 15 s among writers, and the job ran twice
// (DotNetWorkQueue#328, #294).
func TestFault_HeartbeatAmongWriters(t *testing.T) {
	slow(t)
	b := setup(t)
	b.enqueue("j", "a")
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	p.Lease, p.Wait = 4*time.Second, true
	r := b.start(p)
	b.begun("a")
	second := b.start(p)
	ctx, stop := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for i := range 3 {
		db := b.open(sqlite.Options{})
		writing.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				e := store.Enqueue{Job: "other"}
				for k := range store.MaxRows {
					e.Items = append(e.Items, store.NewItem{Key: []byte(strconv.Itoa(i) + "-" + strconv.Itoa(n*store.MaxRows+k))})
				}
				_, err := db.Enqueue(context.Background(), e)
				b.check(err)
			}
		})
	}
	until := func() (ms int64) { b.sqlRow(&ms, "SELECT until FROM claim"); return ms }
	for range 3 {
		was := until()
		b.until("the lease is renewed", func() bool { return until() > was })
	}
	stop()
	writing.Wait()
	b.touch("go")
	r.wait()
	second.wait()
	b.once("a")
	if c := b.counters("j"); c.Lapses+c.Crashes+c.Stale != 0 {
		t.Errorf("%+v", c)
	}
}

// The database fails for good while items run: the run ends what runs, says
// so, and the next one looks after it.
func TestFault_Damaged(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	p := plan(lane("parallel", 2, b.job("j", "parallel", `say start; [ $key = a ] && wait_for go || wait_for never; say end`)))
	r := b.start(p)
	b.begun("a")
	b.begun("b")
	b.exec("ALTER TABLE slot RENAME TO elsewhere")
	b.touch("go")
	select {
	case <-r.done:
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	b.exec("ALTER TABLE elsewhere RENAME TO slot")
	if r.err == nil {
		t.Error("it says nothing")
	}
	for _, e := range b.log() {
		if alive(e.pid) {
			t.Errorf("process %d of %s lives", e.pid, e.key)
		}
	}
	p.Lanes[0].Jobs[0] = b.job("j", "parallel", quick)
	if sum := b.work(p); sum.Done != 2 {
		t.Errorf("%+v", sum)
	}
}
