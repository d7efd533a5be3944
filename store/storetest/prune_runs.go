package storetest

import (
	"time"

	"batchq/store"
)

// A run's record goes by itself only where nobody may want to see it again.
var sweepRunsCases = []testCase{
	{"OnlyOfJobsThatKeepNothingForEver", func(w *world) {
		w.done("pos", "", "a")
		w.done("ever", "", "b")
		both := w.works("pos", "ever")
		pos := w.works("pos")
		w.clock.Move(time.Hour)
		keep := map[string]time.Duration{"pos": time.Hour}
		w.sweepRuns(keep, 2)
		runs := must(w.db.Runs(w.ctx, store.RunSelection{}))(w)
		equal(w, len(runs), 2, "runs left")
		equal(w, runs[0].ID, both, "the run of both")
		equal(w, runs[0].ID < pos, true, "it is the older one")
		w.sweepRuns(nil, 0)
		keep["ever"] = 2 * time.Hour
		w.sweepRuns(keep, 0)
		w.clock.Move(time.Hour - time.Millisecond)
		w.sweepRuns(keep, 0) // each job's time counts, the longest last
		w.clock.Move(time.Millisecond)
		w.sweepRuns(keep, 2)
		w.wantRuns(store.RunSelection{})
	}},
	{"WorkedNothing", func(w *world) {
		w.add("pos", "a")
		w.add("ever", "b")
		idle := w.register("idle")
		w.noError(w.db.EndRun(w.ctx, idle, store.RunEnd{}))
		w.clock.Move(time.Hour)
		w.sweepRuns(map[string]time.Duration{"pos": 0}, 0)
		w.sweepRuns(map[string]time.Duration{"pos": 0, "ever": time.Hour + time.Millisecond}, 0)
		w.sweepRuns(map[string]time.Duration{"pos": 0, "ever": time.Hour}, 1)
	}},
	{"NotWhatIsToBeLookedAt", func(w *world) {
		w.add("pos", "a")
		dead := w.register("dead")
		w.start(dead, w.claim(dead, 1, "pos"))
		rescuer := w.register("rescuer")
		w.takeOver(dead, rescuer)
		keep := map[string]time.Duration{"pos": 0}
		w.sweepRuns(keep, 0)
		w.noError(w.db.SettleOrphan(w.ctx, rescuer, w.orphan(rescuer), crashed))
		w.sweepRuns(keep, 0)
		w.clock.Move(time.Hour)
		w.settle(rescuer, done, w.start(rescuer, w.claim(rescuer, 1, "pos"))...)
		w.sweepRuns(keep, 0)
		w.prune(store.Prune{Keep: keep})
		w.sweepRuns(keep, 1)
		w.wantRuns(store.RunSelection{}, rescuer)
	}},
}

// works is a run that has done an item of each of these jobs, and has ended.
func (w *world) works(names ...string) int64 {
	w.t.Helper()
	run := w.register("works " + names[len(names)-1])
	for _, job := range names {
		w.add(job, "of "+names[len(names)-1])
		w.settle(run, done, w.start(run, w.claim(run, 1, job))...)
	}
	w.noError(w.db.EndRun(w.ctx, run, store.RunEnd{}))
	return run
}

// sweepRuns wants so many runs to go.
func (w *world) sweepRuns(keep map[string]time.Duration, want int) {
	w.t.Helper()
	equal(w, must(w.db.SweepRuns(w.ctx, keep))(w), want, "runs swept")
}
