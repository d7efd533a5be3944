package cmd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/jobs/handler"
	"batchq/lease/worker"
	"batchq/report"
	"batchq/store/sqlite"
)

// plan turns flags and configuration into what a run is to do.
func (o *workOptions) plan(a *app) (worker.Plan, error) {
	cfg, err := a.config()
	if err != nil {
		return worker.Plan{}, err
	}
	p := worker.Plan{Pools: cfg.Pools, Batch: cfg.Batch, Lease: cfg.Lease, Grace: o.grace, Once: o.once, Limit: o.limit,
		MaxRuntime: o.maxRuntime, Wait: o.wait, StopAfter: o.stopAfter}
	if err := o.bounds(&p); err != nil {
		return p, err
	}
	if p.Scope, err = scopeOf(o.flags, o.scope, a.now()); err != nil {
		return p, err
	}
	if p.Scope != nil {
		a.warnLiteral(*p.Scope)
	}
	for _, with := range []string{"wait", "once", "limit", "dry-run"} {
		if err := exclusive(o.flags, "follow", with); err != nil {
			return p, err
		}
	}
	specs, err := o.specs(cfg)
	if err != nil {
		return p, err
	}
	for _, s := range specs {
		if err := o.policy.apply(s); err != nil {
			return p, err
		}
		a.warnDoubts(s)
	}
	if p.Lanes, err = o.lanes(cfg, specs); err != nil {
		return p, err
	}
	if o.print {
		p.Print = a.printAttempt
	}
	if o.logDir != "" && !o.dryRun {
		if p.LogDir, err = makeLogDir(o.logDir); err != nil {
			return p, err
		}
	}
	return p, nil
}

// bounds checks the numbers that flags give.
func (o *workOptions) bounds(p *worker.Plan) error {
	for _, f := range []struct {
		name  string
		value int
	}{{"batch", o.batch}, {"limit", o.limit}, {"slots", o.slots}, {"stop-after", o.stopAfter}} {
		if o.flags.Changed(f.name) && f.value < 1 {
			return usagef("--%s %d: it must be 1 or more", f.name, f.value)
		}
		if f.value > maxNumber {
			return usagef("--%s %d: at most %d", f.name, f.value, maxNumber)
		}
	}
	if o.flags.Changed("batch") {
		p.Batch = o.batch
	}
	if o.flags.Changed("lease") {
		if o.lease < minLease {
			return usagef("--lease %s: it must be %s or more, or a busy disk ends it", o.lease, minLease)
		}
		p.Lease = o.lease
	}
	return nil
}

// maxNumber bounds what a flag may ask for, as batchq.toml's numbers are.
const maxNumber = 1_000_000

// minLease is the shortest lease that a heartbeat can keep while others write.
const minLease = time.Second

// specs are the jobs that the run works, as copies that flags may change.
func (o *workOptions) specs(cfg *config.Config) ([]*jobs.Spec, error) {
	if o.command != nil {
		s, err := o.ofTheMoment(cfg)
		if err != nil {
			return nil, err
		}
		return []*jobs.Spec{s}, nil
	}
	names := o.jobs
	if len(names) == 0 {
		names = cfg.Names
		if len(names) == 0 {
			return nil, exitWith(exitConfig, withHint(usagef("no job is declared, and none is given"),
				"declare one in batchq.toml (batchq init writes a first one), or give a JOB and a command: batchq %s JOB -- COMMAND {}", o.verb))
		}
	}
	var specs []*jobs.Spec
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		s := cfg.Jobs[name]
		if s == nil {
			return nil, o.unknownJob(cfg, name)
		}
		c := *s
		specs = append(specs, &c)
	}
	return specs, nil
}

