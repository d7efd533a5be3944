package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var enqueueCases = []testCase{
	{"Added", func(w *world) {
		out := w.enqueue(store.Enqueue{Job: "pos", Scope: "2026-11-29", Items: []store.NewItem{
			{Key: []byte("a"), Priority: 3}, {Key: []byte("b"), Delay: time.Hour}}})
		if diff := cmp.Diff([]store.Outcome{store.Added, store.Added}, out); diff != "" {
			w.t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		items := w.items(store.Selection{})
		now := dawn.UTC()
		want := []store.ItemRow{
			{Item: jobs.Item{ID: items[0].ID, Job: "pos", Scope: "2026-11-29", Key: []byte("a"), State: jobs.Ready, Priority: 3, Generation: 1, Due: now}, Created: now},
			{Item: jobs.Item{ID: items[0].ID + 1, Job: "pos", Scope: "2026-11-29", Key: []byte("b"), State: jobs.Delayed, Generation: 1, Due: now.Add(time.Hour)}, Created: now},
		}
		if diff := cmp.Diff(want, items); diff != "" {
			w.t.Errorf("items (-want +got):\n%s", diff)
		}
		equal(w, w.counts(), store.Counts{Enqueued: 2, Ready: 1, Delayed: 1}, "counts")
	}},
	{"Nothing", func(w *world) {
		equal(w, len(w.enqueue(store.Enqueue{Job: "pos"})), 0, "outcomes")
		equal(w, w.counts(), store.Counts{}, "counts")
	}},
	{"At", func(w *world) {
		// At is used instead of Delay; what is due already is ready.
		w.addItems("pos",
			store.NewItem{Key: []byte("past"), At: dawn.Add(-time.Hour), Delay: time.Hour},
			store.NewItem{Key: []byte("now"), At: dawn},
			store.NewItem{Key: []byte("soon"), At: dawn.Add(time.Millisecond)},
			store.NewItem{Key: []byte("elsewhere"), At: dawn.Add(time.Hour).In(time.FixedZone("", -8*60*60))})
		w.wantStates("past=ready now=ready soon=delayed elsewhere=delayed")
		equal(w, w.item("past").Due, dawn.Add(-time.Hour).UTC(), "due of the past one")
		equal(w, w.item("elsewhere").Due, dawn.Add(time.Hour).UTC(), "due of one given in another zone")
	}},
	{"TooMany", func(w *world) {
		items := make([]store.NewItem, store.MaxRows+1)
		for i := range items {
			items[i].Key = []byte(numbered(len(items))[i])
		}
		_, err := w.db.Enqueue(w.ctx, store.Enqueue{Job: "pos", Items: items, OnDuplicate: store.Skip})
		equal(w, err != nil, true, "more than MaxRows is refused")
		equal(w, w.counts(), store.Counts{}, "counts")
	}},
	{"NoKey", func(w *world) {
		for _, bad := range []store.NewItem{{}, {Key: []byte{}}, {Key: []byte("x"), Priority: jobs.MaxPriority + 1}, {Key: []byte("x"), Priority: -jobs.MaxPriority - 1}} {
			_, err := w.db.Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("good")}, bad}})
			w.isPlain(err)
		}
		equal(w, w.counts(), store.Counts{}, "one that is refused takes the transaction with it")
	}},
	{"Cancelled", func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}}
		if _, err := w.db.Enqueue(ctx, e); err == nil {
			// A transaction that is had is finished, whatever the context says since.
			equal(w, w.counts().Enqueued, 1, "said to be added")
			return
		}
		// oban#1087, #1093: what was not added is not reported as a duplicate.
		w.add("pos", "a")
	}},
	{"TwoProducers", func(w *world) {
		other := w.other()
		w.add("pos", "a")
		out := must(other.Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}, {Key: []byte("b")}}}))(w)
		if diff := cmp.Diff([]store.Outcome{store.Duplicate, store.Added}, out.Outcomes); diff != "" {
			w.t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		w.add("pos", "c")
		w.wantStates("a=ready b=ready c=ready")
	}},
	{"ScopeAndJobSeparateKeys", func(w *world) {
		for _, job := range []string{"pos", "settlement", "POS"} {
			for _, scope := range []string{"", "2026-11-29", "2026-11-30"} {
				out := w.enqueue(store.Enqueue{Job: job, Scope: scope, Items: []store.NewItem{{Key: []byte("a")}}})
				equal(w, out[0], store.Added, "key a of job %q, scope %q", job, scope)
			}
		}
		if diff := cmp.Diff([]string{"POS", "pos", "settlement"}, must(w.db.JobNames(w.ctx))(w)); diff != "" {
			w.t.Errorf("job names (-want +got):\n%s", diff)
		}
	}},
	{"ScopeNames", func(w *world) {
		for _, in := range []struct{ job, scope string }{{"pos", "a"}, {"pos", ""}, {"other", "b"}, {"third", "c"}, {"pos", "d"}, {"other", "a"}} {
			w.enqueue(store.Enqueue{Job: in.job, Scope: in.scope, Items: []store.NewItem{{Key: []byte("k")}}})
		}
		for _, c := range []struct {
			jobs  []string
			limit int
			want  string
		}{
			{nil, 9, "d c b a"}, {nil, 2, "d c"}, {[]string{}, 9, ""}, {[]string{"pos"}, 9, "d a"}, {[]string{"pos"}, 1, "d"},
			{[]string{"pos", "other"}, 9, "d b a"}, {[]string{"other", "pos"}, 2, "d b"}, {[]string{"unknown"}, 9, ""},
		} {
			got := strings.Join(must(w.other().ScopeNames(w.ctx, c.jobs, c.limit))(w), " ")
			equal(w, got, c.want, "the newest %d scopes of %v", c.limit, c.jobs)
		}
	}},
	{"OwnScope", func(w *world) {
		// A record may bring a scope of its own; keys are unique in each.
		run := w.register("r")
		items := []store.NewItem{
			{Key: []byte("a")},
			{Key: []byte("a"), Scope: ptr("tue"), Payload: []byte("p"), Priority: 3},
			{Key: []byte("a"), Scope: ptr("")},
			{Key: []byte("a"), Scope: ptr("mon")},
		}
		for _, dry := range []bool{true, false} {
			out := w.enqueue(store.Enqueue{Job: "pos", Scope: "mon", Items: items[:3], DryRun: dry})
			if diff := cmp.Diff([]store.Outcome{store.Added, store.Added, store.Added}, out); diff != "" {
				w.t.Errorf("dry run %v: outcomes (-want +got):\n%s", dry, diff)
			}
		}
		for _, mode := range []store.OnDuplicate{store.Skip, store.Requeue, store.Replace, store.Fail} {
			for _, dry := range []bool{true, false} {
				out := w.enqueue(store.Enqueue{Job: "pos", Scope: "wed", Items: items[1:], OnDuplicate: mode, DryRun: dry})
				want := map[store.OnDuplicate]store.Outcome{store.Skip: store.Duplicate, store.Requeue: store.Duplicate, store.Replace: store.Replaced, store.Fail: store.Stopped}[mode]
				for i, o := range out {
					equal(w, o, want, "%s, dry run %v: item %d", mode, dry, i)
				}
			}
		}
		for scope, n := range map[string]int64{"mon": 1, "tue": 1, "": 1, "wed": 0} {
			equal(w, must(w.db.Counts(w.ctx, nil, &scope))(w).Ready, n, "ready in scope %q", scope)
		}
		c := w.claim(run, 1, "pos")
		equal(w, c.Items[0].Scope, "tue", "scope of the first, which has the priority")
		w.settle(run, dead, w.start(run, c)...)
		for mode, want := range map[store.OnDuplicate]store.Outcome{store.Requeue: store.Requeued, store.Replace: store.Replaced} {
			out := w.enqueue(store.Enqueue{Job: "pos", OnDuplicate: mode, Items: items[1:2]})
			equal(w, out[0], want, "a dead one by its own scope")
			for _, scope := range []string{"mon", "tue", ""} {
				equal(w, must(w.db.Counts(w.ctx, nil, &scope))(w), store.Counts{Enqueued: 1, Ready: 1}, "%s: counts of scope %q", mode, scope)
			}
			w.settle(run, dead, w.start(run, w.claim(run, 1, "pos"))...)
		}
	}},
	{"RepeatedInOnePortion", func(w *world) {
		// The second of two equal keys meets the first, also when both came at once.
		out := w.enqueue(store.Enqueue{Job: "pos", Items: repeated()})
		want := slices.Repeat([]store.Outcome{store.Added}, 60)
		want[40], want[55], want[59] = store.Conflict, store.Duplicate, store.Duplicate
		if diff := cmp.Diff(want, out); diff != "" {
			w.t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		c := w.job("pos").Counters
		equal(w, c.Duplicates, 2, "duplicates counted")
		equal(w, c.Conflicts, 1, "conflicts counted")
	}},
	{"RepeatedInOnePortion/Replace", func(w *world) {
		out := w.enqueue(store.Enqueue{Job: "pos", Items: repeated(), OnDuplicate: store.Replace})
		equal(w, out[40], store.Replaced, "the later of two")
		started := w.start(w.register("r"), w.claim(w.register("x"), 1, "pos"))
		equal(w, string(started[0].Payload), "other", "the payload that came last")
	}},
	{"RepeatedInOnePortion/Fail", func(w *world) {
		out := w.enqueue(store.Enqueue{Job: "pos", Items: repeated(), OnDuplicate: store.Fail})
		equal(w, len(out), 41, "outcomes end with the one that stopped it")
		equal(w, out[40], store.Stopped, "the later of two")
		equal(w, w.counts(), store.Counts{Enqueued: 40, Ready: 40}, "earlier lines stay, later ones are not tried")
	}},
	{"DropFreesKey", func(w *world) {
		w.putIn(jobs.Dropped, "pos", store.NewItem{Key: []byte("a"), Payload: []byte("old")})
		w.addItems("pos", store.NewItem{Key: []byte("a"), Payload: []byte("new")})
		w.wantStates("a=dropped a=ready")
		equal(w, w.counts(), store.Counts{Enqueued: 2, Ready: 1, Dropped: 1}, "counts")
	}},
	{"IDsAreNeverUsedAgain", func(w *world) {
		w.add("pos", "a", "b")
		last := w.item("b").ID
		must(w.db.Drop(w.ctx, []int64{last}))(w)
		w.enqueue(store.Enqueue{Job: "pos", Items: []store.NewItem{{Key: []byte("a")}}})
		must(w.other().Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("b")}}}))(w)
		if id := w.item("b").ID; id <= last {
			w.t.Errorf("the new item has id %d, after %d was given out", id, last)
		}
	}},
	{"IdempotencyKey", idempotencyKey},
}

