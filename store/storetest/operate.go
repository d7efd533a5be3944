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

var operateCases = []testCase{
	{"Requeue", func(w *world) {
		w.add("pos", "dead", "done", "delayed")
		w.clock.Move(time.Second)
		run := w.register("r")
		s := w.start(run, w.claim(run, 3, "pos"))
		w.settle(run, dead, s[0])
		w.settle(run, done, s[1])
		w.settle(run, retry(time.Hour), s[2])
		w.clock.Move(time.Second)
		ids := w.idsOf(store.Selection{})
		equal(w, must(w.db.Requeue(w.ctx, ids, []jobs.State{jobs.Dead, jobs.Done, jobs.Delayed}))(w).Moved, 3, "moved")
		for _, it := range w.items(store.Selection{}) {
			key := string(it.Key)
			equal(w, it.State, jobs.Ready, "state of %s", key)
			equal(w, it.Due, w.clock.Now().UTC(), "due of %s", key)
			equal(w, it.Finished, time.Time{}, "finished of %s", key)
			equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{1, 0, 0, 0}, "attempt and budgets of %s", key)
			equal(w, it.Generation, map[string]int{"dead": 1, "done": 2, "delayed": 1}[key], "generation of %s", key)
		}
		w.wantKeys(w.claim(run, 100, "pos"), "dead done delayed")
	}},
	{"MovedFrom", func(w *world) {
		// What was moved is told by job and state; what was refused is not in it.
		ids := w.assorted()
		all := []int64{ids["a"], ids["b"], ids["c"], ids["d"], ids["e"], ids["f"], ids["g"], 999}
		from := func(m store.Moved, want ...store.JobState) {
			w.t.Helper()
			if diff := cmp.Diff(want, m.From); diff != "" {
				w.t.Errorf("moved from (-want +got):\n%s", diff)
			}
		}
		from(w.requeue(all, jobs.Dead, jobs.Done), store.JobState{Job: "pos", State: jobs.Done, Items: 1}, store.JobState{Job: "pos", State: jobs.Dead, Items: 2})
		from(w.requeue(all, jobs.Dead))
		from(must(w.db.Drop(w.ctx, all))(w), store.JobState{Job: "other", State: jobs.Ready, Items: 1}, store.JobState{Job: "pos", State: jobs.Ready, Items: 4})
	}},
	{"BudgetsAnew", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		for _, v := range []jobs.Verdict{crashed, deferral(0), retry(0), dead} {
			w.settle(run, v, w.start(run, w.claim(run, 1, "pos"))...)
		}
		it := w.item("a")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{4, 2, 1, 1}, "attempt and budgets before")
		w.requeue([]int64{it.ID}, jobs.Dead)
		it = w.item("a")
		equal(w, [4]int{it.Attempt, it.Failures, it.Crashes, it.Defers}, [4]int{4, 0, 0, 0}, "attempt and budgets after")
	}},
	{"OnlyFrom", func(w *world) {
		w.putIn(jobs.Done, "pos", store.NewItem{Key: []byte("done")})
		w.putIn(jobs.Dead, "pos", store.NewItem{Key: []byte("dead")})
		w.refuses(w.requeue(w.idsOf(store.Selection{}), jobs.Dead), 1, "it is done")
		w.wantStates("done=done dead=ready")
	}},
	{"RequeueRefuses", func(w *world) {
		// Whatever is asked for, an item that is held or settled for good stays.
		for _, s := range []jobs.State{jobs.Claimed, jobs.Running, jobs.Dropped, jobs.Ready} {
			w.putIn(s, "pos", store.NewItem{Key: []byte(s.String())})
		}
		before := w.states()
		ids := append(w.idsOf(store.Selection{}), 999)
		w.refuses(w.requeue(ids, jobs.States()...), 0, "it is claimed", "it is running", "dropped", "it is ready", "no item has this id")
		w.wantStates(before)
	}},
	{"RequeueTwiceInOneCall", func(w *world) {
		w.putIn(jobs.Dead, "pos", store.NewItem{Key: []byte("a")})
		id := w.item("a").ID
		w.refuses(w.requeue([]int64{id, id}, jobs.Dead), 1, "it is ready")
	}},
	{"KeyTakenAgain", func(w *world) {
		// river PR#619, oban#1416, riverui#622: one key conflict neither blocks
		// nor loses the other 999, and is told in plain words.
		w.putIn(jobs.Dropped, "pos", store.NewItem{Key: []byte("k0500")})
		w.add("pos", numbered(1000)...)
		run := w.register("r")
		c := w.claim(run, 1000, "pos")
		for i := 0; i < 1000; i += 500 {
			part := store.Claim{ID: c.ID, Lane: c.Lane, Items: c.Items[i : i+500]}
			w.settle(run, dead, w.start(run, part)...)
		}
		renewed := w.item("k0500").ID
		var ids []int64
		for _, it := range w.items(store.Selection{}) {
			if it.ID != renewed {
				ids = append(ids, it.ID)
			}
		}
		equal(w, len(ids), 1000, "ids")
		w.refuses(w.requeue(ids, jobs.Dead), 999, fmt.Sprintf("its key is item %d now", renewed))
		equal(w, w.counts(), store.Counts{Enqueued: 1001, Ready: 999, Dead: 1, Dropped: 1}, "counts")
	}},
	{"Drop", func(w *world) {
		for _, s := range jobs.States() {
			w.putIn(s, "pos", store.NewItem{Key: []byte(s.String()), Payload: []byte("p")})
			if s == jobs.Ready { // or it would be claimed for the next
				w.enqueue(store.Enqueue{Job: "pos", OnDuplicate: store.Replace, Items: []store.NewItem{{Key: []byte("ready"), Delay: time.Minute}}})
			}
		}
		w.clock.Move(time.Minute)
		w.claim(w.register("promotes"), 0, "pos")
		out := must(w.db.Drop(w.ctx, append(w.idsOf(store.Selection{}), 999)))(w)
		w.refuses(out, 3, "it is claimed", "it is running", "it is done", "dropped", "no item has this id")
		w.wantStates("ready=dropped delayed=dropped claimed=claimed running=running done=done dead=dropped dropped=dropped")
		for _, it := range w.items(store.Selection{States: []jobs.State{jobs.Dropped}}) {
			if string(it.Key) != "dropped" {
				equal(w, it.Finished, w.clock.Now().UTC(), "finished of %s", it.Key)
			}
		}
		w.clock.Move(2 * time.Hour)
		equal(w, len(w.claim(w.register("r"), 100, "pos").Items), 0, "items to claim after the drop")
		for _, s := range []string{"ready", "delayed", "dead", "dropped"} {
			w.add("pos", s)
		}
	}},
	{"TooMany", func(w *world) {
		w.add("pos", "a")
		ids := slices.Repeat([]int64{w.item("a").ID}, store.MaxRows+1)
		_, err := w.db.Drop(w.ctx, ids)
		w.isPlain(err)
		_, err = w.db.Requeue(w.ctx, ids, []jobs.State{jobs.Dead})
		w.isPlain(err)
		w.wantStates("a=ready")
	}},
	{"HistoryStays", func(w *world) {
		w.putIn(jobs.Dead, "pos", store.NewItem{Key: []byte("a")})
		w.requeue([]int64{w.item("a").ID}, jobs.Dead)
		it := w.item("a")
		equal(w, it.Reason, "exit 65", "reason of the last attempt that failed")
		run := w.register("again")
		w.settle(run, dead, w.start(run, w.claim(run, 1, "pos"))...)
		equal(w, must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)[0].Last.Number, 2, "number of the last attempt")
	}},
	{"NothingIsTrimmed", func(w *world) {
		// Sidekiq, asynq, River and Oban trim what is dead after a while or a
		// number: here it stays until a person says so.
		w.add("pos", numbered(1050)...)
		run := w.register("r")
		for {
			c := w.claim(run, 350, "pos")
			if len(c.Items) == 0 {
				break
			}
			w.settle(run, dead, w.start(run, c)...)
		}
		w.clock.Move(10 * 365 * 24 * time.Hour)
		w.add("pos", "later")
		w.claim(run, 100, "pos")
		equal(w, w.counts().Dead, 1050, "dead")
		equal(w, len(must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)), 1050, "dead letters")
	}},
}

