package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/store"
)

// records is a source made of steps.
type records struct {
	steps []step
	n     int64
	buf   []byte // reused, as a reader's is
}

type step struct {
	key      string
	payload  []byte
	scope    *string
	priority int
	reason   string // not "": rejected
	err      error  // not nil: the end
	pause    time.Duration
	wait     chan struct{} // not nil: until it is closed
}

func (r *records) Next() (store.Record, error) {
	if int(r.n) == len(r.steps) {
		return store.Record{}, io.EOF
	}
	s := r.steps[r.n]
	r.n++
	time.Sleep(s.pause)
	if s.wait != nil {
		<-s.wait
	}
	where := store.Where{Name: "in", Line: r.n}
	switch {
	case s.err != nil:
		return store.Record{}, s.err
	case s.reason != "":
		return store.Record{}, &store.Rejected{Where: where, Reason: s.reason}
	}
	r.buf = append(append(r.buf[:0], s.key...), s.payload...)
	rec := store.Record{Key: r.buf[:len(s.key)], Scope: s.scope, Priority: s.priority, Where: where}
	if s.payload != nil {
		rec.Payload = r.buf[len(s.key):]
	}
	return rec, nil
}

// queue keeps what it is given; it knows keys only.
type queue struct {
	has      map[string]store.Outcome // what is there, and what meeting it means
	payloads map[string]string
	sizes    []int
	most     int // bytes in one transaction
	times    []time.Time
	err      error
	errAt    int // the transaction that fails
}

func (q *queue) Enqueue(_ context.Context, e store.Enqueue) (store.Enqueued, error) {
	if q.err != nil && len(q.sizes) == q.errAt {
		return store.Enqueued{}, q.err
	}
	q.sizes, q.times = append(q.sizes, len(e.Items)), append(q.times, time.Now())
	size := 0
	var out []store.Outcome
	for _, it := range e.Items {
		size += len(it.Key) + len(it.Payload)
		o, there := q.has[string(it.Key)]
		switch {
		case !there && !e.DryRun:
			q.has[string(it.Key)] = store.Duplicate
			q.payloads[string(it.Key)] = string(it.Payload)
		case there && e.OnDuplicate == store.Fail:
			return store.Enqueued{Outcomes: append(out, store.Stopped)}, nil
		}
		out = append(out, o)
	}
	q.most = max(q.most, size)
	return store.Enqueued{Outcomes: out}, nil
}

func newQueue() *queue { return &queue{has: map[string]store.Outcome{}, payloads: map[string]string{}} }

func run(t *testing.T, f store.Feed, q store.Enqueuer, steps []step) (store.Fed, error) {
	t.Helper()
	f.Job, f.Keep = "j", 2
	return f.Run(context.Background(), q, &records{steps: steps})
}

func numbered(n int) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i].key = fmt.Sprint("key", i)
	}
	return steps
}

func TestFeed_Portions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		fed, err := run(t, store.Feed{}, q, numbered(2500))
		if err != nil || fed.Added != 2500 || fed.Read != 2500 || len(q.has) != 2500 {
			t.Fatalf("%+v, %v, %d items", fed, err, len(q.has))
		}
		for i, n := range q.sizes {
			if n > store.MaxRows {
				t.Errorf("transaction %d has %d rows", i, n)
			}
			if i > 0 && !q.times[i].After(q.times[i-1]) {
				t.Errorf("no breath before transaction %d", i)
			}
		}
		if len(q.sizes) > 4 {
			t.Errorf("%d transactions: %v", len(q.sizes), q.sizes)
		}
	})
}

// Payloads bound a transaction too; a record that is larger than the bound
// gets one of its own, and every byte arrives.
func TestFeed_Bytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mib = 1 << 20
		var steps []step
		want := map[string]string{}
		for i := range 12 {
			size := mib
			if i == 5 {
				size = 9 * mib
			}
			s := step{key: fmt.Sprint(i), payload: bytes.Repeat([]byte{byte('a' + i)}, size)}
			want[s.key] = string(s.payload)
			steps = append(steps, s)
		}
		q := newQueue()
		if _, err := run(t, store.Feed{}, q, steps); err != nil {
			t.Fatal(err)
		}
		if q.most > 9*mib+1 {
			t.Errorf("a transaction of %d bytes", q.most)
		}
		if !cmp.Equal(q.payloads, want) {
			t.Error("payloads differ")
		}
	})
}

// An empty payload is not the same as none.
func TestFeed_NoPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got [][]byte
		q := enqueuer(func(e store.Enqueue) {
			for _, it := range e.Items {
				got = append(got, it.Payload)
			}
		})
		if _, err := run(t, store.Feed{}, q, []step{{key: "a"}, {key: "b", payload: []byte{}}}); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != nil || got[1] == nil {
			t.Errorf("%#v", got)
		}
	})
}

type enqueuer func(store.Enqueue)

func (f enqueuer) Enqueue(_ context.Context, e store.Enqueue) (store.Enqueued, error) {
	f(e)
	return store.Enqueued{Outcomes: make([]store.Outcome, len(e.Items))}, nil
}

