package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Within a job there is one order: due less a minute a step of priority, then
// arrival.
var orderCases = []testCase{
	{"Arrival", func(w *world) {
		w.add("pos", "c", "a", "b")
		w.clock.Move(time.Millisecond)
		w.add("pos", "0")
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "c a b 0")
	}},
	{"ArrivalThoughTheClockWasSetBack", func(w *world) {
		// The clock is what due is made of: set back, the later one is due earlier.
		w.add("pos", "first")
		w.clock.Move(-time.Second)
		w.add("pos", "second")
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "second first")
	}},
	{"Priority", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("low"), Priority: -1}, store.NewItem{Key: []byte("none")},
			store.NewItem{Key: []byte("high"), Priority: 9}, store.NewItem{Key: []byte("none2")}, store.NewItem{Key: []byte("high2"), Priority: 9})
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "high high2 none none2 low")
	}},
	{"NothingStarves", func(w *world) {
		// A step of priority is a head start of a minute and no more.
		w.add("pos", "old")
		w.clock.Move(5*time.Minute - time.Millisecond)
		w.addItems("pos", store.NewItem{Key: []byte("before"), Priority: 5})
		w.clock.Move(time.Millisecond)
		w.addItems("pos", store.NewItem{Key: []byte("level"), Priority: 5})
		w.clock.Move(time.Millisecond)
		w.addItems("pos", store.NewItem{Key: []byte("after"), Priority: 5})
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "before old level after")
	}},
	{"Shuffled", func(w *world) {
		// The order in which rows are changed must not be the order of the
		// batch: mixed priorities, 100 at once, taken in two claims.
		rnd := rand.New(rand.NewPCG(1, 2))
		type placed struct {
			key  string
			rank int64
		}
		var want []placed
		for i := range 150 {
			p := rnd.IntN(7) - 3
			n := store.NewItem{Key: fmt.Appendf(nil, "k%03d", i), Priority: p}
			w.addItems("pos", n)
			want = append(want, placed{string(n.Key), w.clock.Now().UnixMilli() - int64(p)*60_000})
			w.clock.Move(time.Duration(rnd.IntN(40)) * time.Second)
		}
		slices.SortStableFunc(want, func(a, b placed) int { return int(a.rank - b.rank) })
		run := w.register("r")
		got := append(w.claim(run, 100, "pos").Items, w.claim(run, 100, "pos").Items...)
		equal(w, len(got), len(want), "claimed")
		for i, it := range got {
			if string(it.Key) != want[i].key {
				w.t.Fatalf("place %d has %s, want %s", i, it.Key, want[i].key)
			}
		}
	}},
	{"DelayedStandsWhereItsDueTimePutsIt", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("delayed"), Delay: time.Minute})
		w.clock.Move(30 * time.Second)
		w.add("pos", "before")
		w.clock.Move(time.Hour)
		w.add("pos", "after")
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "before delayed after")
	}},
	{"RetryStandsWhereItsNewDueTimePutsIt", func(w *world) {
		w.add("pos", "failed", "b")
		run := w.register("r")
		w.settle(run, retry(time.Minute), w.start(run, w.claim(run, 1, "pos"))...)
		w.clock.Move(2 * time.Minute)
		w.add("pos", "c")
		w.wantKeys(w.claim(run, 100, "pos"), "b failed c")
	}},
	{"ReplacedStandsWhereItsNewPriorityPutsIt", func(w *world) {
		w.add("pos", "a", "b", "c")
		w.enqueue(store.Enqueue{Job: "pos", OnDuplicate: store.Replace, Items: []store.NewItem{{Key: []byte("c"), Priority: 2}, {Key: []byte("a"), Priority: -2}}})
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "c b a")
	}},
	{"UrgentBeforeABacklog", func(w *world) {
		w.add("pos", numbered(300)...)
		w.addItems("pos", store.NewItem{Key: []byte("urgent"), Priority: 1})
		w.wantKeys(w.claim(w.register("r"), 2, "pos"), "urgent k0001")
	}},
	{"ExtremePriorities", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("last"), Priority: -jobs.MaxPriority}, store.NewItem{Key: []byte("mid")},
			store.NewItem{Key: []byte("first"), Priority: jobs.MaxPriority})
		w.wantKeys(w.claim(w.register("r"), 100, "pos"), "first mid last")
	}},
}

