package worker_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// guarded is quick under a guard, long enough to meet others.
func guarded(n int) string { return fmt.Sprintf(`guard %d; say start; sleep 0.01; say end`, n) }

func TestWidth(t *testing.T) {
	b := setup(t)
	all := keys("k", 60)
	b.enqueue("j", all...)
	sum := b.work(plan(lane("parallel", 4, b.job("j", "parallel", guarded(4)))))
	b.once(all...)
	if sum.Done != 60 || b.most() > 4 || b.most() < 2 {
		t.Errorf("%d done, %d at once", sum.Done, b.most())
	}
}

// Slots stood idle while items waited (solid_queue#456, #476). Here each item
// waits until all slots are filled beside it: one idle slot would stop it all.
func TestWidth_NoIdleSlot(t *testing.T) {
	const slots, n = 4, 32
	for _, batch := range []int{slots, slots + 1, 11, 100} {
		b := setup(t)
		b.enqueue("j", keys("k", n)...)
		p := plan(lane("parallel", slots, b.job("j", "parallel", fmt.Sprintf(
			`say start; need=$(( (${key#k} + %d) / %d * %d )); while [ $(grep -c start log) -lt $need ]; do sleep 0.01; done; say end`, slots-1, slots, slots))))
		p.Batch = batch
		if sum := b.work(p); sum.Done != n || b.most() > slots {
			t.Errorf("batch %d: %d done, %d at once", batch, sum.Done, b.most())
		}
	}
}

// A slow item stalls nobody: 19 of 20 were recorded only when the last one was
// (graphile PR#99). And after kill -9 only the slow one runs again.
func TestWidth_OneSlowItem(t *testing.T) {
	b := setup(t)
	b.enqueue("j", append([]string{"slow"}, keys("k", 99)...)...)
	p := plan(lane("parallel", 8, b.job("j", "parallel", `say start; [ $key != slow ] || wait_for go; say end`)))
	p.Batch = 20 // so that the slow one outlives its batch as well
	x := b.process(p)
	b.until("99 are done", func() bool { return b.counts().Done == 99 })
	b.want("slow", jobs.Running, 0, 0)
	x.kill()
	r := b.start(p)
	b.until("the slow one runs again", func() bool { return b.ran("slow", "start") == 2 })
	b.touch("go")
	sum := r.wait()
	b.once(keys("k", 99)...)
	if b.ran("slow", "start") != 2 || b.ran("slow", "end") != 1 || sum.Done != 1 {
		t.Errorf("the slow one started %d times; %+v", b.ran("slow", "start"), sum)
	}
	b.want("slow", jobs.Done, 0, 1)
}

// Two runs share a lane's slots, and each item goes to one of them
// (payload#17441, djjob#2, embedded-queue#31, huey#123).
func TestWidth_TwoRuns(t *testing.T) {
	b := setup(t)
	all := keys("k", 120)
	b.enqueue("j", all...)
	p := plan(lane("parallel", 4, b.job("j", "parallel", guarded(4))))
	p.Batch, p.Wait = 10, true
	one, two := b.start(p), b.process(p)
	done := one.wait().Done + two.wait().Done
	b.once(all...)
	b.wantCounts(store.Counts{Done: 120})
	if c := b.counters("j"); done != 120 || c.Stale+c.Crashes+c.Retries != 0 {
		t.Errorf("%d done, %+v", done, c)
	}
	if b.most() > 4 {
		t.Errorf("%d at once", b.most())
	}
}

// A run that finds the lane full says who has it, holds nothing, and leaves;
// the one that has it goes on.
func TestWidth_FullLane(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c")
	p := plan(lane("parallel", 2, b.job("j", "parallel", holds)))
	p.Batch = 2
	first := b.start(p)
	b.begun("a")
	b.begun("b")
	sum := b.work(p)
	if len(sum.FullLanes) != 1 || sum.Done != 0 {
		t.Fatalf("%+v", sum)
	}
	f := sum.FullLanes[0]
	if f.Name != "parallel" || f.Slots != 2 || f.InUse != 2 || len(f.Holders) != 1 || f.Holders[0].Run != first.lease.Info.ID || f.Holders[0].Slots != 2 {
		t.Errorf("it says %+v", f)
	}
	if sum.Books.Left() != 3 {
		t.Errorf("%d are left", sum.Books.Left())
	}
	b.wantCounts(store.Counts{Running: 2, Ready: 1})
	b.touch("go")
	if sum := first.wait(); sum.Done != 3 || len(sum.FullLanes) != 0 {
		t.Errorf("%+v", sum)
	}
}

// A lane of which a dead run has all slots is not full: it is rescued first,
// and the run that would have left stays for what comes of it.
func TestWidth_LaneFullOfTheDead(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	one := b.process(p)
	b.begun("a")
	other := plan(lane("other", 1, b.job("k", "other", holds)), p.Lanes[0])
	b.enqueue("k", "k1")
	r := b.start(other) // its first look finds nobody dead
	b.begun("k1")
	one.kill()
	b.touch("go")
	if sum := r.wait(); len(sum.FullLanes) != 0 || sum.Done != 3 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Done, 0, 1)
	b.want("b", jobs.Done, 0, 0)
}

