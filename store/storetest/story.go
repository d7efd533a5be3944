package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"batchq/jobs"
	"batchq/store"
)

var storyCases = []testCase{
	{"Naming", func(w *world) {
		for _, scope := range []string{"", "tue", "wed"} {
			w.enqueue(store.Enqueue{Job: "pos", Scope: scope, Items: []store.NewItem{{Key: []byte("a")}, {Key: []byte("b\xff\x00")}}})
		}
		w.add("other", "a")
		named := func(n store.Naming, want ...int64) {
			w.t.Helper()
			told := w.told(n)
			var got []int64
			for _, b := range told.Bearers {
				got = append(got, b.ID)
				if diff := cmp.Diff(w.items(store.Selection{IDs: []int64{b.ID}})[0], b); diff != "" {
					w.t.Errorf("bearer (-want +got):\n%s", diff)
				}
			}
			if told.Story != nil {
				got = append(got, told.Story.Item.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				w.t.Errorf("%+v (-want +got):\n%s", n, diff)
			}
		}
		named(store.Naming{ID: 3}, 3)
		named(store.Naming{Job: "pos", Key: []byte("a")}, 5, 3, 1) // the newest first
		named(store.Naming{Job: "pos", Key: []byte("a"), Scope: ptr("")}, 1)
		named(store.Naming{Job: "pos", Key: []byte("a"), Scope: ptr("tue")}, 3)
		named(store.Naming{Job: "pos", Key: []byte("b\xff\x00"), Scope: ptr("wed")}, 6)
		named(store.Naming{Job: "other", Key: []byte("a")}, 7)
		named(store.Naming{ID: 99})
		named(store.Naming{Job: "pos", Key: []byte("b")})
		named(store.Naming{Job: "pos", Key: []byte("a"), Scope: ptr("unknown")})
		named(store.Naming{Job: "unknown", Key: []byte("a")})
		equal(w, w.told(store.Naming{Job: "pos", Key: []byte("none")}).Job, store.Counts{Enqueued: 6, Ready: 6}, "books of a job that has no such item")
		equal(w, w.told(store.Naming{Job: "unknown", Key: []byte("none")}).Job, store.Counts{}, "books of no job")

		// One that was dropped bears its id alone, whoever bears its key now.
		must(w.db.Drop(w.ctx, []int64{3}))(w)
		named(store.Naming{Job: "pos", Key: []byte("a"), Scope: ptr("tue")})
		named(store.Naming{Job: "pos", Key: []byte("a")}, 5, 1)
		equal(w, w.story(3).Successor, 0, "successor")
		w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("a")}}})
		equal(w, w.story(3).Successor, 8, "successor of a dropped one whose key is there anew")
		equal(w, w.story(1).Successor, 0, "successor of one that is there")
		named(store.Naming{ID: 3}, 3)
	}},
	{"Fresh", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("a"), Payload: []byte("four"), Priority: 3}, store.NewItem{Key: []byte("b"), Payload: []byte{}}, store.NewItem{Key: []byte("c"), Delay: time.Hour})
		a := w.items(store.Selection{})[0]
		want := store.Story{Now: dawn.UTC(), Item: a, IdempotencyKey: a.IdempotencyKey(must(w.db.Identity(w.ctx))(w)), PayloadBytes: 4, Line: &store.Line{}}
		w.wantStory(1, want)
		equal(w, w.story(2).PayloadBytes, 0, "bytes of an empty payload")
		equal(w, w.story(3).PayloadBytes, -1, "bytes of no payload")
		equal(w, w.story(3).Line.Before, 2, "ready ones before one that is delayed")
	}},
	{"Line", func(w *world) {
		w.add("pos", "a", "b", "c")
		w.clock.Move(time.Minute)
		w.addItems("pos", store.NewItem{Key: []byte("urgent"), Priority: 2}, store.NewItem{Key: []byte("even"), Priority: 1})
		w.add("other", numbered(10)...)
		run := w.register("r")
		line := func(want map[string]int64) {
			w.t.Helper()
			for key, n := range want {
				equal(w, *w.story(w.item(key).ID).Line, store.Line{Before: n}, "before %s", key)
			}
		}
		line(map[string]int64{"urgent": 0, "a": 1, "b": 2, "c": 3, "even": 4})
		c := w.claim(run, 2, "pos")
		w.wantKeys(c, "urgent a")
		line(map[string]int64{"b": 0, "c": 1, "even": 2})
		equal(w, w.story(c.Items[0].ID).Line == nil, true, "a claimed one stands in no line")
	}},
	{"Attempts", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		var claims []int64
		for i, v := range []jobs.Verdict{retry(time.Second), deferral(time.Second), dead} {
			s := w.start(run, w.claim(run, 1, "pos"))
			claims = append(claims, s[0].Claim)
			r := settlement(s[0], v)
			r.Result.ExitCode, r.Result.Output = 70+i, jobs.Output{Head: []byte{byte(i)}, Tail: []byte("tail"), Omitted: int64(i)}
			w.advance(store.Advance{Run: run, Settle: []store.Settlement{r}})
			w.clock.Move(time.Minute)
		}
		got := w.story(1)
		equal(w, len(got.Attempts), 3, "attempts")
		last := must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)[0].Last
		if diff := cmp.Diff(*last, got.Attempts[2]); diff != "" {
			w.t.Errorf("last attempt (-dead letter +story):\n%s", diff)
		}
		for i, class := range []jobs.Class{jobs.ClassRetry, jobs.ClassDefer, jobs.ClassPermanent} {
			a := got.Attempts[i]
			a.Reason = ""
			want := store.AttemptRow{Number: i + 1, Run: run, Claim: claims[i], Class: class, Exited: true, ExitCode: 70 + i, Started: dawn.UTC().Add(time.Duration(i) * time.Minute),
				Duration: 1500 * time.Millisecond, Output: jobs.Output{Head: []byte{byte(i)}, Tail: []byte("tail"), Omitted: int64(i)}}
			if diff := cmp.Diff(want, a); diff != "" {
				w.t.Errorf("attempt (-want +got):\n%s", diff)
			}
		}
		w.requeue([]int64{1}, jobs.Dead)
		w.settle(run, done, w.start(run, w.claim(run, 1, "pos"))...)
		equal(w, len(w.story(1).Attempts), 3, "attempts after one that succeeded")
	}},
	{"Claimed", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		c := w.claim(run, 2, "pos")
		w.clock.Move(time.Second)
		g := w.story(c.Items[0].ID).Grip
		want := &store.Grip{Claim: c.ID, Run: w.runInfo(run, "r"), Since: dawn.UTC(), Until: dawn.UTC().Add(lease)}
		if diff := cmp.Diff(want, g); diff != "" {
			w.t.Errorf("grip (-want +got):\n%s", diff)
		}
		must(w.db.Renew(w.ctx, run, lease))(w)
		equal(w, w.story(c.Items[0].ID).Grip.Until, dawn.UTC().Add(time.Second+lease), "lease after a renewal")
		must(w.db.Release(w.ctx, run, heldOf(c)))(w)
		equal(w, w.story(c.Items[0].ID).Grip == nil, true, "no grip on what was given back")
	}},
	{"Running", func(w *world) {
		w.spec("pos").Uses, w.spec("pos").Policy.Timeout = map[string]int{"db": 2}, 5*time.Minute
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		w.advance(store.Advance{Run: run, Pids: []store.Process{{Held: s.Held, PID: 815, Start: 77}}})
		got := w.story(s.Item)
		slot := store.SlotRow{Run: run, Job: "pos", Lane: jobs.Serial, Uses: map[string]int{"db": 2}, Item: s.Item, Key: []byte("a"), Attempt: 1, Since: dawn.UTC(), PID: 815}
		want := &store.Grip{Claim: s.Claim, Run: w.runInfo(run, "r"), Since: dawn.UTC(), Until: dawn.UTC().Add(lease), Slot: &slot}
		if diff := cmp.Diff(want, got.Grip); diff != "" {
			w.t.Errorf("grip (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(w.spec("pos"), got.Spec); diff != "" {
			w.t.Errorf("spec (-want +got):\n%s", diff)
		}
		equal(w, got.Lane, jobs.Serial, "lane")

		// Another run works the job otherwise: what holds for this one is how its
		// own run does, and for the others how it was worked last.
		w.spec("pos").Policy.Timeout = time.Hour
		w.add("pos", "b", "c")
		w.claim(w.register("r2"), 1, "pos")
		equal(w, w.story(s.Item).Spec.Policy.Timeout, 5*time.Minute, "timeout under its run")
		equal(w, w.story(w.item("b").ID).Spec.Policy.Timeout, time.Hour, "timeout under the other run")
		equal(w, w.story(w.item("c").ID).Spec.Policy.Timeout, time.Hour, "timeout of one that nobody holds")
	}},
	{"WorkedBy", func(w *world) {
		// What is dead was worked as the run of its last attempt worked it.
		s := w.spec("pos")
		w.add("pos", "a", "b")
		r1, r2 := w.register("r1"), w.register("r2")
		s.Policy.Timeout = 5 * time.Minute
		w.settle(r1, dead, w.start(r1, w.claim(r1, 1, "pos"))...)
		s.Policy.Timeout = time.Hour
		w.settle(r2, done, w.start(r2, w.claim(r2, 1, "pos"))...)
		for _, c := range []struct {
			key  string
			run  int64
			want time.Duration
		}{{"a", r1, 5 * time.Minute}, {"b", 0, time.Hour}} {
			got := w.story(w.item(c.key).ID)
			equal(w, got.Spec.Policy.Timeout, c.want, "timeout of %s", c.key)
			equal(w, got.SpecRun, c.run, "run of the spec of %s", c.key)
		}
	}},
	{"NoVariables", func(w *world) {
		// What a job's env sets may be secrets: it is not kept, and its spec is
		// otherwise what it was.
		s := w.spec("pos")
		s.Handler = jobs.Handler{Command: []string{"./pos.sh", "\xff{key}"}, Dir: "/srv", Env: map[string]string{"TOKEN": "secret"}}
		w.add("pos", "a")
		w.claim(w.register("r"), 1, "pos")
		equal(w, s.Handler.Env["TOKEN"], "secret", "the run's own variable")
		want := *s
		want.Handler.Env = nil
		if diff := cmp.Diff(&want, w.story(1).Spec); diff != "" {
			w.t.Errorf("spec (-want +got):\n%s", diff)
		}
	}},
	{"LeftBehind", func(w *world) {
		w.spec("pos").Policy.Timeout = 5 * time.Minute
		w.add("pos", "a")
		r1, r2 := w.register("r1"), w.register("r2")
		s := w.start(r1, w.claim(r1, 1, "pos"))[0]
		w.advance(store.Advance{Run: r1, Pids: []store.Process{{Held: s.Held, PID: 815, Start: 77}}})
		w.clock.Move(time.Second)
		w.takeOver(r1, r2)
		g := w.story(s.Item).Grip
		o := w.orphan(r2)
		if diff := cmp.Diff(&o, g.Orphan); diff != "" {
			w.t.Errorf("orphan (-as a rescuer has it +story):\n%s", diff)
		}
		equal(w, g.Run.ID, r2, "who holds it")
		equal(w, g.Claim, o.Claim, "claim")
		equal(w, g.Slot.Orphan, true, "the slot is an orphan's")
		equal(w, w.story(s.Item).Spec.Policy.Timeout, 5*time.Minute, "timeout, as the dead run has worked it")
		w.noError(w.db.EndRun(w.ctx, r2, store.RunEnd{Outcome: "finished"}))
		equal(w, w.story(s.Item).Grip.Run.Ended, dawn.UTC().Add(time.Second), "end of the run that still holds it")
		w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		got := w.story(s.Item)
		equal(w, got.Grip == nil, true, "no grip when it is settled")
		equal(w, got.Attempts[0].Run, r1, "run of the attempt")
	}},
	{"AnotherHandlesRun", func(w *world) {
		// What it says does not depend on who asks.
		w.add("pos", "a")
		run := w.register("r")
		s := w.start(run, w.claim(run, 1, "pos"))[0]
		far := must(w.other().Story(w.ctx, store.Naming{ID: s.Item}))(w)
		if diff := cmp.Diff(w.told(store.Naming{ID: s.Item}), far); diff != "" {
			w.t.Errorf("by two handles:\n%s", diff)
		}
	}},
	{"Foreign", func(w *world) {
		// A run of the file of which this one is a copy.
		w.add("pos", "a", "b")
		r1 := w.registerIn(w.db, "r1", 77)
		s := w.start(r1, w.claim(r1, 1, "pos"))[0]
		copied := w.copied(w.backup("copy"))
		told := func(db store.Store) *store.Story { return must(db.Story(w.ctx, store.Naming{ID: s.Item}))(w).Story }
		for db, want := range map[store.Store]bool{w.db: false, w.other(): false, copied: true} {
			got := told(db)
			equal(w, [2]bool{got.Grip.Run.Foreign, got.Runs[0].Foreign}, [2]bool{want, want}, "it is of another file")
			equal(w, got.Grip.Run.Session, 77, "session")
		}
		r2 := w.registerIn(copied, "r2", 78)
		must(copied.TakeOver(w.ctx, r1, r2, store.DeathLock, lease))(w)
		g := told(copied).Grip
		equal(w, [2]bool{g.Run.Foreign, g.Orphan.Owner.Foreign}, [2]bool{false, true}, "who holds it, and who began it, are of another file")
	}},
	{"Around", func(w *world) {
		w.add("pos", "a", "b")
		w.add("other", "x")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 1, "other"))
		w.noError(w.db.EndRun(w.ctx, r2, store.RunEnd{}))
		w.pause(store.Target{Job: "other"}, store.Target{})
		got, st := w.story(1), must(w.db.Stats(w.ctx))(w)
		equal(w, len(st.Slots), 1, "slots")
		if diff := cmp.Diff(st, store.Stats{Path: got.Path, Now: got.Now, Totals: st.Totals, Jobs: st.Jobs, Slots: got.Slots, Runs: got.Runs, Pauses: got.Pauses}); diff != "" {
			w.t.Errorf("(-stats +story):\n%s", diff)
		}
	}},
	{"Breaker", func(w *world) {
		w.add("other", "x")
		run := w.broken("pos", 2, "a", "b", "c")
		w.end(run, "pos", retry(time.Hour), w.startNext(run, "pos", "a", "b")...)
		got := w.story(w.items(store.Selection{Jobs: []string{"pos"}, States: []jobs.State{jobs.Ready}})[0].ID)
		if diff := cmp.Diff(w.job("pos").Breaker, got.Breaker); diff != "" || got.Breaker == nil {
			w.t.Errorf("breaker %v (-stats +story):\n%s", got.Breaker, diff)
		}
		equal(w, w.story(w.item("x").ID).Breaker == nil, true, "another job's is closed")
	}},
	{"Rate", func(w *world) {
		w.add("pos", "a", "b")
		w.add("other", "x")
		equal(w, w.story(1).NextStart, time.Time{}, "next start before the first")
		w.spec("pos").Rate = jobs.Rate{Count: 6, Per: time.Minute}
		run := w.register("r")
		w.start(run, w.claim(run, 1, "pos"))
		equal(w, w.story(2).NextStart, dawn.UTC().Add(10*time.Second), "next start at an even pace")
		equal(w, w.story(w.item("x").ID).NextStart, time.Time{}, "next start of another job")
	}},
	{"Kept", func(w *world) {
		s := w.stream(lease)
		small := w.items(store.Selection{Jobs: []string{"small"}, States: []jobs.State{jobs.Ready}})
		big := w.items(store.Selection{Jobs: []string{"big"}})[0].ID
		last := small[len(small)-1].ID
		equal(w, w.story(last).Kept == nil, true, "nothing is kept at first")
		for range 40 {
			if s.goOn(5 * time.Second); s.kept > 0 {
				break
			}
		}
		equal(w, s.kept > 0, true, "the pool is kept")
		k := w.story(last).Kept
		if k == nil || k.Job != "big" || k.Uses["db"] == 0 || !k.Until.After(w.clock.Now()) {
			w.t.Errorf("kept: %+v", k)
		}
		equal(w, w.story(big).Kept == nil, true, "nothing is kept from the one for which it is")
		w.clock.Move(24 * time.Hour)
		equal(w, w.story(last).Kept == nil, true, "nothing is kept for ever")
	}},
	{"Crashed", func(w *world) {
		w.add("pos", "a", "b", "c")
		r1, r2 := w.register("r1"), w.register("r2")
		w.start(r1, w.claim(r1, 2, "pos"))
		w.takeOver(r1, r2)
		for _, o := range must(w.db.Orphans(w.ctx, r2))(w) {
			w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
		}
		w.clock.Move(time.Second)
		c := w.claim(r2, 3, "pos")
		var first, second, third int64
		for _, it := range c.Items {
			switch string(it.Key) {
			case "a":
				first = it.ID
			case "b":
				second = it.ID
			default:
				third = it.ID
			}
		}
		equal(w, len(w.story(second).Crashed), 0, "in flight at first")
		w.advance(store.Advance{Run: r2, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: []store.StartItem{{Held: store.Held{Item: first, Claim: c.ID}, Spec: w.spec("pos")}}}}})
		got := w.story(second).Crashed
		if len(got) != 1 || got[0].Item != first || got[0].Run != r2 {
			w.t.Errorf("beside one that has crashed too: %+v", got)
		}
		equal(w, len(w.story(first).Crashed), 0, "it does not stand in its own way")
		equal(w, len(w.story(third).Crashed), 0, "in the way of one that has not crashed")
	}},
	{"EveryState", func(w *world) {
		for _, s := range jobs.States() {
			w.putIn(s, fmt.Sprint("job-", s), store.NewItem{Key: []byte(s.String())})
		}
		for _, it := range w.items(store.Selection{}) {
			got := w.story(it.ID)
			equal(w, got.Item.State, it.State, "state")
			equal(w, got.Grip != nil, it.State == jobs.Claimed || it.State == jobs.Running, "grip on one that is %s", it.State)
			equal(w, got.Line != nil, it.State == jobs.Ready || it.State == jobs.Delayed, "line of one that is %s", it.State)
			if diff := cmp.Diff(it, got.Item); diff != "" {
				w.t.Errorf("item (-list +story):\n%s", diff)
			}
		}
	}},
}

func (w *world) told(n store.Naming) store.Told {
	w.t.Helper()
	return must(w.db.Story(w.ctx, n))(w)
}

// story is that of the item with an id.
func (w *world) story(id int64) *store.Story {
	w.t.Helper()
	told := w.told(store.Naming{ID: id})
	if told.Story == nil {
		w.t.Fatalf("item %d has no story: %+v", id, told)
	}
	return told.Story
}

func (w *world) wantStory(id int64, want store.Story) {
	w.t.Helper()
	if diff := cmp.Diff(&want, w.story(id), cmpopts.IgnoreFields(store.Story{}, "Path")); diff != "" {
		w.t.Errorf("story (-want +got):\n%s", diff)
	}
}

// runInfo is a run as register makes it.
func (w *world) runInfo(id int64, token string) store.RunInfo {
	return store.RunInfo{ID: id, Token: token, PID: 4711, PIDStart: 99, BootID: "boot", PIDNS: "ns", Host: "host", Command: []string{"batchq", "work"}, Started: dawn.UTC()}
}