// Between jobs there is fairness: who was served longest ago comes first, and
// each gets an equal share.
var shareCases = []testCase{
	{"OneProducerStarvesNobody", func(w *world) {
		// mosquito#167, postel#126: A: 10,000 items, then B: 1 → B within one batch.
		w.add("a", numbered(2000)...)
		w.add("b", "only")
		c := w.claim(w.register("r"), 100, "a", "b")
		equal(w, len(c.Items), 100, "claimed")
		equal(w, slices.Contains(keysOf(c)[:2], "only"), true, "b's only item is among the first two to start")
	}},
	{"EqualShares", func(w *world) {
		for _, j := range []string{"a", "b", "c"} {
			w.add(j, numbered(50)...)
		}
		run := w.register("r")
		w.wantShares(w.claim(run, 30, "a", "b", "c"), map[string]int{"a": 10, "b": 10, "c": 10})
		// What does not divide goes to those that come first.
		w.wantShares(w.claim(run, 5, "a", "b", "c"), map[string]int{"a": 2, "b": 2, "c": 1})
	}},
	{"UnusedShareGoesRound", func(w *world) {
		w.add("a", numbered(50)...)
		w.add("b", numbered(3)...)
		w.add("c", numbered(50)...)
		w.wantShares(w.claim(w.register("r"), 30, "a", "b", "c"), map[string]int{"a": 14, "b": 3, "c": 13})
	}},
	{"TakesTurns", func(w *world) {
		w.add("a", "a1", "a2", "a3")
		w.add("b", "b1", "b2")
		w.wantKeys(w.claim(w.register("r"), 100, "a", "b"), "a1 b1 a2 b2 a3")
	}},
	{"ServedLongestAgoFirst", func(w *world) {
		for _, j := range []string{"a", "b", "c"} {
			w.add(j, j+"1", j+"2", j+"3")
		}
		run := w.register("r")
		for _, want := range []string{"a1", "b1", "c1", "a2", "b2", "c2"} {
			w.wantKeys(w.claim(run, 1, "a", "b", "c"), want)
		}
		// A turn that one took alone counts, too.
		w.wantKeys(w.claim(run, 1, "a"), "a3")
		w.wantKeys(w.claim(run, 2, "a", "b", "c"), "b3 c3")
	}},
	{"OthersAreNotAsked", func(w *world) {
		// A job that this run does not work takes no share.
		w.add("a", numbered(50)...)
		w.add("b", numbered(50)...)
		w.wantShares(w.claim(w.register("r"), 20, "b"), map[string]int{"b": 20})
	}},
	{"ScopeAndSkipTakeNoShare", func(w *world) {
		w.enqueue(store.Enqueue{Job: "a", Scope: "other", Items: []store.NewItem{{Key: []byte("x")}}})
		w.add("b", numbered(50)...)
		w.add("c", "skipped")
		r := w.request(w.register("r"), 20, "a", "b", "c")
		r.Scope, r.Skip = ptr(""), map[int64]bool{w.item("skipped").ID: true}
		w.wantShares(must(w.db.Claim(w.ctx, r))(w), map[string]int{"b": 20})
	}},
}

func (w *world) wantShares(c store.Claim, want map[string]int) {
	w.t.Helper()
	got := map[string]int{}
	for _, it := range c.Items {
		got[it.Job]++
	}
	equal(w, fmt.Sprint(got), fmt.Sprint(want), "items by job")
}