func (w *world) requeue(ids []int64, from ...jobs.State) store.Moved {
	w.t.Helper()
	return must(w.db.Requeue(w.ctx, ids, from))(w)
}

// refuses wants moved items moved and the others refused, in order, each with
// a reason that contains the words.
func (w *world) refuses(m store.Moved, moved int, reasons ...string) {
	w.t.Helper()
	equal(w, m.Moved, moved, "moved")
	if len(m.Refused) != len(reasons) {
		w.t.Fatalf("refused %+v, want %d", m.Refused, len(reasons))
	}
	for i, r := range m.Refused {
		if !strings.Contains(r.Reason, reasons[i]) {
			w.t.Errorf("item %d is refused because %q, want %q", r.ID, r.Reason, reasons[i])
		}
	}
}

var selectCases = []testCase{
	{"Filters", func(w *world) {
		ids := w.assorted()
		for _, c := range []struct {
			name string
			s    store.Selection
			want string
		}{
			{"all", store.Selection{}, "a b c d e f g"},
			{"ids", store.Selection{IDs: []int64{ids["e"], ids["b"], 999}}, "b e"},
			{"no ids", store.Selection{IDs: []int64{}}, ""},
			{"jobs", store.Selection{Jobs: []string{"other", "unknown"}}, "g"},
			{"two jobs", store.Selection{Jobs: []string{"other", "pos"}}, "a b c d e f g"},
			{"no jobs", store.Selection{Jobs: []string{}}, ""},
			{"scope", store.Selection{Scope: ptr("tue")}, "d"},
			{"empty scope", store.Selection{Scope: ptr("")}, "a b c e f g"},
			{"unknown scope", store.Selection{Scope: ptr("wed")}, ""},
			{"key", store.Selection{Key: []byte("b")}, "b"},
			{"key of a job", store.Selection{Key: []byte("d"), Jobs: []string{"pos"}}, "d"},
			{"key of another job", store.Selection{Key: []byte("d"), Jobs: []string{"other"}}, ""},
			{"key in a scope", store.Selection{Key: []byte("d"), Scope: ptr("tue")}, "d"},
			{"key in another scope", store.Selection{Key: []byte("d"), Scope: ptr("")}, ""},
			{"held", store.Selection{States: []jobs.State{jobs.Running, jobs.Claimed}}, "e"},
			{"running", store.Selection{States: []jobs.State{jobs.Running}}, "e"},
			{"held or dead", store.Selection{States: []jobs.State{jobs.Dead, jobs.Running}}, "b c e"},
			{"dropped key", store.Selection{Key: []byte("f")}, ""},
			{"states", store.Selection{States: []jobs.State{jobs.Dead}}, "b c"},
			{"two states", store.Selection{States: []jobs.State{jobs.Ready, jobs.Done}}, "a d g"},
			{"dropped", store.Selection{States: []jobs.State{jobs.Dropped}}, "f"},
			{"class", store.Selection{Class: jobs.ClassTimeout}, "c"},
			{"error", store.Selection{Error: "EXIT 6"}, "b"},
			{"error with wildcards", store.Selection{Error: "%"}, "c"},
			{"since", store.Selection{Since: 90 * time.Second}, "c f g"},
			{"since longer", store.Selection{Since: 24 * time.Hour}, "a b c d e f g"},
			{"limit", store.Selection{Limit: 3}, "a b c"},
			{"together", store.Selection{Jobs: []string{"pos"}, States: []jobs.State{jobs.Dead}, Error: "exit", Limit: 1}, "b"},
		} {
			var got []string
			for _, it := range w.items(c.s) {
				got = append(got, string(it.Key))
			}
			equal(w, strings.Join(got, " "), c.want, "%s: items", c.name)
			got = nil
			for _, id := range w.idsOf(c.s) {
				for k, v := range ids {
					if v == id {
						got = append(got, k)
					}
				}
			}
			equal(w, strings.Join(got, " "), c.want, "%s: ids", c.name)
		}
	}},
	{"CountSelected", func(w *world) {
		w.assorted()
		// The limit takes the oldest, not those that died first.
		w.add("old", "h")
		w.add("new", "i")
		run := w.register("r")
		h := w.start(run, w.claim(run, 1, "old"))
		w.settle(run, dead, w.start(run, w.claim(run, 1, "new"))...)
		w.clock.Move(time.Second)
		w.settle(run, dead, h...)
		equal(w, must(w.db.CountSelected(w.ctx, store.Selection{Jobs: []string{"old", "new"}, States: []jobs.State{jobs.Dead}, Limit: 1}))(w)[0].Job, "old", "job of the oldest")
		for _, c := range []struct {
			s    store.Selection
			want []store.JobState
		}{
			{store.Selection{Jobs: []string{"other", "pos"}}, []store.JobState{{Job: "other", State: jobs.Ready, Items: 1}, {Job: "pos", State: jobs.Ready, Items: 1}, {Job: "pos", State: jobs.Running, Items: 1}, {Job: "pos", State: jobs.Done, Items: 1}, {Job: "pos", State: jobs.Dead, Items: 2}, {Job: "pos", State: jobs.Dropped, Items: 1}}},
			{store.Selection{States: []jobs.State{jobs.Dead, jobs.Ready}, Limit: 2}, []store.JobState{{Job: "pos", State: jobs.Ready, Items: 1}, {Job: "pos", State: jobs.Dead, Items: 1}}},
			{store.Selection{Jobs: []string{"unknown"}}, nil},
		} {
			if diff := cmp.Diff(c.want, must(w.db.CountSelected(w.ctx, c.s))(w)); diff != "" {
				w.t.Errorf("%+v (-want +got):\n%s", c.s, diff)
			}
		}
	}},
	{"DeadLetters", func(w *world) {
		w.assorted()
		keys := func(s store.Selection) string {
			var got []string
			for _, it := range must(w.db.DeadLetters(w.ctx, s))(w) {
				got = append(got, string(it.Key))
			}
			return strings.Join(got, " ")
		}
		equal(w, keys(store.Selection{}), "b c", "the longest dead first")
		equal(w, keys(store.Selection{States: []jobs.State{jobs.Ready}}), "b c", "the state is not for the caller to say")
		equal(w, keys(store.Selection{Class: jobs.ClassTimeout}), "c", "by class")
		equal(w, keys(store.Selection{Limit: 1}), "b", "limited")
		equal(w, keys(store.Selection{Jobs: []string{"other"}}), "", "of another job")
	}},
	{"DeadLettersByTheTimeOfDeath", func(w *world) {
		w.add("pos", "first", "second")
		run := w.register("r")
		s := w.start(run, w.claim(run, 2, "pos"))
		w.settle(run, dead, s[1])
		w.clock.Move(time.Second)
		w.settle(run, dead, s[0])
		equal(w, string(must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)[0].Key), "second", "the longest dead")
	}},
	{"ListsAreOfOneMoment", func(w *world) {
		// Who changes the items later works through a list that ends.
		w.add("pos", "a", "b")
		equal(w, len(w.idsOf(store.Selection{})), 2, "ids")
		equal(w, len(w.idsOf(store.Selection{States: []jobs.State{jobs.Dead}})), 0, "ids of none")
	}},
}

