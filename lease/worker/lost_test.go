package worker_test

import (
	"context"
	"database/sql"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/lease"
	"batchq/store"
	"batchq/store/sqlite"
)

// stranger is a registered run that does nothing by itself.
func (b *bundle) stranger() (*lease.Run, *sqlite.DB) {
	b.Helper()
	own := b.open(sqlite.Options{})
	r, err := lease.Register(context.Background(), own, lease.Options{Database: b.path, Lease: time.Minute, Note: func(jobs.Note) {}})
	b.must(err)
	b.Cleanup(func() { _ = r.Close(context.Background(), store.RunEnd{}) }) // it may be closed already
	return r, own
}

// Another run has taken over while this one works (it was taken for dead):
// its command is ended, its result refused and counted, and it claims no more,
// because that would be taken from it as well.
func TestLost_Claim(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c")
	p := plan(serial(b.job("j", jobs.Serial, `say start; wait_for never; say end`)))
	p.Lease = 200 * time.Millisecond
	r := b.start(p)
	b.begun("a")
	other, own := b.stranger()
	_, err := own.TakeOver(context.Background(), r.lease.Info.ID, other.Info.ID, store.DeathLease, time.Minute)
	b.must(err)
	sum := r.wait()
	if sum.Stale != 1 || sum.Interrupted != 0 || sum.Done != 0 {
		t.Errorf("%+v", sum)
	}
	if got := b.log(); len(got) != 1 || alive(got[0].pid) {
		t.Errorf("the log says %v", got)
	}
	// a is the other's now, who has not looked after it yet.
	b.wantCounts(store.Counts{Running: 1, Ready: 2})
	if c := b.counters("j"); c.Stale != 1 || c.Lapses != 1 {
		t.Errorf("%+v", c)
	}
	if len(r.said("took this one for dead")) != 1 {
		t.Error("nobody is told why it left")
	}
}

// The old owner's late result cleared the new owner's lock, and a third start
// was the end of it (delayed_job_active_record#193, delayed_job#554). A is
// stopped for longer than its lease, in a pid namespace of its own, where it
// can't be ended; B takes over, and A comes back while B is at it.
func TestLost_StoppedAndBack(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	spec := b.job("j", jobs.Serial, `say start; wait_for go$BATCHQ_ATTEMPT; say end`)
	spec.Policy.Timeout, spec.Policy.MaxCrashes = 5*time.Minute, 5
	p := plan(serial(spec))
	x := b.process(p)
	b.begun("a")
	b.exec("UPDATE run SET pid_ns = 'pid:[1]'")
	// With the write lock in our hands: stopped inside a transaction it would
	// hold everybody up.
	b.withSQL(func(db *sql.DB) error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		if _, err := tx.Exec("UPDATE book SET one = 1"); err != nil {
			return err
		}
		x.signal(syscall.SIGSTOP)
		return tx.Rollback()
	})
	look := func() {
		t.Helper()
		r, _ := b.stranger()
		b.must(r.Rescue(context.Background()))
		b.until("the orphans are settled, or are stuck", func() bool { n, stuck := r.Pending(); return n == 0 || stuck })
		b.must(r.Close(context.Background(), store.RunEnd{}))
	}
	b.clock.Add(int64(61 * time.Second))
	look()
	b.clock.Add(int64(31 * time.Second))
	look()
	if x.hasEnded() {
		t.Fatal("it was ended, though nobody can tell which process it is")
	}
	b.want("a", jobs.Running, 0, 0) // until its timeout would have ended it
	b.want("b", jobs.Ready, 0, 0)
	b.clock.Add(int64(5 * time.Minute))
	look()
	b.want("a", jobs.Ready, 0, 1)

	r := b.start(p)
	b.until("B works the first of them", func() bool { return b.ran("", "start") == 2 })
	b.touch("go1") // the command of A ends, and B's first
	x.signal(syscall.SIGCONT)
	sum := x.wait()
	if sum.Stale != 1 || sum.Done != 0 || sum.Claims != 1 {
		t.Errorf("A: %+v", sum)
	}
	b.touch("go2")
	if sum := r.wait(); sum.Done != 2 || sum.Stale != 0 {
		t.Errorf("B: %+v", sum)
	}
	if b.ran("a", "start") != 2 || b.ran("b", "start") != 1 {
		t.Errorf("a started %d times, b %d times", b.ran("a", "start"), b.ran("b", "start"))
	}
	b.want("a", jobs.Done, 0, 1)
	if c := b.counters("j"); c.Stale != 1 || c.Crashes != 1 || c.Lapses != 1 {
		t.Errorf("%+v", c)
	}
}

// An item was taken from the run and is ready again before the run knows:
// it does not start it beside itself.
func TestLost_NotBesideItself(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	r := b.start(plan(lane("parallel", 2, b.job("j", "parallel", `guard 1; say start; wait_for go; say end`))))
	b.begun("a")
	other, own := b.stranger()
	ctx := context.Background()
	_, err := own.TakeOver(ctx, r.lease.Info.ID, other.Info.ID, store.DeathLease, time.Minute)
	b.must(err)
	orphans, err := own.Orphans(ctx, other.Info.ID)
	b.must(err)
	b.must(own.SettleOrphan(ctx, other.Info.ID, orphans[0], orphans[0].Policy.AfterCrash(orphans[0].It)))
	b.enqueue("j", "b") // by which the run sees that something has changed
	b.until("b is at its guard", func() bool { return b.ran("b", "over")+b.ran("b", "start") > 0 || r.hasEnded() })
	b.touch("go")
	sum := r.wait()
	if b.ran("a", "start") != 1 || sum.Stale != 1 {
		t.Errorf("a started %d times; %+v", b.ran("a", "start"), sum)
	}
}

// Somebody has deleted the claim's row under a live run: it ends what it runs,
// the items come back, and it works them again (asynq#1144).
func TestLost_ClaimDeleted(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	p := plan(serial(b.job("j", jobs.Serial, `say start; [ $key$BATCHQ_ATTEMPT != a1 ] || wait_for never; say end`)))
	p.Lease = 200 * time.Millisecond
	r := b.start(p)
	b.begun("a")
	b.exec("DELETE FROM claim")
	r.wait()
	b.wantCounts(store.Counts{Done: 2})
	if n := b.ran("a", "end"); n != 1 {
		t.Errorf("a came to its end %d times", n)
	}
}
