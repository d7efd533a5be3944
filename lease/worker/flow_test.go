package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
)

// paced is a job of which few may start at once.
func (b *bundle) paced(name string, r jobs.Rate) *jobs.Spec {
	s := b.job(name, "parallel", quick)
	s.Rate = r
	return s
}

// A job that has to wait for its rate keeps neither slots nor the batch from
// another one, and the run stays until all of it is done.
func TestFlow_RateStallsNobody(t *testing.T) {
	bubble(t, func(b *bundle) {
		b.enqueue("slow", keys("s", 30)...)
		b.enqueue("fast", keys("f", 40)...)
		p := plan(lane("parallel", 2, b.paced("slow", jobs.Rate{Count: 10, Per: time.Second}), b.job("fast", "parallel", quick)))
		p.Batch = 8
		sum := b.work(p)
		b.once(append(keys("s", 30), keys("f", 40)...)...)
		after := 0 // slow ones that ended after the last fast one
		for _, key := range b.order("end") {
			if after++; key[0] == 'f' {
				after = 0
			}
		}
		if sum.Done != 70 || after < 10 {
			t.Errorf("%d done, %d slow ones after the last fast one", sum.Done, after)
		}
	})
}

// What a pause takes out of a run's hands is nobody's fault, what runs of it
// finishes, and the run goes on with the rest.
func TestFlow_PausedUnderARun(t *testing.T) {
	b := setup(t)
	b.enqueue("a", keys("a", 20)...)
	p := plan(lane("parallel", 2, b.job("a", "parallel", holds), b.job("b", "parallel", quick)))
	r := b.start(p)
	b.begun("a1")
	b.begun("a2")
	ctx := context.Background()
	b.must(b.db.Pause(ctx, []store.Target{{Job: "a"}}, "ann", "the database moves"))
	b.wantCounts(store.Counts{Running: 2, Ready: 18})
	b.enqueue("b", keys("b", 5)...)
	b.touch("go")
	sum := r.wait()
	if sum.Done != 7 || len(sum.Holds) != 1 || sum.Holds[0].Job != "a" || sum.Holds[0].Pause == nil || sum.Holds[0].Pause.Reason != "the database moves" {
		t.Errorf("%+v", sum)
	}
	b.wantCounts(store.Counts{Done: 7, Ready: 18})
	if sum := b.work(p); sum.Done != 0 || len(sum.Holds) != 1 {
		t.Errorf("a run beside the pause: %+v", sum)
	}
	p.Wait = true
	waiting := b.start(p)
	b.until("it says what it waits for", func() bool {
		return len(waiting.said("waiting: job a is paused by ann: the database moves")) == 1
	})
	_, err := b.db.Resume(ctx, nil)
	b.must(err)
	if sum := waiting.wait(); sum.Done != 18 {
		t.Errorf("after it was resumed: %+v", sum)
	}
	b.once(append(keys("a", 20), keys("b", 5)...)...)
}

// A paused lane leaves the other lanes alone.
func TestFlow_PausedLane(t *testing.T) {
	b := setup(t)
	b.enqueue("a", "a1")
	b.enqueue("b", "b1")
	ctx := context.Background()
	b.must(b.db.Pause(ctx, []store.Target{{Lane: "parallel"}}, "ann", ""))
	p := plan(serial(b.job("a", jobs.Serial, quick)), lane("parallel", 2, b.job("b", "parallel", quick)))
	sum := b.work(p)
	b.wantCounts(store.Counts{Done: 1, Ready: 1})
	if len(sum.Holds) != 1 || sum.Holds[0].Job != "" || sum.Holds[0].Pause.Lane != "parallel" {
		t.Errorf("%+v", sum.Holds)
	}
	_, err := b.db.Resume(ctx, []store.Target{{Lane: "parallel"}})
	b.must(err)
	b.work(p)
	b.wantCounts(store.Counts{Done: 2})
}

