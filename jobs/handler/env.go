package handler

import (
	"slices"
	"strconv"
	"strings"

	"batchq/jobs"
)

// Variable is one that a command finds in its environment.
type Variable struct {
	Name string
	Doc  string // one line for a person
}

// Variables lists what every attempt sets, in the order in which documents
// should show it. <POOL> stands for a pool's name in capitals.
func Variables() []Variable { return slices.Clone(variables) }

// variables is the table that documents read, and that names what of an outer
// attempt (a job that itself calls batchq) must not reach the inner one's
// commands: an inner job without pools would see the outer's threads.
// BATCHQ_DB, BATCHQ_CONFIG and other settings stay.
var variables = []Variable{
	{"BATCHQ_JOB", "the job's name"},
	{"BATCHQ_SCOPE", "the item's scope, as it was expanded; empty where it has none"},
	{"BATCHQ_KEY", "the item's key, byte for byte"},
	{"BATCHQ_IDEMPOTENCY_KEY", "the same on every attempt: hand it to whatever must not act twice"},
	{"BATCHQ_ATTEMPT", "the number of this attempt, from 1"},
	{"BATCHQ_CLAIM", "the fencing token: a number that only grows"},
	{usesPrefix + "<POOL>", "what the attempt may take of that pool"},
	{"BATCHQ_THREADS", "the largest of these: how many threads it may use; unset without a pool"},
	{"BATCHQ_RESULT", "a file for one JSON line that says more than an exit code"},
	{"BATCHQ_MARK", "names the attempt, so that what it leaves behind can be found: leave it alone"},
}

const usesPrefix = "BATCHQ_USES_"

func ownedByAttempt(name string) bool {
	return strings.HasPrefix(name, usesPrefix) || slices.ContainsFunc(variables, func(v Variable) bool { return v.Name == name })
}

// baseEnv returns the run's environment without an outer attempt's variables,
// and its PATH.
func baseEnv(environ []string) (base []string, path string) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if ownedByAttempt(name) {
			continue
		}
		if name == "PATH" {
			path = value
		}
		base = append(base, entry)
	}
	return base, path
}

// specEnv is the part of the environment that all attempts of a job share.
type specEnv struct {
	vars []string
	path string // the PATH in which the command is looked up
}

// maxSpecEnvs bounds what is kept for jobs that a reloaded configuration has
// replaced.
const maxSpecEnvs = 256

func (r *Runner) specEnv(spec *jobs.Spec) *specEnv {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.envs[spec]
	if e == nil {
		if len(r.envs) >= maxSpecEnvs {
			clear(r.envs)
		}
		e = buildSpecEnv(r.base, r.path, spec)
		r.envs[spec] = e
	}
	return e
}

func buildSpecEnv(base []string, path string, spec *jobs.Spec) *specEnv {
	own := map[string]string{}
	if spec.Handler.Dir != "" {
		// As a shell's cd does: the inherited PWD would name another directory.
		own["PWD"] = spec.Handler.Dir
	}
	for name, value := range spec.Handler.Env {
		if !ownedByAttempt(name) {
			own[name] = value
		}
	}
	own["BATCHQ_JOB"] = spec.Name
	threads, uses := 0, map[string]int{}
	for pool, n := range spec.Uses {
		name := poolVar(pool)
		uses[name] = max(uses[name], n) // two pools may share a name once upper-cased
		own[name] = strconv.Itoa(uses[name])
		threads = max(threads, n)
	}
	if threads > 0 {
		own["BATCHQ_THREADS"] = strconv.Itoa(threads)
	}
	e := &specEnv{path: path, vars: make([]string, 0, len(base)+len(own))}
	if value, ok := own["PATH"]; ok {
		e.path = value
	}
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, replaced := own[name]; !replaced {
			e.vars = append(e.vars, entry)
		}
	}
	names := make([]string, 0, len(own))
	for name := range own {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		e.vars = append(e.vars, name+"="+own[name])
	}
	return e
}

// poolVar is the variable that tells a command what it may take of a pool:
// BATCHQ_USES_ and the pool's name in capitals, with _ for what is neither
// letter nor digit.
func poolVar(pool string) string {
	return usesPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, pool)
}

// attemptEnv is the whole environment of one attempt.
func attemptEnv(shared []string, a *Attempt, result string) []string {
	env := make([]string, len(shared), len(shared)+7)
	copy(env, shared)
	return append(env,
		"BATCHQ_SCOPE="+a.Item.Scope,
		"BATCHQ_KEY="+string(a.Item.Key),
		"BATCHQ_IDEMPOTENCY_KEY="+a.IdempotencyKey,
		"BATCHQ_ATTEMPT="+strconv.Itoa(a.Item.Attempt),
		"BATCHQ_CLAIM="+strconv.FormatInt(a.Claim, 10),
		"BATCHQ_RESULT="+result,
		"BATCHQ_MARK="+a.Mark,
	)
}