// repeated is 60 items: the 41st is the 1st again with another payload, the
// 56th repeats the 3rd and the last the one before it.
func repeated() []store.NewItem {
	items := make([]store.NewItem, 60)
	for i, k := range numbered(60) {
		items[i].Key = []byte(k)
	}
	items[40] = store.NewItem{Key: items[0].Key, Payload: []byte("other")}
	items[55].Key = items[2].Key
	items[59].Key = items[58].Key
	return items
}

// isPlain wants an error that does not blame the database.
func (w *world) isPlain(err error) {
	w.t.Helper()
	if err == nil {
		w.t.Errorf("no error")
	} else if blamesFile(err) {
		w.t.Errorf("the caller's fault is reported as the file's: %v", err)
	}
}

// Other systems recognise a repetition by this key: it must be another one
// exactly when the work is another.
func idempotencyKey(w *world) {
	identity := must(w.db.Identity(w.ctx))(w)
	equal(w, must(w.other().Identity(w.ctx))(w), identity, "identity by another handle")
	key := func() string {
		it := w.item("a")
		return it.IdempotencyKey(identity)
	}
	put := func(payload string, mode store.OnDuplicate) store.Outcome {
		return w.enqueue(store.Enqueue{Job: "pos", OnDuplicate: mode, Items: []store.NewItem{{Key: []byte("a"), Payload: []byte(payload)}}})[0]
	}
	put("one", store.Skip)
	first := key()
	equal(w, put("one", store.Replace), store.Replaced, "replaced by the same")
	equal(w, key(), first, "after a replace that changed nothing")
	put("two", store.Replace)
	second := key()
	equal(w, second != first, true, "another key after the payload was replaced")

	run := w.register("r")
	w.settle(run, retry(time.Second), w.start(run, w.claim(run, 1, "pos"))...)
	equal(w, key(), second, "after an attempt")
	must(w.db.Requeue(w.ctx, []int64{w.item("a").ID}, []jobs.State{jobs.Delayed}))(w)
	equal(w, key(), second, "after a delayed one was made due")
	w.settle(run, dead, w.start(run, w.claim(run, 1, "pos"))...)
	must(w.db.Requeue(w.ctx, []int64{w.item("a").ID}, []jobs.State{jobs.Dead}))(w)
	equal(w, key(), second, "after a dead one was made ready: an earlier attempt may have had its effect")
	w.settle(run, done, w.start(run, w.claim(run, 1, "pos"))...)
	equal(w, key(), second, "when done")
	must(w.db.Requeue(w.ctx, []int64{w.item("a").ID}, []jobs.State{jobs.Done}))(w)
	third := key()
	equal(w, third != second, true, "another key after a done one was made ready")
	w.settle(run, done, w.start(run, w.claim(run, 1, "pos"))...)
	equal(w, put("two", store.Requeue), store.Requeued, "done, enqueued again")
	equal(w, key() != third, true, "another key after a done one was enqueued again")
}