// unknownJob is a job that is named and nowhere declared.
func (o *workOptions) unknownJob(cfg *config.Config, name string) error {
	where := "there is no batchq.toml"
	if cfg.Path != "" {
		where = cfg.Path + " does not declare it"
	}
	err := &outcome{code: exitConfig, err: usagef("no job is called %q: %s", name, where)}
	err.hint = "give its command: batchq " + o.verb + " " + shellWord(name) + " -- COMMAND {}"
	if hint := forgottenDash(o.verb, append(slices.Clone(o.jobs), o.files...), o.verb == "work"); hint != "" {
		err.hint = hint
	} else if near := jobs.Nearest(name, cfg.Names); near != "" {
		err.hint = "did you mean " + near + "?"
	} else if info, statErr := os.Stat(name); statErr == nil && info.Mode().IsRegular() {
		err.hint = "that is a file: a command stands after --, as in: batchq " + o.verb + " JOB -- ./" + shellWord(name) + " {}"
	}
	return err
}

// forgottenDash is what to type where words, a JOB and what stands behind it,
// look like a command without its --; "" where they do not. A path tells where
// no files are taken, and else a placeholder or a program.
func forgottenDash(verb string, words []string, paths bool) string {
	if len(words) < 2 || words[0] == "" {
		return ""
	}
	first, looks := 0, false
	for i, word := range words {
		if i == 0 {
			continue
		}
		info, err := os.Stat(word)
		program := err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		if program || paths && strings.Contains(word, "/") {
			looks = true
			first = cmp.Or(first, i)
		}
		looks = looks || err != nil && handler.HasPlaceholder([]string{word})
	}
	if !looks {
		return ""
	}
	return fmt.Sprintf("a command stands after --, behind the flags: batchq %s %s -- %s", verb, shellWord(words[0]), typed(words[max(first, 1):]))
}