// A reload moves what waits to the job's new lane, what was held unstarted
// too, and leaves alone what runs, also of a lane that is declared no more.
func TestFlow_Reload(t *testing.T) {
	b := setup(t)
	b.enqueue("heavy", "h1")
	b.enqueue("old", "o1")
	b.enqueue("quick", keys("q", 5)...)
	reload := make(chan struct{}, 1)
	heavy, old := b.job("heavy", jobs.Serial, holds), b.job("old", "old", holds)
	before := plan(serial(heavy, b.job("quick", jobs.Serial, quick)), lane("old", 1, old))
	before.Follow, before.Reload = true, reload
	wrong := true
	before.Reread = func() (worker.Plan, error) {
		if wrong {
			wrong = false
			return worker.Plan{}, fmt.Errorf("batchq.toml:3: rubbish")
		}
		return plan(serial(heavy), lane("parallel", 2, b.job("quick", "parallel", quick))), nil
	}
	r := b.start(before)
	b.begun("h1")
	b.begun("o1")
	b.until("the quick ones are held behind it", func() bool { return b.counts().Claimed == 5 })
	reload <- struct{}{}
	b.until("it says that the file is wrong", func() bool {
		return len(r.said("the configuration was not reloaded, the old one stays: batchq.toml:3: rubbish")) == 1
	})
	if b.ran("", "end") != 0 {
		t.Error("something has ended")
	}
	reload <- struct{}{}
	b.until("the quick ones are done", func() bool { return b.counts().Done == 5 })
	b.wantCounts(store.Counts{Done: 5, Running: 2})
	b.enqueue("old", "o2")
	b.touch("go")
	b.until("the others are done", func() bool { return b.counts().Done == 7 })
	r.soft()
	if sum := r.wait(); sum.Done != 7 || !sum.Stopped {
		t.Errorf("%+v", sum)
	}
	b.want("o2", jobs.Ready, 0, 0) // its job is declared no more
	b.once(append(keys("q", 5), "h1", "o1")...)
}

// A run that follows has nothing to follow when every job is broken.
func TestFlow_FollowsNothing(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a")
	s := b.job("j", jobs.Serial, "")
	s.Handler.Shell, s.Handler.Command = "", []string{"./missing"}
	p := plan(serial(s))
	p.Follow = true
	if sum := b.work(p); len(sum.Broken) != 1 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Ready, 0, 0)
}

// A job that is promoted by another run's file moves within a lease, held ones
// too, and what runs is not touched.
func TestFlow_PromotedByAnotherRun(t *testing.T) {
	b := setup(t)
	b.enqueue("heavy", "h1")
	b.enqueue("quick", keys("q", 5)...)
	heavy := b.job("heavy", jobs.Serial, holds)
	before := plan(serial(heavy, b.job("quick", jobs.Serial, quick)))
	before.Lease = time.Second
	r := b.start(before)
	b.begun("h1")
	b.until("the quick ones are held behind it", func() bool { return b.counts().Claimed == 5 })
	after := plan(serial(heavy), lane("parallel", 2, b.job("quick", "parallel", quick)))
	after.Wait, after.Lanes = true, after.Lanes[1:]
	if sum := b.work(after); sum.Done != 5 {
		t.Errorf("%+v", sum)
	}
	b.want("h1", jobs.Running, 0, 0)
	b.touch("go")
	r.wait()
	b.once(append(keys("q", 5), "h1")...)
}

// A run that has had its limit says nothing of a lane that was full before: it
// wanted nothing there any more, and what filled it was a dead run's.
func TestFlow_LimitReachedBesideAFullLane(t *testing.T) {
	b := setup(t)
	b.enqueue("s", "s1", "s2")
	b.enqueue("q", "q1", "q2", "q3")
	p := plan(serial(b.job("s", jobs.Serial, holds)), lane("parallel", 1, b.job("q", "parallel", quick)))
	first := p
	first.Lanes = p.Lanes[:1]
	x := b.start(first)
	b.begun("s1")
	p.Limit = 2
	sum := b.work(p)
	if sum.Done != 2 || len(sum.FullLanes) != 0 {
		t.Errorf("%d done, full: %+v", sum.Done, sum.FullLanes)
	}
	b.touch("go")
	x.wait()
}