// Limit 1 ran 11 times after a hiccup or a restart (solid_queue#735, #761):
// whoever is killed when, what runs is never more than the lane allows.
func TestWidth_KillAndRestart(t *testing.T) {
	slow(t)
	b := setup(t)
	all := keys("k", 60)
	b.enqueue("j", all...)
	spec := b.job("j", "parallel", `guard 4; say start; sleep 0.05; say end`)
	spec.Policy.MaxCrashes = 100
	p := plan(lane("parallel", 4, spec))
	p.Batch, p.Wait = 8, true
	for i := range 8 {
		was := b.ran("", "start")
		x, y := b.process(p), b.process(p)
		b.until("it is at work", func() bool { return b.ran("", "start") >= was+3 || b.counts().Left() == 0 })
		x.kill()
		if i%2 == 0 {
			y.kill()
			continue
		}
		y.signal(syscall.SIGTERM)
		y.wait()
	}
	b.work(p)
	if n := b.ran("", "over"); n > 0 {
		t.Errorf("%d times there were more than 4 at once", n)
	}
	b.wantCounts(store.Counts{Done: 60})
	for _, k := range all {
		if b.ran(k, "end") < 1 {
			t.Errorf("%s has never come to its end", k)
		}
	}
}

// What one attempt uses of a pool is counted over all lanes and runs, told to
// the command, and what does not fit is passed over by what does.
func TestWidth_Pools(t *testing.T) {
	b := setup(t)
	big, none := b.job("big", "parallel", `say start; echo "$BATCHQ_USES_DB $BATCHQ_THREADS" > uses; wait_for go; say end`), b.job("none", "parallel", quick)
	big.Uses = map[string]int{"db": 7}
	b.enqueue("big", keys("big", 4)...)
	p := plan(lane("parallel", 8, big, none))
	p.Pools = map[string]int{"db": 15}
	r := b.start(p)
	b.until("two are running", func() bool { return b.ran("", "start") == 2 })
	b.enqueue("none", keys("none", 20)...)
	b.until("what needs none of it passes by", func() bool { return b.counts().Done == 20 })
	other := b.job("other", "second", quick)
	other.Uses = map[string]int{"db": 2}
	b.enqueue("other", "o1")
	q := plan(lane("second", 8, other))
	q.Pools = p.Pools
	if sum := b.work(q); sum.Done != 0 || b.item("o1").State != jobs.Ready {
		t.Errorf("one share is left, and it took two: %+v", sum)
	}
	if got := strings.TrimSpace(b.file("uses")); got != "7 7" {
		t.Errorf("the command was told %q", got)
	}
	b.touch("go")
	if sum := r.wait(); sum.Done != 24 {
		t.Errorf("%+v", sum)
	}
	n, most := 0, 0
	for _, e := range b.log() {
		if strings.HasPrefix(e.key, "big") {
			n += map[string]int{"start": 1, "end": -1}[e.what]
			most = max(most, n)
		}
	}
	if most != 2 {
		t.Errorf("%d of the big ones at once", most)
	}
}

func TestWidth_JobInFlight(t *testing.T) {
	b := setup(t)
	one, free := b.job("one", "parallel", `guard 1; say start; sleep 0.01; say end`), b.job("free", "parallel", `say start; sleep 0.01; say end`)
	one.InFlight = 1
	b.enqueue("one", keys("one", 12)...)
	b.enqueue("free", keys("free", 30)...)
	sum := b.work(plan(lane("parallel", 4, one, free)))
	b.once(append(keys("one", 12), keys("free", 30)...)...)
	if sum.Done != 42 {
		t.Errorf("%+v", sum)
	}
}

// Two items whose run died under them are never in flight together in one
// run; others run beside them, and don't wait for them.
func TestWidth_CrashedApart(t *testing.T) {
	b := setup(t)
	hot := keys("hot", 6)
	b.enqueue("j", hot...)
	p := plan(lane("parallel", 6, b.job("j", "parallel", `say start; wait_for never`)))
	x := b.process(p)
	b.until("six are running", func() bool { return b.ran("", "start") == 6 })
	x.kill()
	b.write("log", "")
	p.Lanes[0].Jobs[0] = b.job("j", "parallel", `case $key in hot*) guard 1; say start; wait_for go;; *) say start;; esac; say end`)
	p.Lanes[0].Slots = 3
	r := b.start(p)
	b.until("one of them runs", func() bool { return b.ran("", "start") == 1 })
	b.enqueue("j", keys("good", 10)...)
	b.until("the others are done beside it", func() bool { return b.counts().Done == 10 })
	b.touch("go")
	if sum := r.wait(); sum.Done != 16 {
		t.Errorf("%+v", sum)
	}
	b.once(append(hot, keys("good", 10)...)...)
	for _, k := range hot {
		b.want(k, jobs.Done, 0, 1)
	}
}

// A run that is full of long items rescues all the same: nothing of it needs
// a slot (procrastinate#1408: there the rescue is itself a job, and stalls).
func TestWidth_RescueNeedsNoSlot(t *testing.T) {
	b := setup(t)
	b.enqueue("long", "l1")
	p := plan(serial(b.job("long", jobs.Serial, holds)))
	p.Lease = 400 * time.Millisecond
	r := b.start(p)
	b.begun("l1")
	b.enqueue("j", "a", "b", "c")
	x := b.process(plan(lane("parallel", 1, b.job("j", "parallel", `say start; wait_for never`))))
	b.until("a runs", func() bool { return b.ran("", "start") == 2 })
	x.kill()
	b.until("all are ready again", func() bool { return b.counts().Ready == 3 })
	if r.hasEnded() || b.item("l1").State != jobs.Running {
		t.Error("the long item did not stay in flight")
	}
	b.touch("go")
	r.wait()
}
