package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// lease is what claims of the tests get.
const lease = time.Minute

// spec is the job called name. A test that needs limits changes it before use.
func (w *world) spec(name string) *jobs.Spec {
	s := w.specs[name]
	if s == nil {
		s = &jobs.Spec{Name: name, Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}
		w.specs[name] = s
	}
	return s
}

func (w *world) specsOf(names ...string) (specs []*jobs.Spec) {
	for _, n := range names {
		specs = append(specs, w.spec(n))
	}
	return specs
}

// enqueue adds e by w.db.
func (w *world) enqueue(e store.Enqueue) []store.Outcome {
	w.t.Helper()
	if e.OnDuplicate == "" {
		e.OnDuplicate = store.Skip
	}
	return must(w.db.Enqueue(w.ctx, e))(w).Outcomes
}

// add enqueues keys, all of which have to be new.
func (w *world) add(job string, keys ...string) {
	w.t.Helper()
	items := make([]store.NewItem, len(keys))
	for i, k := range keys {
		items[i].Key = []byte(k)
	}
	w.addItems(job, items...)
}

func (w *world) addItems(job string, items ...store.NewItem) {
	w.t.Helper()
	for part := range slices.Chunk(items, store.MaxRows) {
		for i, o := range w.enqueue(store.Enqueue{Job: job, Items: part}) {
			if o != store.Added {
				w.t.Fatalf("item %q was not added: outcome %d", part[i].Key, o)
			}
		}
	}
}

// numbered is n keys in order: "k0001", "k0002", …
func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%04d", i+1)
	}
	return keys
}

// register writes a run into the book.
func (w *world) register(token string) int64 {
	w.t.Helper()
	return must(w.db.Register(w.ctx, store.RunInfo{Token: token, PID: 4711, PIDStart: 99, BootID: "boot", PIDNS: "ns",
		Host: "host", Command: []string{"batchq", "work"}}))(w)
}

// request asks for up to n items of the jobs, in the serial lane, with room
// for everything.
func (w *world) request(run int64, n int, jobNames ...string) store.ClaimRequest {
	return store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: w.specsOf(jobNames...), Max: n, Lease: lease}
}

func (w *world) claim(run int64, n int, jobNames ...string) store.Claim {
	w.t.Helper()
	return must(w.db.Claim(w.ctx, w.request(run, n, jobNames...)))(w)
}

func keysOf(c store.Claim) []string {
	keys := []string{}
	for _, it := range c.Items {
		keys = append(keys, string(it.Key))
	}
	return keys
}

// wantKeys compares the keys of a claim, in order, with words.
func (w *world) wantKeys(c store.Claim, words string) {
	w.t.Helper()
	if diff := cmp.Diff(strings.Fields(words), keysOf(c)); diff != "" {
		w.t.Errorf("claimed (-want +got):\n%s", diff)
	}
}

func heldOf(c store.Claim) []store.Held {
	held := make([]store.Held, len(c.Items))
	for i, it := range c.Items {
		held[i] = store.Held{Item: it.ID, Claim: c.ID}
	}
	return held
}

// startOf asks for all items of a claim to be started.
func (w *world) startOf(c store.Claim) store.Start {
	s := store.Start{Lane: c.Lane, Want: len(c.Items)}
	for _, it := range c.Items {
		s.Items = append(s.Items, store.StartItem{Held: store.Held{Item: it.ID, Claim: c.ID}, Spec: w.spec(it.Job)})
	}
	return s
}

// start starts every item of a claim; all must have room.
func (w *world) start(run int64, c store.Claim) []store.Started {
	w.t.Helper()
	out := w.advance(store.Advance{Run: run, Start: []store.Start{w.startOf(c)}})
	if len(out.Started) != len(c.Items) {
		w.t.Fatalf("started %d of %d items: %+v", len(out.Started), len(c.Items), out)
	}
	return out.Started
}

func (w *world) advance(a store.Advance) store.Advanced {
	w.t.Helper()
	return must(w.db.Advance(w.ctx, a))(w)
}

