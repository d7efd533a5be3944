package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var reportCases = []testCase{
	{"Empty", func(w *world) {
		st := must(w.db.Stats(w.ctx))(w)
		equal(w, st.Now, dawn.UTC(), "now")
		equal(w, len(st.Jobs)+len(st.Slots)+len(st.Runs), 0, "jobs, slots and runs")
		equal(w, len(must(w.db.JobNames(w.ctx))(w)), 0, "job names")
		equal(w, must(w.db.Counts(w.ctx, []string{"unknown"}, ptr("none")))(w), store.Counts{}, "counts of nothing")
	}},
	{"Counts", func(w *world) {
		w.assorted()
		count := func(names []string, scope *string) store.Counts {
			w.t.Helper()
			return must(w.db.Counts(w.ctx, names, scope))(w)
		}
		all := store.Counts{Enqueued: 7, Ready: 2, Running: 1, Done: 1, Dead: 2, Dropped: 1}
		equal(w, count(nil, nil), all, "all")
		equal(w, all.Left(), 3, "left")
		equal(w, count([]string{"pos"}, nil), store.Counts{Enqueued: 6, Ready: 1, Running: 1, Done: 1, Dead: 2, Dropped: 1}, "one job")
		equal(w, count([]string{"pos", "other", "unknown"}, nil), all, "all jobs by name")
		equal(w, count([]string{}, nil), store.Counts{}, "no job")
		equal(w, count(nil, ptr("tue")), store.Counts{Enqueued: 1, Done: 1}, "a scope")
		equal(w, count([]string{"pos"}, ptr("")), store.Counts{Enqueued: 5, Ready: 1, Running: 1, Dead: 2, Dropped: 1}, "a job in the empty scope")
		equal(w, count(nil, ptr("unknown")), store.Counts{}, "an unknown scope")
		equal(w, must(w.other().Counts(w.ctx, nil, nil))(w), all, "by another handle")
		var sum store.Counts
		for _, j := range must(w.db.Stats(w.ctx))(w).Jobs {
			sum.Add(j.Counts)
			equal(w, j.Counts, count([]string{j.Name}, nil), "stats of %s", j.Name)
		}
		equal(w, sum, all, "sum over the jobs of stats")
	}},
	{"Lane", func(w *world) {
		w.add("pos", "a")
		equal(w, w.job("pos").Lane, "", "lane of a job that was never worked")
		r := w.request(w.register("r"), 1, "pos")
		r.Lane = "parallel"
		must(w.db.Claim(w.ctx, r))(w)
		equal(w, w.job("pos").Lane, "parallel", "lane in which it was worked")
	}},
	{"Waiting", func(w *world) {
		// Ready, due but not yet moved, or claimed and not started.
		w.add("pos", numbered(4)...)
		w.addItems("pos", store.NewItem{Key: []byte("due"), Delay: time.Minute}, store.NewItem{Key: []byte("future"), Delay: time.Hour})
		run := w.register("r")
		c := w.claim(run, 2, "pos")
		w.advance(store.Advance{Run: run, Start: []store.Start{{Lane: jobs.Serial, Want: 1, Items: w.startOf(c).Items}}})
		equal(w, w.job("pos").Waiting, 3, "waiting: one claimed, two ready")
		w.clock.Move(time.Minute)
		equal(w, w.job("pos").Waiting, 4, "waiting: one more is due")
		equal(w, w.counts().Delayed, 2, "delayed: nobody has moved it yet")
	}},
	{"FutureIsNoBacklog", func(w *world) {
		// pg-boss: what is deferred was counted as backlog.
		items := make([]store.NewItem, 1000)
		for i, k := range numbered(1000) {
			items[i] = store.NewItem{Key: []byte(k), Delay: time.Hour}
		}
		w.addItems("pos", items...)
		j := w.job("pos")
		equal(w, j.Waiting, 0, "waiting")
		equal(w, j.Oldest, time.Time{}, "oldest")
		equal(w, j.Counts.Delayed, 1000, "delayed")
	}},
	{"Oldest", func(w *world) {
		oldest := func(want time.Time, when string) {
			w.t.Helper()
			equal(w, w.job("pos").Oldest, want.UTC(), "oldest %s", when)
		}
		w.add("pos", "a")
		oldest(dawn, "when it is new")
		w.clock.Move(time.Hour)
		w.add("pos", "b")
		oldest(dawn, "of two")
		run := w.register("r")
		c := w.claim(run, 1, "pos")
		oldest(dawn, "when it is claimed and not started")
		s := w.start(run, c)
		oldest(dawn.Add(time.Hour), "when the first runs")
		w.settle(run, free, s...)
		oldest(dawn, "when it was interrupted")
		w.settle(run, done, w.start(run, w.claim(run, 2, "pos"))...)
		equal(w, w.job("pos").Oldest, time.Time{}, "oldest when none waits")
		w.addItems("pos", store.NewItem{Key: []byte("c"), Delay: time.Minute})
		w.clock.Move(time.Hour)
		oldest(dawn.Add(time.Hour+time.Minute), "of what is due and not moved: since it was due")
		w.claim(run, 0, "pos")
		oldest(dawn.Add(time.Hour+time.Minute), "of what has been moved: since it was due")
	}},
	{"Oldest/MixedPriorities", func(w *world) {
		// The line is in order of rank, which is not the order of age.
		run := w.register("r")
		check := func(want time.Duration, when string) {
			w.t.Helper()
			equal(w, w.job("pos").Oldest, dawn.Add(want).UTC(), "oldest %s", when)
		}
		w.addItems("pos", store.NewItem{Key: []byte("low"), Priority: -30})
		w.clock.Move(time.Minute)
		w.addItems("pos", store.NewItem{Key: []byte("plain")})
		check(0, "behind one that is newer")
		w.clock.Move(time.Minute)
		w.addItems("pos", store.NewItem{Key: []byte("high"), Priority: 500})
		check(0, "behind two that are newer")
		w.wantKeys(w.claim(run, 1, "pos"), "high")
		w.wantKeys(w.claim(run, 1, "pos"), "plain")
		check(0, "last in line")
		must(w.db.Drop(w.ctx, []int64{w.item("low").ID}))(w)
		check(time.Minute, "after it was dropped: the claimed ones wait, too")
		for i, k := range numbered(40) {
			w.clock.Move(time.Second)
			w.addItems("pos", store.NewItem{Key: []byte(k), Priority: (i*7)%11 - 5})
		}
		w.addItems("pos", store.NewItem{Key: []byte("ancient"), Priority: -1000, At: dawn.Add(-time.Hour)})
		check(-time.Hour, "at the far end of the line")
	}},
	{"ClockSetBack", func(w *world) {
		// No age is negative.
		w.add("pos", "a", "b", "c")
		w.addItems("pos", store.NewItem{Key: []byte("due"), Delay: time.Second})
		w.clock.Move(time.Minute)
		run := w.register("r")
		w.claim(run, 1, "pos")
		w.clock.Move(-time.Hour)
		st := must(w.db.Stats(w.ctx))(w)
		if j := st.Jobs[0]; j.Oldest.After(st.Now) {
			w.t.Errorf("the oldest waits since %v, which is after now, %v", j.Oldest, st.Now)
		}
	}},
	{"Counters", func(w *world) {
		w.add("pos", numbered(3)...)
		w.add("other", "x")
		run := w.register("r")
		s := w.start(run, w.claim(run, 3, "pos"))
		w.settle(run, done, s[0])
		w.settle(run, dead, s[1])
		w.settle(run, retry(time.Second), s[2])
		w.refused(run, settlement(s[0], done))
		w.enqueue(store.Enqueue{Job: "pos", Items: []store.NewItem{{Key: []byte("k0001")}, {Key: []byte("k0001"), Payload: []byte("p")}, {Key: []byte("k0002")}}})
		w.clock.Move(48 * time.Hour)
		w.settle(run, done, w.start(run, w.claim(run, 1, "pos"))...)
		want := store.Counters{Done: 2, Retries: 1, Dead: 1, Stale: 1, Duplicates: 1, Conflicts: 1}
		equal(w, w.job("pos").Counters, want, "counters over two days")
		equal(w, w.job("other").Counters, store.Counters{}, "counters of another job")
	}},
	{"TimesAreUTC", func(w *world) {
		// agentfield#1040, conductor#1497: where a process runs changes nothing.
		zone := time.FixedZone("", -8*60*60)
		far := w.open(w.t, "", func() time.Time { return w.clock.Now().In(zone) })
		must(far.Enqueue(w.ctx, store.Enqueue{Job: "pos", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("a")}}}))(w)
		run := w.register("r")
		w.settle(run, dead, w.start(run, w.claim(run, 1, "pos"))...)
		a, b := w.items(store.Selection{}), must(far.Items(w.ctx, store.Selection{}))(w)
		if diff := cmp.Diff(a, b); diff != "" {
			w.t.Errorf("items by two processes (-here +there):\n%s", diff)
		}
		for _, at := range []time.Time{a[0].Due, a[0].Created, a[0].Started, a[0].Finished} {
			equal(w, at.Location(), time.UTC, "zone")
			equal(w, at, dawn.UTC(), "time")
		}
	}},
	{"Peek", func(w *world) {
		// What would start first, and nothing is claimed.
		w.enqueue(store.Enqueue{Job: "pos", Scope: "s", Items: []store.NewItem{
			{Key: []byte("last"), Priority: -1, Payload: []byte{}}, {Key: []byte("first"), Priority: 1, Payload: []byte("p")}, {Key: []byte("future"), Delay: time.Hour}}})
		w.add("pos", "mid")
		w.add("other", "x")
		before := w.items(store.Selection{})
		peek := func(scope *string, n int) []*jobs.Item {
			w.t.Helper()
			return must(w.db.Peek(w.ctx, "pos", scope, n))(w)
		}
		item := func(key, scope string, priority int, payload []byte) *jobs.Item {
			return &jobs.Item{ID: w.item(key).ID, Job: "pos", Scope: scope, Key: []byte(key), Payload: payload, State: jobs.Ready, Priority: priority, Generation: 1, Due: dawn.UTC()}
		}
		first, mid, last := item("first", "s", 1, []byte("p")), item("mid", "", 0, nil), item("last", "s", -1, []byte{})
		if diff := cmp.Diff([]*jobs.Item{first, mid, last}, peek(nil, 10)); diff != "" {
			w.t.Errorf("all (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]*jobs.Item{first, last}, peek(ptr("s"), 10)); diff != "" {
			w.t.Errorf("of a scope (-want +got):\n%s", diff)
		}
		equal(w, len(peek(nil, 2)), 2, "the first two")
		equal(w, len(peek(ptr("none"), 2)), 0, "of an unknown scope")
		equal(w, len(must(w.db.Peek(w.ctx, "unknown", nil, 2))(w)), 0, "of an unknown job")
		if diff := cmp.Diff(before, w.items(store.Selection{})); diff != "" {
			w.t.Errorf("items after a look (-before +after):\n%s", diff)
		}
	}},
	{"Health", func(w *world) {
		w.assorted()
		h := must(w.db.Check(w.ctx))(w)
		equal(w, h.Items, 7, "items")
		equal(w, h.Sound(), true, "sound")
		equal(w, h.Path, must(w.db.Stats(w.ctx))(w).Path, "path")
	}},
}