// typed writes the words of a command as one types them: a placeholder needs no
// quotes.
func typed(words []string) string {
	var out []string
	for _, word := range words {
		if !handler.HasPlaceholder([]string{word}) || strings.ContainsAny(word, " \t\n'\"$`\\") {
			word = shellWord(word)
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// ofTheMoment is the job of a command line with a COMMAND.
func (o *workOptions) ofTheMoment(cfg *config.Config) (*jobs.Spec, error) {
	if len(o.command) == 0 {
		return nil, withHint(usagef("there is no command after --"), "batchq %s JOB -- COMMAND {}", o.verb)
	}
	if len(o.jobs) != 1 {
		return nil, withHint(usagef("a COMMAND goes with exactly one JOB, and there are %d", len(o.jobs)), "batchq %s JOB -- COMMAND {}", o.verb)
	}
	name := o.jobs[0]
	if err := config.CheckName(name); err != nil {
		return nil, usagef("job %q: %w", name, err)
	}
	s := cfg.Base(name)
	if declared := cfg.Jobs[name]; declared != nil {
		c := *declared
		s = &c
	} else if o.lane != "" {
		s.Lane = o.lane // a person says so on this command line
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if s.Handler.HTTP != nil {
		s.Policy.Timeout = commandTimeout(cfg, name)
	}
	s.Handler = jobs.Handler{Command: o.command, AppendValue: !handler.HasPlaceholder(o.command), Dir: dir,
		Env: s.Handler.Env, Stdin: s.Handler.Stdin}
	s.Source = commandLine
	return s, nil
}

// commandTimeout is the timeout of a command that stands in for a request. What
// is built in for requests alone does not hold for it.
func commandTimeout(cfg *config.Config, name string) time.Duration {
	for _, s := range cfg.Settings(name) {
		if s.Key == "timeout" && s.Origin != config.BuiltIn {
			return cfg.Jobs[name].Policy.Timeout
		}
	}
	return cfg.Base(name).Policy.Timeout
}

// commandLine is the source of a job whose command is given for the moment.
const commandLine = "the command line"

// warnDoubts points out placeholders that are probably not what was meant.
func (a *app) warnDoubts(s *jobs.Spec) {
	for _, doubt := range handler.Doubts(&s.Handler) {
		a.out.warn("job %s: %s", s.Name, doubt)
	}
}

// lanes sorts the jobs into the lanes where they run, each with its limit.
func (o *workOptions) lanes(cfg *config.Config, specs []*jobs.Spec) (lanes []worker.Lane, err error) {
	if o.slots > 0 && o.lane == "" {
		return nil, withHint(usagef("-j needs --lane: what may run in parallel is declared, never guessed"),
			"if this command is safe beside itself: --lane parallel -j %d", o.slots)
	}
	wanted := o.lane
	placed := slices.ContainsFunc(specs, func(s *jobs.Spec) bool { return s.Lane == o.lane })
	if !placed && len(cfg.Undeclared[o.lane]) > 0 {
		// Those jobs asked for a lane that the file does not declare.
		wanted = jobs.Serial
		specs = slices.DeleteFunc(specs, func(s *jobs.Spec) bool { return !slices.Contains(cfg.Undeclared[o.lane], s.Name) })
	}
	for _, s := range specs {
		if wanted != "" && s.Lane != wanted {
			continue
		}
		i := slices.IndexFunc(lanes, func(l worker.Lane) bool { return l.Name == s.Lane })
		if i < 0 {
			i = len(lanes)
			slots, err := o.slotsOf(cfg, s.Lane)
			if err != nil {
				return nil, err
			}
			lanes = append(lanes, worker.Lane{Name: s.Lane, Slots: slots})
		}
		lanes[i].Jobs = append(lanes[i].Jobs, s)
	}
	if len(lanes) > 0 {
		return lanes, nil
	}
	return nil, o.noLane(cfg, specs)
}

// noLane explains why --lane names nothing that could be worked.
func (o *workOptions) noLane(cfg *config.Config, specs []*jobs.Spec) error {
	if len(o.jobs) == 1 && len(specs) == 1 {
		source := specs[0].Source
		if declared := cfg.Jobs[specs[0].Name]; declared != nil {
			source = declared.Source // a COMMAND replaces the handler, not the lane
		}
		return withHint(usagef("job %s runs in lane %s, not in %s (%s)", specs[0].Name, specs[0].Lane, o.lane, source),
			"leave --lane away, or change the job's lane where it is declared")
	}
	if _, declared := cfg.Lanes[o.lane]; declared {
		return usagef("no job that was asked for runs in lane %s", o.lane)
	}
	err := withHint(usagef("no lane is called %q: no file and no job knows it", o.lane), "lanes: %s", strings.Join(laneNames(cfg), ", "))
	return meant(err, o.lane, laneNames(cfg))
}

func laneNames(cfg *config.Config) []string {
	names := []string{}
	for name := range cfg.Lanes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// slotsOf is how many items this run may have in flight in a lane. A lane that
// only this command line declares has as many slots as there are processors,
// or as -j says; -j never raises what was declared.
func (o *workOptions) slotsOf(cfg *config.Config, lane string) (int, error) {
	slots, declared := cfg.Lanes[lane]
	if !declared {
		slots = runtime.NumCPU()
	}
	switch {
	case o.slots == 0:
	case lane == jobs.Serial && o.slots > 1 && o.lane != lane:
		return 0, withHint(usagef("-j %d: lane %s is not declared, so its jobs run in serial, one item at a time", o.slots, o.lane),
			"declare it in %s: [lanes.%s] with in_flight = %d", cfg.Path, o.lane, o.slots)
	case lane == jobs.Serial && o.slots > 1:
		return 0, withHint(usagef("-j %d: lane serial runs one item at a time", o.slots),
			"if this command is safe beside itself: --lane parallel -j %d", o.slots)
	case declared && o.slots > slots:
		return 0, withHint(usagef("-j %d: lane %s is declared with %d", o.slots, lane, slots), "-j only lowers a declared limit; raise it in %s", cfg.Path)
	default:
		slots = o.slots
	}
	return slots, nil
}

// sayUndeclared says what the file leaves open: lanes that it does not
// declare, and, when all jobs were asked for, jobs that have something to do
// and that nobody declares.
func (o *workOptions) sayUndeclared(ctx context.Context, a *app, db *sqlite.DB) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, note := range cfg.Notes {
		a.out.note("%s", note)
	}
	if len(o.jobs) > 0 {
		return nil
	}
	names, err := db.JobNames(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if cfg.Jobs[name] != nil {
			continue
		}
		c, err := db.Counts(ctx, []string{name}, nil)
		if err != nil {
			return err
		}
		if c.Left() > 0 {
			a.out.must("job %s is not declared: its %s skipped; work them with: %s work %s -- COMMAND {}",
				name, isAre(c.Left(), "item"), a.self(), shellWord(name))
		}
	}
	return nil
}

// isAre says "1 item is" or "3 items are".
func isAre(n int64, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return count(n, what) + " are"
}

// rehearsed is how many items a dry run shows of each job.
const rehearsed = 10

// rehearse says what would run where.
func (a *app) rehearse(ctx context.Context, db *sqlite.DB, plan worker.Plan) error {
	rows, err := a.plannedJobs(ctx, db, plan)
	if err != nil {
		return err
	}
	if a.out.json {
		return a.out.document(report.NewPlanned(rows))
	}
	for _, r := range rows {
		for _, line := range r.Lines() {
			a.out.print("%s", line)
		}
	}
	return nil
}

// plannedJobs are the jobs of a plan with what they find in the database, nil
// for one that is not there.
func (a *app) plannedJobs(ctx context.Context, db *sqlite.DB, plan worker.Plan) (rows []report.PlannedJob, err error) {
	for _, l := range plan.Lanes {
		for _, s := range l.Jobs {
			r := report.PlannedJob{Job: s.Name, Lane: l.Name, Slots: l.Slots, Batch: plan.Batch, Source: s.Source, Command: declaredCommand(&s.Handler), First: []string{}}
			if fault, _ := handler.Program(s, os.Environ()); fault != "" {
				a.out.warn("job %s: its %s now: %s", s.Name, cantBeRun(&s.Handler), fault)
			}
			if db != nil {
				c, err := db.Counts(ctx, []string{s.Name}, plan.Scope)
				if err != nil {
					return nil, err
				}
				r.Ready, r.Delayed, r.Held = c.Ready, c.Delayed, c.Claimed+c.Running
				if r.First, err = firstCommands(ctx, db, s, plan.Scope); err != nil {
					return nil, err
				}
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// firstCommands are the command lines of the items that would start first.
func firstCommands(ctx context.Context, db *sqlite.DB, s *jobs.Spec, scope *string) ([]string, error) {
	items, err := db.Peek(ctx, s.Name, scope, rehearsed)
	if err != nil {
		return nil, err
	}
	lines := []string{}
	for _, it := range items {
		it.Attempt++ // as the attempt that it would be
		lines = append(lines, firstCommand(s, it))
	}
	return lines, nil
}

// firstCommand is the command line of one item, or why it could not have one.
func firstCommand(s *jobs.Spec, it *jobs.Item) string {
	var argv []string
	var line string
	var err error
	if s.Handler.HTTP != nil {
		line, err = handler.Line(s, it)
	} else if argv, err = handler.Arguments(s, it); err == nil {
		line = shellLine(argv)
	}
	if err != nil {
		return fmt.Sprintf("%s: dead at once: %v", report.Name(it), err)
	}
	return line
}

// cantBeRun is what of a job can't be done, with its verb.
func cantBeRun(h *jobs.Handler) string {
	if h.HTTP != nil {
		return "request can't be sent"
	}
	return "command can't be run"
}

// declaredCommand is a job's command or request as it was declared, placeholders
// and all.
func declaredCommand(h *jobs.Handler) string {
	if h.HTTP != nil {
		return h.HTTP.Verb() + " " + h.HTTP.URL
	}
	if h.Shell != "" {
		return shellLine([]string{"sh", "-c", h.Shell, "sh", "{}"})
	}
	argv := h.Command
	if h.AppendValue {
		argv = append(slices.Clone(argv), "{}")
	}
	return shellLine(argv)
}

// makeLogDir makes the directory for whole outputs, private to its owner:
// what commands print may be anybody's secret.
func makeLogDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", withHint(err, "--log-dir wants a directory that can be written")
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return "", withHint(&os.PathError{Op: "write", Path: dir, Err: err}, "--log-dir wants a directory that can be written")
	}
	return dir, nil
}

// printAttempt shows what an item printed: its stdout on ours, its stderr on
// ours, each as the bytes came. A reader that went away ends the printing only.
func (a *app) printAttempt(_ *jobs.Item, p *handler.Printed) {
	if err := a.out.attempt(&p.Stdout, &p.Stderr); err != nil {
		a.out.note("output of an item could not be read back: %v", err)
	}
}