// settlement is the result of a started item under a verdict.
func settlement(s store.Started, v jobs.Verdict) store.Settlement {
	return store.Settlement{Held: s.Held, Attempt: s.Attempt, Verdict: v, Result: jobs.Result{Duration: 1500 * time.Millisecond}}
}

// settle records the same verdict for all; none may be refused.
func (w *world) settle(run int64, v jobs.Verdict, started ...store.Started) {
	w.t.Helper()
	a := store.Advance{Run: run}
	for _, s := range started {
		a.Settle = append(a.Settle, settlement(s, v))
		a.Close = append(a.Close, s.Claim)
	}
	if out := w.advance(a); len(out.Stale) > 0 {
		w.t.Fatalf("results were refused: %+v", out.Stale)
	}
}

// Verdicts as jobs.Policy.Judge makes them.
var (
	done      = jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}
	dead      = jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: "exit 65"}
	crashed   = jobs.Verdict{To: jobs.Ready, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash, Reason: "its run died (crash 1 of 3)"}
	crashDead = jobs.Verdict{To: jobs.Dead, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash, Reason: "its run died (crash 3 of 3)"}
	free      = jobs.Verdict{To: jobs.Ready, Class: jobs.ClassFree, Reason: "interrupted: the run was stopped"}
)

func retry(after time.Duration) jobs.Verdict {
	return jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassRetry, Charge: jobs.ChargeFailure, Delay: after, Reason: "exit 75"}
}

func deferral(after time.Duration) jobs.Verdict {
	return jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassDefer, Charge: jobs.ChargeDefer, Delay: after, Reason: "not yet"}
}

func (w *world) items(s store.Selection) []store.ItemRow {
	w.t.Helper()
	return must(w.db.Items(w.ctx, s))(w)
}

// item is the only item with that key, dropped ones apart.
func (w *world) item(key string) store.ItemRow {
	w.t.Helper()
	items := w.items(store.Selection{Key: []byte(key)})
	if len(items) != 1 {
		w.t.Fatalf("%d items with key %q, want 1", len(items), key)
	}
	return items[0]
}

// states is "key=state" of every item, oldest first.
func (w *world) states() string {
	w.t.Helper()
	var b strings.Builder
	for _, it := range w.items(store.Selection{}) {
		fmt.Fprintf(&b, "%s=%s ", it.Key, it.State)
	}
	return strings.TrimSpace(b.String())
}

func (w *world) wantStates(words string) {
	w.t.Helper()
	equal(w, w.states(), words, "states")
}

func (w *world) counts() store.Counts {
	w.t.Helper()
	return must(w.db.Counts(w.ctx, nil, nil))(w)
}

// job is what stats says of one job.
func (w *world) job(name string) store.JobStats {
	w.t.Helper()
	for _, j := range must(w.db.Stats(w.ctx))(w).Jobs {
		if j.Name == name {
			return j
		}
	}
	w.t.Fatalf("stats does not know job %q", name)
	return store.JobStats{}
}

// putIn brings a new item into a state, by the way that leads there.
func (w *world) putIn(s jobs.State, job string, n store.NewItem) {
	w.t.Helper()
	if s == jobs.Delayed {
		n.Delay = time.Hour
	}
	w.addItems(job, n)
	if s == jobs.Ready || s == jobs.Delayed {
		return
	}
	id := w.item(string(n.Key)).ID
	if s == jobs.Dropped {
		equal(w, must(w.db.Drop(w.ctx, []int64{id}))(w).Moved, 1, "dropped")
		return
	}
	run := w.register("putting " + string(n.Key) + " in " + s.String())
	c := w.claim(run, 1, job)
	w.wantKeys(c, string(n.Key))
	if s == jobs.Claimed {
		return
	}
	started := w.start(run, c)
	switch s {
	case jobs.Done:
		w.settle(run, done, started...)
	case jobs.Dead:
		w.settle(run, dead, started...)
	}
}

// idsOf lists the ids of every item, oldest first.
func (w *world) idsOf(s store.Selection) []int64 {
	w.t.Helper()
	return must(w.db.Select(w.ctx, s))(w)
}

func ptr[T any](v T) *T { return &v }
