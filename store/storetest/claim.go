package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var claimCases = []testCase{
	{"Takes", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("a"), Priority: 2, Payload: []byte("p")}, store.NewItem{Key: []byte("b")})
		run := w.register("r")
		c := w.claim(run, 1, "pos")
		equal(w, c.Lane, jobs.Serial, "lane")
		equal(w, c.LaneFull, false, "lane full")
		a := w.item("a")
		want := []*jobs.Item{{ID: a.ID, Job: "pos", Key: []byte("a"), State: jobs.Claimed, Priority: 2, Generation: 1, Due: dawn.UTC()}}
		if diff := cmp.Diff(want, c.Items); diff != "" {
			w.t.Errorf("items (-want +got):\n%s", diff)
		}
		w.wantStates("a=claimed b=ready")
		w.wantKeys(w.claim(run, 100, "pos"), "b")
		none := w.claim(run, 100, "pos")
		equal(w, len(none.Items), 0, "items of an empty claim")
		equal(w, none.NextDue < 0, true, "nothing is due later")
	}},
	{"CarriesBudgets", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		for _, v := range []jobs.Verdict{retry(time.Second), deferral(time.Second), crashed} {
			w.settle(run, v, w.start(run, w.claim(run, 1, "pos"))...)
			w.clock.Move(time.Second)
		}
		it := w.claim(run, 1, "pos").Items[0]
		equal(w, [4]int{it.Attempt, it.Failures, it.Defers, it.Crashes}, [4]int{3, 1, 1, 1}, "attempt, failures, defers, crashes")
	}},
	{"NothingAskedFor", func(w *world) {
		w.add("pos", "a")
		run := w.register("r")
		equal(w, len(w.claim(run, 0, "pos").Items), 0, "at most none")
		equal(w, len(w.claim(run, -5, "pos").Items), 0, "at most a negative number")
		equal(w, len(w.claim(run, 100).Items), 0, "of no job")
		equal(w, len(w.claim(run, 100, "unknown").Items), 0, "of an unknown job")
		w.wantStates("a=ready")
	}},
	{"OnlyTheJobsNamed", func(w *world) {
		w.add("pos", "a")
		w.add("settlement", "b")
		w.wantKeys(w.claim(w.register("r"), 100, "settlement", "unknown"), "b")
		w.wantStates("a=ready b=claimed")
	}},
	{"NobodyTakesWhatIsHeld", func(w *world) {
		w.add("pos", numbered(10)...)
		w.claim(w.register("r1"), 4, "pos")
		r2 := w.register("r2")
		c := must(w.other().Claim(w.ctx, w.request(r2, 100, "pos")))(w)
		w.wantKeys(c, "k0005 k0006 k0007 k0008 k0009 k0010")
	}},
	{"LeaseExpired", func(w *world) {
		// A lease that has run out is not a death: the owner has to be judged
		// dead before anybody else gets its items.
		w.add("pos", "a", "b")
		r1, r2 := w.register("r1"), w.register("r2")
		c := w.claim(r1, 1, "pos")
		w.clock.Move(lease + time.Hour)
		w.wantKeys(w.claim(r2, 100, "pos"), "b")
		w.settle(r1, done, w.start(r1, c)...)
		w.wantStates("a=done b=claimed")
	}},
	{"TokenOnlyGrows", func(w *world) {
		w.add("pos", numbered(6)...)
		run, other := w.register("r"), w.other()
		last := int64(0)
		for i, move := range []time.Duration{0, 0, time.Hour, -2 * time.Hour, -1000 * time.Hour, 0} {
			w.clock.Move(move)
			db := w.db
			if i%2 == 1 {
				db = other
			}
			c := must(db.Claim(w.ctx, w.request(run, 1, "pos")))(w)
			equal(w, c.ID > last, true, "token %d after %d", c.ID, last)
			last = c.ID
			// Ahead of what a lost copy of this database may have given out.
			equal(w, c.ID >= w.clock.Now().UnixMilli(), true, "token %d is not behind the clock", c.ID)
		}
	}},
	{"Scope", func(w *world) {
		for _, s := range []string{"", "mon", "tue"} {
			w.enqueue(store.Enqueue{Job: "pos", Scope: s, Items: []store.NewItem{{Key: []byte("k" + s)}}})
		}
		run := w.register("r")
		scoped := func(scope string) store.Claim {
			r := w.request(run, 100, "pos")
			r.Scope = &scope
			return must(w.db.Claim(w.ctx, r))(w)
		}
		w.wantKeys(scoped("nobody's"), "")
		w.wantKeys(scoped("tue"), "ktue")
		w.wantKeys(scoped(""), "k")
		w.wantKeys(w.claim(run, 100, "pos"), "kmon")
	}},
	{"Skip", func(w *world) {
		w.add("pos", numbered(10)...)
		r := w.request(w.register("r"), 3, "pos")
		r.Skip = map[int64]bool{w.item("k0001").ID: true, w.item("k0003").ID: true, w.item("k0004").ID: true, 99999: true}
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "k0002 k0005 k0006")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "k0007 k0008 k0009")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "k0010")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "")
		w.wantStates("k0001=ready k0002=claimed k0003=ready k0004=ready k0005=claimed k0006=claimed k0007=claimed k0008=claimed k0009=claimed k0010=claimed")
	}},
	{"NextDue", func(w *world) {
		w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("b"), Delay: 3 * time.Hour}, {Key: []byte("a"), Delay: 2 * time.Hour}}})
		w.addItems("other", store.NewItem{Key: []byte("c"), Delay: time.Hour})
		run := w.register("r")
		equal(w, w.claim(run, 100, "pos").NextDue, 2*time.Hour, "next due of pos")
		equal(w, w.claim(run, 100, "pos", "other").NextDue, time.Hour, "next due of both")
		w.clock.Move(30 * time.Minute)
		equal(w, w.claim(run, 100, "pos").NextDue, 90*time.Minute, "half an hour later")
		r := w.request(run, 100, "pos", "other")
		r.Scope = ptr("tue")
		equal(w, must(w.db.Claim(w.ctx, r))(w).NextDue, 90*time.Minute, "next due of the scope")
		r.Scope = ptr("mon")
		equal(w, must(w.db.Claim(w.ctx, r))(w).NextDue < 0, true, "nothing is due in another scope")
		equal(w, w.claim(run, 100, "unknown").NextDue < 0, true, "nothing is due of an unknown job")
	}},
	{"Promotes", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("late"), Delay: 2 * time.Second}, store.NewItem{Key: []byte("soon"), Delay: time.Second}, store.NewItem{Key: []byte("now")})
		run := w.register("r")
		w.wantKeys(w.claim(run, 100, "pos"), "now")
		w.clock.Move(999 * time.Millisecond)
		w.wantKeys(w.claim(run, 100, "pos"), "")
		w.clock.Move(time.Millisecond)
		w.wantKeys(w.claim(run, 100, "pos"), "soon")
		w.clock.Move(time.Hour)
		w.wantKeys(w.claim(run, 100, "pos"), "late")
	}},
	{"PromotesInAScope", func(w *world) {
		w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("a"), Delay: time.Second}}})
		w.add("pos", "b")
		w.clock.Move(time.Minute)
		r := w.request(w.register("r"), 100, "pos")
		r.Scope = ptr("tue")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "a")
		w.wantKeys(must(w.db.Claim(w.ctx, r))(w), "")
	}},
	{"PromotesThoughTheLaneIsFull", func(w *world) {
		w.add("pos", "long")
		run := w.register("r")
		w.start(run, w.claim(run, 1, "pos"))
		w.addItems("pos", store.NewItem{Key: []byte("a"), Delay: time.Second})
		w.clock.Move(time.Minute)
		r := w.request(run, 100, "pos")
		r.Limits.Lanes = map[string]int{jobs.Serial: 1}
		equal(w, must(w.db.Claim(w.ctx, r))(w).LaneFull, true, "lane full")
		equal(w, w.item("a").State, jobs.Ready, "what is due becomes ready all the same")
	}},
	{"PromotesWithinBounds", func(w *world) {
		// 2,500 are due at once: no transaction touches more than MaxRows, and
		// each takes the ones that have been due longest.
		items, keys := make([]store.NewItem, 2500), numbered(2500)
		for i, k := range keys {
			items[i] = store.NewItem{Key: []byte(k), Delay: time.Duration(len(items)-i) * time.Millisecond}
		}
		w.addItems("pos", items...)
		w.clock.Move(time.Hour)
		run := w.register("r")
		before := w.counts()
		rounds := 0
		for before.Delayed > 0 {
			c := w.claim(run, 10, "pos")
			after := w.counts()
			moved := before.Delayed - after.Delayed
			equal(w, moved > 0 && moved+int64(len(c.Items)) <= store.MaxRows, true, "%d moved, %d claimed", moved, len(c.Items))
			if rounds == 0 {
				equal(w, string(c.Items[0].Key), "k2500", "the one that was due first")
				for _, it := range w.items(store.Selection{States: []jobs.State{jobs.Delayed}}) {
					if n := string(it.Key); n > keys[2500-moved-1] {
						w.t.Fatalf("%s waits though it was due before others that moved", n)
					}
				}
			}
			before = after
			if rounds++; rounds > 10 {
				w.t.Fatalf("still %d delayed", after.Delayed)
			}
		}
	}},
	{"PromotesBesideLargeClaims", func(w *world) {
		// A run that asks for MaxRows and more must not keep the due ones out.
		items := make([]store.NewItem, 700)
		for i, k := range numbered(len(items)) {
			items[i] = store.NewItem{Key: []byte(k), Delay: time.Second}
		}
		w.addItems("pos", items...)
		w.clock.Move(time.Minute)
		run := w.register("r")
		got := 0
		for range 5 {
			c := w.claim(run, 5*store.MaxRows, "pos")
			equal(w, len(c.Items) <= store.MaxRows, true, "%d claimed in one transaction", len(c.Items))
			got += len(c.Items)
		}
		equal(w, got, 700, "claimed in five rounds")
	}},
	{"ManyReady", func(w *world) {
		w.add("pos", numbered(2300)...)
		run, sizes := w.register("r"), []int{}
		for range 4 {
			sizes = append(sizes, len(w.claim(run, 10*store.MaxRows, "pos").Items))
		}
		equal(w, sizes[0]+sizes[1]+sizes[2]+sizes[3], 2300, "claimed in rounds of %v", sizes)
		equal(w, slices.Max(sizes) <= store.MaxRows, true, "rounds of %v", sizes)
	}},
}