// assorted makes seven items: a ready, b and c dead in different ways, d done
// in another scope, e running, f dropped, g of another job. c, f and g are new.
func (w *world) assorted() map[string]int64 {
	w.t.Helper()
	run := w.register("assorted")
	start := func() store.Started { return w.start(run, w.claim(run, 1, "pos"))[0] }
	w.addItems("pos", store.NewItem{Key: []byte("a"), Priority: -1000})
	w.add("pos", "b")
	b := start()
	w.settle(run, dead, b)
	w.add("pos", "c")
	c := start()
	w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("d")}}})
	w.settle(run, done, start())
	w.add("pos", "e")
	start()
	w.add("pos", "f")
	w.clock.Move(2 * time.Minute)
	timeout := dead
	timeout.Class, timeout.Reason = jobs.ClassTimeout, "timed out at 100%"
	w.settle(run, timeout, c)
	must(w.db.Drop(w.ctx, []int64{w.item("f").ID}))(w)
	w.add("other", "g")
	w.clock.Move(time.Minute)
	ids := map[string]int64{}
	for _, it := range w.items(store.Selection{}) {
		ids[string(it.Key)] = it.ID
	}
	if diff := cmp.Diff(7, len(ids)); diff != "" {
		w.t.Fatalf("assorted items (-want +got):\n%s", diff)
	}
	return ids
}
