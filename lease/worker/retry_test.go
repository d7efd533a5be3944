package worker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Retries come back after their backoff, until they are done or their
// attempts are spent; --wait stays for all of it.
func TestRetry_UntilDone(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "soon", "late", "never", "bad", "good")
	spec := b.job("j", "parallel", `say start
		case $key in soon) [ $BATCHQ_ATTEMPT -ge 2 ];; late) [ $BATCHQ_ATTEMPT -ge 4 ];; never) exit 75;; bad) exit 65;; esac`)
	spec.Policy.MaxAttempts = 4
	p := plan(lane("parallel", 3, spec))
	p.Wait = true
	r := b.start(p)
	sum := r.wait()
	if sum.Done != 3 || sum.Dead != 2 || sum.Retried != 1+3+3 || sum.Books.Left() != 0 {
		t.Errorf("%+v", sum)
	}
	for k, starts := range map[string]int{"soon": 2, "late": 4, "never": 4, "bad": 1, "good": 1} {
		if n := b.ran(k, "start"); n != starts {
			t.Errorf("%s started %d times; want %d", k, n, starts)
		}
	}
	b.want("never", jobs.Dead, 4, 0)
	b.want("bad", jobs.Dead, 1, 0)
	b.want("late", jobs.Done, 3, 0)
	for _, v := range r.verdict["late"][:3] {
		if v.To != jobs.Delayed || v.Delay <= 0 || v.Delay > spec.Policy.BackoffCap {
			t.Errorf("a verdict was %+v", v)
		}
	}
}

// A handler that ignores its end held its slot for ever (WeKnora#3462), and a
// timeout that hit the leader alone left the rest (pueue#347, #372): the whole
// group is ended, KILL after kill_after, the slot is free, and it counts as a
// timeout.
func TestRetry_Timeout(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "deaf", "tree", "next")
	spec := b.job("j", jobs.Serial, `say start
		case $key in
		deaf) trap '' TERM; while :; do sleep 0.02; done;;
		tree) (sleep 100; say late) & sleep 100;;
		esac; say end`)
	spec.Policy.Timeout, spec.Policy.MaxAttempts = 300*time.Millisecond, 1
	sum := b.work(plan(serial(spec)))
	if sum.Dead != 2 || sum.Done != 1 {
		t.Errorf("%+v", sum)
	}
	for _, k := range []string{"deaf", "tree"} {
		b.want(k, jobs.Dead, 1, 0)
		if it := b.item(k); it.Class != jobs.ClassTimeout || !strings.Contains(it.Reason, "timed out") {
			t.Errorf("%s: %s, %q", k, it.Class, it.Reason)
		}
	}
	for _, e := range b.log() {
		if alive(e.pid) {
			t.Errorf("process %d of %s lives", e.pid, e.key)
		}
	}
	if c := b.counters("j"); c.Timeouts != 2 {
		t.Errorf("%+v", c)
	}
	if got := b.order("end"); !slices.Equal(got, []string{"next"}) {
		t.Errorf("%v came to their end", got)
	}
}

// What an item answers itself goes before its exit code.
func TestRetry_Answer(t *testing.T) {
	b := setup(t)
	b.enqueue("j", "later", "no", "yes")
	spec := b.job("j", jobs.Serial, `say start; case $key in
		later) [ $BATCHQ_ATTEMPT -ge 3 ] || echo '{"class":"defer","after":"10ms"}' > "$BATCHQ_RESULT";;
		no) echo '{"class":"permanent","error":"no such customer"}' > "$BATCHQ_RESULT"; exit 1;;
		yes) echo '{"class":"done"}' > "$BATCHQ_RESULT"; exit 1;; esac`)
	spec.Policy.MaxAttempts = 1
	p := plan(serial(spec))
	p.Wait = true
	sum := b.work(p)
	if sum.Done != 2 || sum.Dead != 1 || sum.Deferred != 2 {
		t.Errorf("%+v", sum)
	}
	b.want("later", jobs.Done, 0, 0)
	if it := b.item("no"); it.Reason != "no such customer" {
		t.Errorf("no: %q", it.Reason)
	}
}

// What the command is told about its attempt.
func TestRetry_Environment(t *testing.T) {
	b := setup(t)
	_, err := b.db.Enqueue(b.Context(), store.Enqueue{Job: "j", Scope: "s", Items: []store.NewItem{{Key: []byte("k"), Payload: []byte("the payload")}}})
	b.must(err)
	spec := b.job("j", jobs.Serial, `echo "$BATCHQ_JOB $BATCHQ_SCOPE $BATCHQ_KEY $BATCHQ_ATTEMPT $BATCHQ_CLAIM $BATCHQ_IDEMPOTENCY_KEY $BATCHQ_MARK $(cat)" >> env; [ $BATCHQ_ATTEMPT = 2 ]`)
	p := plan(serial(spec))
	p.Wait = true
	r := b.start(p)
	r.wait()
	lines := strings.Split(strings.TrimSpace(b.file("env")), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	one, two := strings.Fields(lines[0]), strings.Fields(lines[1])
	if got := strings.Join(one[:4], " "); got != "j s k 1" || two[3] != "2" || one[5] != two[5] || len(one[5]) != 32 || one[4] == two[4] || one[6] == two[6] {
		t.Errorf("the attempts were told\n%s\n%s", lines[0], lines[1])
	}
	if got := strings.Join(two[7:], " "); got != "the payload" {
		t.Errorf("its input was %q", got)
	}
	if want := r.lease.Mark(b.item("k").ID, 2); two[6] != want {
		t.Errorf("marked %s; want %s", two[6], want)
	}
}
