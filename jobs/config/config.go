// Package config reads batchq.toml, the one place for numbers, into values:
// pools, lanes and a jobs.Spec for each job.
//
// It is strict. What it does not know or can't use is a Fault with file and
// line, and all faults of a file are told at once: a limit that was mistyped
// and silently ignored would be noticed only when the database falls over.
//
// It never decides what may run in parallel (a job whose lane is not declared
// runs in serial), never writes, never opens a database, and reads no clock.
//
// A file passes through once:
//
//	Find → Load (file.go) → tree (tree.go) → reading by the table (keys.go, read.go) → limits (lanes.go) → Config
package config

import (
	"maps"
	"path/filepath"
	"slices"
	"time"

	"batchq/jobs"
)

// FileName is what a configuration is called wherever it is looked for.
const FileName = "batchq.toml"

// Config is what one file declares, checked and complete: every default is
// filled in. Treat it as read-only.
type Config struct {
	Path     string // absolute; "" when there is no file
	Database string // absolute; "" when the file does not say
	Batch    int    // the most a run is responsible for at once, in a lane
	Lease    time.Duration
	Pools    map[string]int
	// Lanes holds each declared lane's in-flight limit, given or worked out.
	// jobs.Serial is always there and always 1.
	Lanes map[string]int
	Jobs  map[string]*jobs.Spec
	Names []string // of the jobs, in the file's order
	// Undeclared tells which jobs (in the file's order) asked for a lane that
	// is not declared: they run in serial, and `work --lane THAT` means them.
	Undeclared map[string][]string
	// Notes are sentences for `check`, `work` and `stats`: no faults, but not
	// what a reader of the file might expect either.
	Notes []string

	base     jobs.Spec // what [defaults] makes of a job that says nothing
	limits   []LaneLimit
	settings map[string][]Setting // by job; "": of no job
	unused   []string
}

// Base returns a fresh Spec that says only what [defaults] says: the start for
// a job that is given on the command line alone. Its Handler.Dir is "" unless
// [defaults] has one, and it has no command.
func (c *Config) Base(name string) *jobs.Spec {
	s := cloneSpec(&c.base)
	s.Name = name
	return s
}

// Parse reads the text of a configuration. name is its path, as the user knows
// it: it is shown in messages, and its directory is what `database` and `dir`
// are relative to (the directory of the name given, not of what a symbolic
// link points at). The error is Faults, or says that there is no current
// directory to be relative to.
func Parse(name string, data []byte) (*Config, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	r := newReading(name, filepath.Dir(path))
	r.cfg.Path = path
	root, faults := parseTree(data)
	r.faults = faults
	if root != nil {
		r.document(root)
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted(name)
	}
	return r.finish(), nil
}

// none is the configuration of someone who has no file.
func none() *Config {
	r := newReading("", "")
	r.limits()
	return r.finish()
}

// cloneSpec copies s so deeply that no two jobs share a map or a list.
func cloneSpec(s *jobs.Spec) *jobs.Spec {
	c := *s
	c.Uses = maps.Clone(s.Uses)
	c.Handler.Env = maps.Clone(s.Handler.Env)
	c.Handler.Command = slices.Clone(s.Handler.Command)
	c.Handler.HTTP = jobs.CloneRequest(s.Handler.HTTP)
	codes := &c.Policy.Codes
	codes.Done, codes.Retry, codes.Permanent = slices.Clone(codes.Done), slices.Clone(codes.Retry), slices.Clone(codes.Permanent)
	return &c
}
