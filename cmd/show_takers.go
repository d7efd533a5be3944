package cmd

import (
	"io"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"batchq/jobs/config"
	"batchq/store"
)

// takers are the runs, among those that have not written their end, that take
// an item like this one: only they may be named to who waits for it.
func (a *app) takers(s *store.Story, cfg *config.Config) map[int64]bool {
	takers := map[int64]bool{}
	for i := range s.Runs {
		if r := &s.Runs[i]; a.takes(r, s, cfg) {
			takers[r.ID] = true
		}
	}
	return takers
}

// takes reads a run's command line. The database tells only of jobs that a run
// has had something of, and so it is asked where the line names none.
func (a *app) takes(r *store.RunInfo, s *store.Story, cfg *config.Config) bool {
	served, job := slices.Contains(s.Served, r.ID), s.Item.Job
	w, ok := readWorkLine(r.Command)
	if !ok { // an older or newer batchq's
		return served || slices.Contains(r.Command, job)
	}
	if !w.work {
		return false
	}
	if scope, err := scopeOf(w.flags, w.scope, r.Started.Local()); err == nil && scope != nil && *scope != s.Item.Scope {
		return false
	}
	declared, lane := cfg.Jobs[job], s.Lane
	if declared != nil {
		lane = declared.Lane
	}
	if w.lane != "" && w.command == nil && w.lane != lane {
		return false
	}
	if len(w.jobs) > 0 {
		return slices.Contains(w.jobs, job)
	}
	return served || declared != nil && a.sameConfig(w.global.config, cfg)
}

// sameConfig says whether a run whose command line names this configuration
// reads the one that we read.
func (a *app) sameConfig(theirs string, cfg *config.Config) bool {
	if theirs == a.global.config {
		return true
	}
	one, err := os.Stat(theirs)
	if err != nil {
		return false
	}
	other, err := os.Stat(cfg.Path)
	return err == nil && os.SameFile(one, other)
}

// workLine is the command line of a run, as it is on record.
type workLine struct {
	workOptions
	global globalFlags
	work   bool // it is that of work, and no other command's
}

// readWorkLine understands what work understands; ok is false for a line with
// flags that this version does not know.
func readWorkLine(line []string) (w workLine, ok bool) {
	f := pflag.NewFlagSet("work", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	w.register(f)
	w.global.register(f)
	if err := f.Parse(line); err != nil || f.NArg() == 0 {
		return w, false
	}
	words, dash := f.Args(), f.ArgsLenAtDash()
	if dash >= 0 {
		words, w.command = words[:dash], words[dash:]
	}
	if w.work = len(words) > 0 && words[0] == "work"; w.work {
		w.jobs = words[1:]
	}
	return w, true
}