// cell is what the table of --on-duplicate says for one state of the item
// that is there: for an equal payload and for another one.
type cell struct{ same, differs store.Outcome }

// duplicateTable is that table. Conflict is "the same key, another payload":
// what comes with the same payload is a duplicate in every column.
var duplicateTable = map[store.OnDuplicate]map[jobs.State]cell{
	store.Skip: {
		jobs.Ready:   {store.Duplicate, store.Conflict},
		jobs.Delayed: {store.Duplicate, store.Conflict},
		jobs.Claimed: {store.Duplicate, store.Conflict},
		jobs.Running: {store.Duplicate, store.Conflict},
		jobs.Done:    {store.DuplicateDone, store.Conflict},
		jobs.Dead:    {store.InDLQ, store.InDLQ}, // asynq#492, #842, #1055: it says "dead"
		jobs.Dropped: {store.Added, store.Added},
	},
	store.Replace: {
		jobs.Ready:   {store.Replaced, store.Replaced},
		jobs.Delayed: {store.Replaced, store.Replaced},
		jobs.Claimed: {store.Duplicate, store.Conflict},
		jobs.Running: {store.Duplicate, store.Conflict},
		jobs.Done:    {store.DuplicateDone, store.Conflict},
		jobs.Dead:    {store.Replaced, store.Replaced},
		jobs.Dropped: {store.Added, store.Added},
	},
	// A payload is never changed silently: to make ready what is there while
	// the line says something else would be worse than to say so.
	store.Requeue: {
		jobs.Ready:   {store.Duplicate, store.Conflict},
		jobs.Delayed: {store.Duplicate, store.Conflict},
		jobs.Claimed: {store.Duplicate, store.Conflict},
		jobs.Running: {store.Duplicate, store.Conflict},
		jobs.Done:    {store.Requeued, store.Conflict},
		jobs.Dead:    {store.Requeued, store.Conflict},
		jobs.Dropped: {store.Added, store.Added},
	},
	store.Fail: {
		jobs.Ready:   {store.Stopped, store.Stopped},
		jobs.Delayed: {store.Stopped, store.Stopped},
		jobs.Claimed: {store.Stopped, store.Stopped},
		jobs.Running: {store.Stopped, store.Stopped},
		jobs.Done:    {store.Stopped, store.Stopped},
		jobs.Dead:    {store.Stopped, store.Stopped},
		jobs.Dropped: {store.Added, store.Added},
	},
}