func TestFeed_Counts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for k, o := range map[string]store.Outcome{"dup": store.Duplicate, "done": store.DuplicateDone, "conflict": store.Conflict,
			"dead": store.InDLQ, "rep": store.Replaced, "req": store.Requeued, "conflict2": store.Conflict, "conflict3": store.Conflict} {
			q.has[k] = o
		}
		fed, err := run(t, store.Feed{}, q, []step{{key: "new"}, {key: "dup"}, {reason: "bad"}, {key: "done"}, {key: "conflict"}, {key: "dead"},
			{key: "rep"}, {key: "req"}, {key: "conflict2"}, {key: "conflict3"}, {reason: "worse"}, {reason: "worst"}})
		if err != nil {
			t.Fatal(err)
		}
		at := func(line int64) store.Where { return store.Where{Name: "in", Line: line} }
		want := store.Fed{Read: 12, Added: 1, Duplicate: 2, DuplicateDone: 1, Conflict: 3, Dead: 1, Replaced: 1, Requeued: 1, Rejected: 3,
			Rejects:   []store.Rejected{{Where: at(3), Reason: "bad"}, {Where: at(11), Reason: "worse"}},
			Conflicts: []store.Named{{Where: at(5), Key: []byte("conflict")}, {Where: at(9), Key: []byte("conflict2")}},
			InDLQ:     []store.Named{{Where: at(6), Key: []byte("dead")}}}
		if d := cmp.Diff(want, fed); d != "" {
			t.Error(d)
		}
	})
}

// A record that brings its own scope brings its priority, too; a dry run takes
// the same key in two scopes for two items.
func TestFeed_OwnScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mon, tue := "mon", "tue"
		list := []step{{key: "a"}, {key: "a", scope: &mon, priority: 7}, {key: "a", scope: &tue}, {key: "a", scope: &mon, priority: 7}}
		f := store.Feed{Scope: "sun", Priority: 3}
		var got []string
		q := enqueuer(func(e store.Enqueue) {
			for _, it := range e.Items {
				scope := e.Scope
				if it.Scope != nil {
					scope = *it.Scope
				}
				got = append(got, fmt.Sprint(scope, it.Priority))
			}
		})
		if _, err := run(t, f, q, list); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"sun3", "mon7", "tue0", "mon7"}, got); d != "" {
			t.Error(d)
		}
		f.DryRun = true
		fed, err := run(t, f, nil, list)
		if err != nil || fed.Added != 3 || fed.Duplicate != 1 {
			t.Errorf("dry run: %+v, %v", fed, err)
		}
	})
}

// What was read before an error is in, and counted.
func TestFeed_SourceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		broken := errors.New("broken")
		fed, err := run(t, store.Feed{}, q, append(numbered(1500), step{err: broken}))
		if !errors.Is(err, broken) || fed.Added != 1500 || len(q.has) != 1500 {
			t.Errorf("%+v, %v", fed, err)
		}
	})
}

func TestFeed_QueueFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.err, q.errAt = store.ErrFull, 1
		fed, err := run(t, store.Feed{}, q, numbered(5000))
		if !errors.Is(err, store.ErrFull) || fed.Added != int64(len(q.has)) || fed.Added == 0 || fed.Added > store.MaxRows {
			t.Errorf("%+v, %v", fed, err)
		}
	})
}

// Records of a slow producer do not wait for a full portion.
func TestFeed_SlowProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		steps := numbered(3)
		for i := range steps {
			steps[i].pause = time.Minute
		}
		if _, err := run(t, store.Feed{}, q, steps); err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(q.sizes, []int{1, 1, 1}) {
			t.Errorf("transactions of %v", q.sizes)
		}
	})
}

// A stop does not wait for a producer that says nothing.
func TestFeed_Stopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		gate := make(chan struct{})
		defer close(gate)
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errors.New("told to"))
		defer cancel()
		f := store.Feed{Job: "j"}
		start := time.Now()
		fed, err := f.Run(ctx, q, &records{steps: append(numbered(3), step{wait: gate})})
		if err == nil || err.Error() != "told to" || fed.Added != 3 || time.Since(start) != time.Second {
			t.Errorf("%+v, %v after %v", fed, err, time.Since(start))
		}
	})
}

// OnDuplicate Fail ends the list where it is; nothing after it is counted.
func TestFeed_Fail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.has["there"] = store.Duplicate
		fed, err := run(t, store.Feed{OnDuplicate: store.Fail}, q, []step{{key: "a"}, {reason: "bad"}, {key: "there"}, {reason: "after"}, {key: "b"}})
		want := store.Fed{Read: 3, Added: 1, Rejected: 1,
			Rejects: []store.Rejected{{Where: store.Where{Name: "in", Line: 2}, Reason: "bad"}},
			Stop:    &store.Named{Where: store.Where{Name: "in", Line: 3}, Key: []byte("there")}}
		if d := cmp.Diff(want, fed); err != nil || d != "" {
			t.Error(err, d)
		}
	})
}

// A dry run finds what the list itself repeats.
func TestFeed_DryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := []byte("1"), []byte("2")
		list := []step{{key: "a", payload: one}, {key: "a", payload: one}, {key: "a", payload: two}, {key: "b"}, {key: "b"}, {key: "b", payload: []byte{}}}
		for _, c := range []struct {
			mode store.OnDuplicate
			want store.Fed
		}{
			{store.Skip, store.Fed{Added: 2, Duplicate: 2, Conflict: 2}},
			{store.Requeue, store.Fed{Added: 2, Duplicate: 2, Conflict: 2}},
			{store.Replace, store.Fed{Added: 2, Replaced: 4}},
		} {
			for _, q := range []store.Enqueuer{nil, newQueue()} {
				f := store.Feed{Job: "j", DryRun: true, OnDuplicate: c.mode}
				fed, err := f.Run(context.Background(), q, &records{steps: list})
				c.want.Read = 6
				if d := cmp.Diff(c.want, fed); err != nil || d != "" {
					t.Errorf("%s: %v %s", c.mode, err, d)
				}
			}
		}
		f := store.Feed{Job: "j", DryRun: true, OnDuplicate: store.Fail}
		fed, err := f.Run(context.Background(), nil, &records{steps: list})
		if err != nil || fed.Added != 1 || fed.Stop == nil || fed.Stop.Line != 2 {
			t.Errorf("fail: %+v, %v", fed, err)
		}
	})
}
