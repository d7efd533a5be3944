package worker_test

import (
	"slices"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// One at a time, higher priorities first, then as they came. An engine that
// returns a batch in the order of its rows had it otherwise.
func TestWork_SerialOrder(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "b", "c")
	b.enqueueAs("j", store.NewItem{Priority: -5}, "d")
	b.enqueueAs("j", store.NewItem{Priority: 5}, "a")
	sum := b.work(plan(serial(b.job("j", jobs.Serial, `guard 1; say start; sleep 0.01; say end`))))
	if got := b.order("start"); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("started in the order %v", got)
	}
	b.once("a", "b", "c", "d")
	if b.most() != 1 || sum.Done != 4 || sum.Claims != 1 || sum.Books.Done != 4 {
		t.Errorf("%d at once, %+v", b.most(), sum)
	}
}

func TestWork_Nothing(t *testing.T) {
	b := setup(t)
	for _, wait := range []bool{false, true} {
		p := plan(serial(b.job("j", jobs.Serial, quick)))
		p.Wait = wait
		if sum := b.work(p); sum.Claims != 0 || sum.Books != (store.Counts{}) {
			t.Errorf("worked nothing: %+v", sum)
		}
	}
}

// More than a batch: claimed anew until nothing is left, in order.
func TestWork_ManyBatches(t *testing.T) {
	b := setup(t)
	all := keys("k", 23)
	b.enqueue("j", all...)
	p := plan(serial(b.job("j", jobs.Serial, quick)))
	p.Batch = 5
	sum := b.work(p)
	b.once(all...)
	if got := b.order("start"); !slices.Equal(got, all) || sum.Claims != 5 {
		t.Errorf("%d claims, in the order %v", sum.Claims, got)
	}
}

// One producer starved the others (mosquito#167, postel#126, gradient#111,
// uwazi#8062): with 10,000 of A before it, B starts within one batch, whether
// it was there before or comes while a batch of A is held.
func TestWork_NobodyStarves(t *testing.T) {
	const batch = 10
	for _, late := range []bool{false, true} {
		b := setup(t)
		b.enqueue("a", keys("a", 10_000)...)
		p := plan(serial(b.job("a", jobs.Serial, `say start; [ "$key" != a1 ] || wait_for go`), b.job("b", jobs.Serial, quick)))
		p.Batch = batch
		if !late {
			b.enqueue("b", "b1")
		}
		r := b.start(p)
		b.begun("a1")
		if late {
			b.enqueue("b", "b1")
		}
		b.touch("go")
		b.begun("b1")
		r.soft()
		r.wait()
		if at := slices.Index(b.order("start"), "b1"); at > batch {
			t.Errorf("late %v: B started after %d of A; a batch is %d", late, at, batch)
		}
	}
}

// Lanes are worked side by side by one process, and each goes on looking as
// long as the process lives: a short item that arrives while the heavy one
// runs in serial is worked at once.
func TestWork_LanesSideBySide(t *testing.T) {
	b := setup(t)
	b.enqueue("heavy", "h1", "h2")
	r := b.start(plan(serial(b.job("heavy", jobs.Serial, holds)), lane("light", 2, b.job("light", "light", quick))))
	b.begun("h1")
	b.enqueue("light", "l1")
	b.until("l1 is done", func() bool { return b.item("l1").State == jobs.Done })
	b.enqueue("light", "l2", "l3")
	b.until("l2 and l3 are done", func() bool { return b.counts().Done == 3 })
	if r.hasEnded() || b.ran("h2", "start") > 0 {
		t.Error("the heavy lane has moved")
	}
	b.touch("go")
	r.wait()
	b.once("h1", "h2", "l1", "l2", "l3")
}

// What was held unstarted for a whole lease is given back, so that an urgent
// item which came meanwhile is next.
func TestWork_UrgentAfterALease(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c")
	p := plan(serial(b.job("j", jobs.Serial, holds)))
	p.Lease = 300 * time.Millisecond
	r := b.start(p)
	b.begun("a")
	b.enqueueAs("j", store.NewItem{Priority: 10}, "urgent")
	if c := b.counts(); c.Claimed != 2 {
		t.Fatalf("%d are held", c.Claimed)
	}
	b.until("what is held is given back", func() bool { return b.counts().Claimed == 0 })
	if c := b.counts(); c.Ready != 3 || c.Running != 1 {
		t.Errorf("%+v", c)
	}
	b.touch("go")
	sum := r.wait()
	if got := b.order("start"); !slices.Equal(got, []string{"a", "urgent", "b", "c"}) {
		t.Errorf("started in the order %v", got)
	}
	b.once("a", "b", "c", "urgent")
	if sum.Done != 4 || b.counters("j").Lapses != 0 {
		t.Errorf("%+v", sum)
	}
}

// The leases of a batch's later items ended before they started
// (titen#151, deltallm#249, Myriad#311). And: it was measured from when the
// item was due (plainjob). Neither must matter, with a second run beside.
func TestWork_BatchOutlivesItsLease(t *testing.T) {
	slow(t)
	b := setup(t)
	all := keys("k", 12)
	b.enqueueAs("j", store.NewItem{At: time.Now().Add(-time.Hour)}, all...)
	p := plan(serial(b.job("j", jobs.Serial, `guard 1; say start; sleep 0.2; say end`)))
	p.Lease, p.Wait = time.Second, true
	one, two := b.start(p), b.start(p)
	done := one.wait().Done + two.wait().Done
	b.once(all...)
	b.wantCounts(store.Counts{Done: 12})
	if c := b.counters("j"); done != 12 || c.Crashes+c.Lapses+c.Stale+c.Retries != 0 {
		t.Errorf("%d done, %+v", done, c)
	}
	for _, k := range all {
		if it := b.item(k); it.Attempt != 1 {
			t.Errorf("%s had %d attempts", k, it.Attempt)
		}
	}
}
