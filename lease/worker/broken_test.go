package worker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// A command that can't be executed is the job's fault: nobody is charged, and
// it is not tried with each item (HQ#780, xargs's 126 and 127).
func TestBroken_CantExec(t *testing.T) {
	b := setup(t)
	b.enqueue("nope", keys("n", 5)...)
	b.enqueue("fine", keys("f", 5)...)
	nope := b.job("nope", "parallel", "")
	nope.Handler = jobs.Handler{Dir: b.dir, Command: []string{"./not-there", "{}"}}
	nope.Policy.MaxAttempts = 1
	p := plan(lane("parallel", 2, nope, b.job("fine", "parallel", quick)))
	p.Wait = true
	sum := b.work(p)
	if !strings.Contains(sum.Broken["nope"], "not-there") || len(sum.Broken) != 1 || sum.Done != 5 || sum.Dead+sum.Retried != 0 {
		t.Errorf("%+v", sum)
	}
	b.wantCounts(store.Counts{Ready: 5, Done: 5})
	attempts := 0
	for _, k := range keys("n", 5) {
		b.want(k, jobs.Ready, 0, 0)
		attempts += b.item(k).Attempt
	}
	if attempts > 2 {
		t.Errorf("it was tried %d times, with two slots", attempts)
	}
	b.must(os.WriteFile(filepath.Join(b.dir, "not-there"), []byte("#!/bin/sh\n"), 0o700))
	if sum := b.work(p); sum.Done != 5 || len(sum.Broken) != 0 {
		t.Errorf("after the repair: %+v", sum)
	}
}

// 126 and 127 before the command has proven itself: a shell's "not found" is
// the job's fault as well, at three different items in a row.
func TestBroken_Suspects(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		n       int
		wait    bool
		started int // most commands
	}{
		"ThreeInARow": {`say start; exit 127`, 10, false, 3},
		"Waiting":     {`say start; exit 126`, 10, true, 3},
		"All":         {`say start; exit 127`, 2, false, 2},
		"AllWaiting":  {`say start; exit 127`, 2, true, 2},
		"NotFound":    {`say start; no-such-command-here`, 10, false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			all := keys("k", c.n)
			b.enqueue("j", all...)
			p := plan(serial(b.job("j", jobs.Serial, c.text)))
			p.Wait = c.wait
			sum := b.work(p)
			if sum.Broken["j"] == "" || sum.Dead+sum.Retried+sum.Done != 0 || b.ran("", "start") != c.started {
				t.Errorf("%d started; %+v", b.ran("", "start"), sum)
			}
			for _, k := range all {
				b.want(k, jobs.Ready, 0, 0)
			}
		})
	}
}

// As soon as another item has ended otherwise, such a code is the item's own:
// a plain retry, also of those that came before.
func TestBroken_ProvenLater(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "a", "b", "c", "d")
	spec := b.job("j", jobs.Serial, `say start; case $key in a|b|d) exit 127;; esac; say end`)
	spec.Policy.MaxAttempts = 3
	p := plan(serial(spec))
	p.Wait = true
	sum := b.work(p)
	if len(sum.Broken) != 0 || sum.Done != 1 || sum.Dead != 3 {
		t.Errorf("%+v", sum)
	}
	if got := b.order("start")[:3]; !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("started in the order %v", got)
	}
	for k, starts := range map[string]int{"a": 4, "b": 4, "c": 1, "d": 3} {
		if n := b.ran(k, "start"); n != starts {
			t.Errorf("%s started %d times; want %d", k, n, starts)
		}
	}
	b.want("a", jobs.Dead, 3, 0)
}

// With --wait a job is not given up while an item of it is still to be
// started that may prove the command.
func TestBroken_ProvenByADelayedItem(t *testing.T) {
	b := setup(t)
	b.enqueueAs("j", store.NewItem{Delay: 500 * time.Millisecond}, "later")
	b.enqueue("j", "a")
	p := plan(serial(b.job("j", jobs.Serial, `say start; [ $key$BATCHQ_ATTEMPT != a1 ] || exit 127; say end`)))
	p.Wait = true
	sum := b.work(p)
	if len(sum.Broken) != 0 || sum.Done != 2 {
		t.Errorf("%+v", sum)
	}
	if got := b.order("start"); !slices.Equal(got, []string{"a", "later", "a"}) {
		t.Errorf("started in the order %v", got)
	}
}

// A code to which the job itself gives a meaning is never suspect.
func TestBroken_Named(t *testing.T) {
	b := setup(t)
	b.enqueue("j", keys("k", 5)...)
	spec := b.job("j", jobs.Serial, `exit 127`)
	spec.Policy.Codes.Permanent = append(slices.Clone(spec.Policy.Codes.Permanent), 127)
	if sum := b.work(plan(serial(spec))); sum.Dead != 5 || len(sum.Broken) != 0 {
		t.Errorf("%+v", sum)
	}
}

// No process can be made for an item now: it is released, free; a run that
// stays tries it again, and one that does not leaves.
func TestBroken_CantFork(t *testing.T) {
	slow(t)
	b := setup(t)
	b.enqueue("j", "a")
	path := filepath.Join(b.dir, "busy")
	b.must(os.WriteFile(path, []byte("#!/bin/sh\nexit 0\n"), 0o700))
	writer, err := os.OpenFile(path, os.O_WRONLY, 0) // ETXTBSY as long as it is open
	b.must(err)
	spec := b.job("j", jobs.Serial, "")
	spec.Handler = jobs.Handler{Dir: b.dir, Command: []string{"./busy"}}
	spec.Policy.MaxAttempts = 1
	p := plan(serial(spec))
	if sum := b.work(p); sum.Done+sum.Dead+sum.Retried != 0 || len(sum.Broken) != 0 || sum.Books.Ready != 1 {
		t.Errorf("%+v", sum)
	}
	b.want("a", jobs.Ready, 0, 0)
	p.Wait = true
	r := b.start(p)
	b.until("it was tried and released", func() bool { return len(r.said("released")) > 0 })
	b.must(writer.Close())
	if sum := r.wait(); sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
}
