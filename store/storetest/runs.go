package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

var runCases = []testCase{
	{"NewestFirst", func(w *world) {
		w.wantRuns(store.RunSelection{})
		var ids []int64
		for _, token := range []string{"r1", "r2", "r3"} {
			ids = append(ids, w.register(token))
			w.clock.Move(-time.Hour) // whatever the clock says
		}
		w.noError(w.db.EndRun(w.ctx, ids[1], store.RunEnd{}))
		w.wantRuns(store.RunSelection{}, ids[2], ids[1], ids[0])
		w.wantRuns(store.RunSelection{Limit: 2}, ids[2], ids[1])
		w.wantRuns(store.RunSelection{Limit: 9}, ids[2], ids[1], ids[0])
	}},
	{"Since", func(w *world) {
		long, short := w.register("long"), w.register("short")
		w.clock.Move(time.Minute)
		w.noError(w.db.EndRun(w.ctx, short, store.RunEnd{}))
		w.clock.Move(time.Hour)
		late := w.register("late")
		w.noError(w.db.EndRun(w.ctx, late, store.RunEnd{}))
		w.wantRuns(store.RunSelection{Since: time.Hour}, late, short, long)
		w.clock.Move(time.Millisecond)
		w.wantRuns(store.RunSelection{Since: time.Hour}, late, long)
		w.wantRuns(store.RunSelection{Since: time.Hour, Limit: 1}, late)
		w.clock.Move(24 * time.Hour)
		w.wantRuns(store.RunSelection{Since: time.Hour}, long) // not ended
	}},
	{"Row", func(w *world) {
		w.add("pos", "a", "b")
		run := w.register("r")
		w.claim(run, 1, "pos")
		w.claim(run, 1, "pos")
		w.claim(run, 1, "pos") // brings nothing
		w.clock.Move(time.Minute)
		row := store.RunRow{RunInfo: store.RunInfo{ID: run, Token: "r", PID: 4711, PIDStart: 99, BootID: "boot", PIDNS: "ns", Host: "host",
			Command: []string{"batchq", "work"}, Started: dawn.UTC()}, Batches: 2}
		w.wantRun(row)
		w.noError(w.db.EndRun(w.ctx, run, store.RunEnd{Outcome: "finished", PeakBytes: 1 << 40}))
		row.Ended, row.Outcome, row.PeakBytes = dawn.UTC().Add(time.Minute), "finished", 1<<40
		w.wantRun(row)
	}},
	{"Crashed", func(w *world) {
		w.enqueue(store.Enqueue{Job: "pos", Scope: "tue", Items: []store.NewItem{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}, {Key: []byte("d")}}})
		r1, r2 := w.register("r1"), w.register("r2")
		w.settle(r1, retry(0), w.start(r1, w.claim(r1, 1, "pos"))...) // no crash
		started := w.start(r1, w.claim(r1, 3, "pos"))
		w.claim(r1, 1, "pos")
		w.clock.Move(time.Second)
		w.takeOver(r1, r2)
		crash := func(s store.Started, state jobs.State) store.CrashedItem {
			it := w.items(store.Selection{IDs: []int64{s.Item}})[0]
			return store.CrashedItem{Item: s.Item, Job: "pos", Scope: "tue", Key: it.Key, Attempt: s.Attempt, State: state}
		}
		crashes := func(want ...store.CrashedItem) {
			w.t.Helper()
			rows := must(w.db.Runs(w.ctx, store.RunSelection{}))(w)
			equal(w, len(rows[0].Crashed), 0, "crashed of the rescuer")
			equal(w, rows[1].Freed, 1, "freed")
			equal(w, rows[1].Outcome, "died (crash)", "outcome")
			equal(w, rows[1].Ended, dawn.UTC().Add(time.Second), "ended")
			if diff := cmp.Diff(want, rows[1].Crashed); diff != "" {
				w.t.Errorf("crashed (-want +got):\n%s", diff)
			}
		}
		a, b, c := started[0], started[1], started[2]
		if a.Attempt != 2 {
			a, b, c = started[2], started[0], started[1]
		}
		crashes(crash(a, jobs.Running), crash(b, jobs.Running), crash(c, jobs.Running))
		for _, o := range must(w.db.Orphans(w.ctx, r2))(w) {
			switch o.Item {
			case a.Item:
				w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashed))
			case b.Item:
				w.noError(w.db.SettleOrphan(w.ctx, r2, o, crashDead))
			}
		}
		crashes(crash(a, jobs.Ready), crash(b, jobs.Dead), crash(c, jobs.Running))
		// It stays on record, whatever becomes of the item.
		w.settle(r2, done, w.start(r2, w.claim(r2, 1, "pos"))...)
		must(w.db.Requeue(w.ctx, []int64{b.Item}, []jobs.State{jobs.Dead}))(w)
		crashes(crash(a, w.item("a").State), crash(b, jobs.Ready), crash(c, jobs.Running))
	}},
}

func (w *world) wantRuns(s store.RunSelection, want ...int64) {
	w.t.Helper()
	var got []int64
	for _, r := range must(w.other().Runs(w.ctx, s))(w) {
		got = append(got, r.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("runs %+v (-want +got):\n%s", s, diff)
	}
}

// wantRun compares the only run.
func (w *world) wantRun(want store.RunRow) {
	w.t.Helper()
	got := must(w.db.Runs(w.ctx, store.RunSelection{}))(w)
	if len(got) == 1 && got[0].Schema > 0 {
		got[0].Schema = 0 // the engine's own number
	}
	if diff := cmp.Diff([]store.RunRow{want}, got); diff != "" {
		w.t.Errorf("run (-want +got):\n%s", diff)
	}
}