// onDuplicate walks every cell of the table.
func onDuplicate(t *testing.T, fresh Fresh) {
	for mode, column := range duplicateTable {
		t.Run(string(mode), func(t *testing.T) {
			for state, c := range column {
				t.Run(state.String(), func(t *testing.T) {
					t.Parallel()
					w := setup(t, fresh)
					w.meet(mode, state, "same", "payload", c.same)
					w.meet(mode, state, "differs", "another payload", c.differs)
				})
			}
		})
	}
}

// meet brings an item into a state and enqueues its key again with a payload
// of "payload" or another.
func (w *world) meet(mode store.OnDuplicate, state jobs.State, key, payload string, want store.Outcome) {
	w.t.Helper()
	w.putIn(state, "pos", store.NewItem{Key: []byte(key), Payload: []byte("payload"), Priority: 1})
	w.clock.Move(time.Second)
	before := w.items(store.Selection{})
	counts, counters := w.counts(), w.job("pos").Counters
	e := store.Enqueue{Job: "pos", OnDuplicate: mode, DryRun: true, Items: []store.NewItem{
		{Key: []byte("new before " + key)}, {Key: []byte(key), Payload: []byte(payload), Priority: 7}, {Key: []byte("new after " + key)}}}
	outcomes := []store.Outcome{store.Added, want, store.Added}
	if want == store.Stopped {
		outcomes = outcomes[:2]
	}
	for _, dry := range []bool{true, false} {
		e.DryRun = dry
		if diff := cmp.Diff(outcomes, w.enqueue(e)); diff != "" {
			w.t.Errorf("%s, dry run %v: outcomes (-want +got):\n%s", key, dry, diff)
		}
		if dry {
			if diff := cmp.Diff(before, w.items(store.Selection{})); diff != "" {
				w.t.Errorf("%s: a dry run changed (-want +got):\n%s", key, diff)
			}
			equal(w, w.counts(), counts, "counts after a dry run")
			equal(w, w.job("pos").Counters, counters, "counters after a dry run")
		}
	}
	w.metAs(before[len(before)-1], w.item(key), want, payload)
	// The next case of the same database begins with nothing to claim.
	if ids := w.idsOf(store.Selection{States: []jobs.State{jobs.Ready, jobs.Delayed}}); len(ids) > 0 {
		must(w.db.Drop(w.ctx, ids))(w)
	}
}

