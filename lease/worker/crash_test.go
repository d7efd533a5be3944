package worker_test

import (
	"testing"

	"batchq/jobs"
	"batchq/lease/worker"
	"batchq/store"
)

// 5,133 jobs stood as "running" for up to 91 days (riverqueue/river#1258,
// #682, #773): after kill -9 of the runner and its commands a rerun has all
// of it, at once.
func TestCrash_All(t *testing.T) {
	b := setup(t)
	all := keys("k", 10)
	b.enqueue("j", all...)
	p := plan(lane("parallel", 10, b.job("j", "parallel", `say start; wait_for never`)))
	x := b.process(p)
	b.until("all are running", func() bool { return b.ran("", "start") == 10 })
	x.kill()
	x.endItems()
	b.write("log", "")
	p.Lanes[0].Jobs[0] = b.job("j", "parallel", quick)
	r := b.start(p)
	sum := r.wait()
	if n := len(r.said("worked one at a time")); n != 1 {
		t.Errorf("that the others wait for one of them was said %d times", n)
	}
	b.once(all...)
	if sum.Done != 10 || sum.Books.Left() != 0 {
		t.Errorf("%+v", sum)
	}
	if c := b.counters("j"); c.Crashes != 10 {
		t.Errorf("%+v", c)
	}
}

// kill -9 of the runner alone: the second copy starts only when the first is
// gone (rush#69, nub#464).
func TestCrash_RunnerAlone(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b")
	p := plan(serial(b.job("j", jobs.Serial, `trap '' TERM; guard 1; say start; wait_for go; say end`)))
	x := b.process(p)
	b.begun("a")
	x.kill()
	r := b.start(p)
	b.until("a is done with, or b has come", func() bool { return b.ran("", "start") == 2 })
	b.touch("go")
	sum := r.wait()
	if sum.Done != 2 || b.ran("", "over") != 0 || b.ran("a", "end") != 1 {
		t.Errorf("%+v\n%s", sum, b.file("log"))
	}
}

// An item that kills its runner was tried for ever (sidekiq#4633, #4069,
// #5300; faktory#99, bee-queue#106). It ends in the dead-letter queue, and
// only it does.
func TestCrash_Poison(t *testing.T) {
	for name, width := range map[string]int{"Serial": 1, "Parallel": 4} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			good := keys("k", 30)
			b.enqueue("j", good[:7]...)
			b.enqueue("j", "poison")
			b.enqueue("j", good[7:]...)
			p := plan(lane("parallel", width, b.job("j", "parallel",
				`say start; if [ $key = poison ]; then kill -9 $PPID; wait_for never; fi; sleep 0.02; say end`)))
			p.Wait = true
			var last worker.Summary
			runs := 0
			for ; b.counts().Left() > 0; runs++ {
				if runs == 20 {
					t.Fatalf("after %d runs: %+v", runs, b.counts())
				}
				x := b.process(p)
				<-x.done
				last = x.sum
			}
			b.want("poison", jobs.Dead, 0, 3)
			b.wantCounts(store.Counts{Done: 30, Dead: 1})
			if n := b.ran("poison", "start"); n != 3 || runs != 4 || last.Dead != 1 {
				t.Errorf("it started %d times in %d runs, the last of which says %+v", n, runs, last)
			}
			for _, k := range good {
				it := b.item(k)
				if width == 1 && it.Crashes > 0 || it.Crashes > 1 {
					t.Errorf("%s is charged with %d crashes", k, it.Crashes)
				}
				if b.ran(k, "end") < 1 {
					t.Errorf("%s has never come to its end", k)
				}
			}
		})
	}
}

// A crash on the last attempt locked the item for good, and the queue behind
// it (graphile/worker#254): a crash is no failure.
func TestCrash_LastAttempt(t *testing.T) {
	for maxCrashes, want := range map[int]jobs.State{3: jobs.Done, 1: jobs.Dead} {
		b := setup(t)
		b.enqueue("j", "a", "b")
		spec := b.job("j", jobs.Serial, `say start; [ $key$BATCHQ_ATTEMPT != a1 ] || wait_for never; say end`)
		spec.Policy.MaxAttempts, spec.Policy.MaxCrashes = 1, maxCrashes
		p := plan(serial(spec))
		x := b.process(p)
		b.begun("a")
		x.kill()
		sum := b.work(p)
		b.want("a", want, 0, 1)
		b.want("b", jobs.Done, 0, 0)
		if want == jobs.Dead && (sum.Dead != 1 || b.item("a").Class != jobs.ClassCrash) {
			t.Errorf("%+v, class %s", sum, b.item("a").Class)
		}
	}
}