// metAs compares the item after the second enqueue with the one before.
func (w *world) metAs(was, is store.ItemRow, o store.Outcome, payload string) {
	w.t.Helper()
	now := w.clock.Now().UTC()
	want := was
	switch o {
	case store.Added:
		want.ID, want.Created, want.Due, want.State, want.Priority, want.Finished = is.ID, now, now, jobs.Ready, 7, time.Time{}
		equal(w, is.ID > was.ID, true, "a new id")
	case store.Replaced:
		want.Priority, want.Due, want.State, want.Finished = 7, now, jobs.Ready, time.Time{}
		want.Failures = 0
		if payload != "payload" {
			want.Generation++
		}
	case store.Requeued:
		want.Due, want.State, want.Finished, want.Failures = now, jobs.Ready, time.Time{}, 0
		if was.State == jobs.Done {
			want.Generation++
		}
	}
	if diff := cmp.Diff(want, is); diff != "" {
		w.t.Errorf("the item (-want +got):\n%s", diff)
	}
	if o != store.Added && o != store.Replaced && o != store.Requeued {
		return
	}
	run := w.register("after " + string(is.Key))
	for _, s := range w.start(run, w.claim(run, 100, "pos")) {
		if s.Item == is.ID {
			equal(w, string(s.Payload), payload, "payload of %s", is.Key)
		}
		w.settle(run, done, s)
	}
}
