package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"batchq/jobs"

	"github.com/pelletier/go-toml/v2/unstable"
)

// reading is one file on its way from nodes to a Config.
type reading struct {
	source string // the file's base name, for "batchq.toml:12"
	dir    string // what relative paths of the file are relative to
	cfg    *Config
	faults Faults
	notes  []note

	lanes     map[string]*lane
	laneOrder []*lane
	poolOrder []*node
	top       map[string]*node // the keys above all tables
	defaults  *declared
	declared  []*declared // the jobs, in the file's order
}

// note is a sentence about a line.
type note struct {
	line int
	text string
}

// declared is a table of a job's keys ([jobs.NAME] or [defaults]) and what it says.
type declared struct {
	node *node
	spec *jobs.Spec
	set  map[string]*node // the keys that stand in it
	// wrong is what its policy was found to have wrong.
	wrong []string
}

func newReading(name, dir string) *reading {
	cfg := &Config{
		Batch:      jobs.DefaultBatch,
		Lease:      jobs.DefaultLease,
		Pools:      map[string]int{},
		Lanes:      map[string]int{},
		Jobs:       map[string]*jobs.Spec{},
		Undeclared: map[string][]string{},
	}
	base := jobs.Spec{Lane: jobs.Serial, Policy: jobs.DefaultPolicy(), Handler: jobs.Handler{Stdin: jobs.StdinPayload}}
	return &reading{
		source:   filepath.Base(name),
		dir:      dir,
		cfg:      cfg,
		lanes:    map[string]*lane{},
		top:      map[string]*node{},
		defaults: &declared{spec: &base},
	}
}

func (r *reading) fault(n *node, format string, args ...any) {
	r.faults = append(r.faults, Fault{Line: n.line, Key: n.path(), Reason: fmt.Sprintf(format, args...)})
}

// note keeps a sentence that ends with the place it is about.
func (r *reading) note(n *node, format string, args ...any) {
	r.notes = append(r.notes, note{n.line, fmt.Sprintf(format, args...) + " (" + r.at(n) + ")"})
}

func (r *reading) at(n *node) string { return fmt.Sprintf("%s:%d", r.source, n.line) }

// document reads a whole file. Its tables may stand in any order, so they are
// read in the order in which they refer to each other.
func (r *reading) document(root *node) {
	tables := []struct {
		name string
		read func(*node)
	}{
		{"pools", r.pools},
		{"defaults", r.defaultsTable},
		{"lanes", r.laneTables},
		{"jobs", r.jobTables},
	}
	var names []string
	rest := newTable(nil, "", 1, byHeader)
	rest.order = slices.Clone(root.order)
	for _, t := range tables {
		names = append(names, t.name)
		n := root.byKey[t.name]
		if n == nil {
			continue
		}
		rest.order = slices.DeleteFunc(rest.order, func(one *node) bool { return one == n })
		t.read(n)
	}
	r.table(rest, Top, "", &target{cfg: r.cfg}, r.top, names)
	r.limits()
}

// table reads the keys of one table, or of one group in it like `backoff`
// (then prefix is "backoff."), and adds them to set. more are names that would
// have been right there too, for suggestions.
func (r *reading) table(n *node, place Place, prefix string, t *target, set map[string]*node, more []string) {
	for _, child := range r.entries(n) {
		name := prefix + child.key
		key, elsewhere := findKey(name, place)
		if strings.Contains(child.key, ".") {
			// Between quotes "backoff.base" is one key, and none of ours.
			key, elsewhere = nil, 0
		}
		switch {
		case key != nil:
			if set != nil {
				set[name] = child
			}
			key.read(r, t, child)
		case len(namesIn(place, name+".")) > 0:
			r.table(child, place, name+".", t, set, nil)
		case elsewhere != 0:
			r.fault(child, "unknown key here: it belongs in %s", elsewhere)
		case place == Job && prefix == "" && child.kind == unstable.Table && CheckName(n.key+"."+child.key) == nil &&
			jobs.Nearest(child.key, namesIn(Job, "")) == "":
			r.fault(child, `unknown key (a job whose name has a dot is written [jobs."%s.%s"])`, n.key, child.key)
		default:
			r.fault(child, "unknown key%s", didYouMean(child.key, append(namesIn(place, prefix), more...)))
		}
	}
}

// entries returns what stands in a table; nothing, and a fault, when n is none.
func (r *reading) entries(n *node) []*node {
	if n.kind != unstable.Table {
		r.fault(n, "%s", wrongType(n, "a table"))
	}
	return n.order
}

// items returns what stands in an array; nothing, and a fault, when n is none.
func (r *reading) items(n *node) []*node {
	if n.kind != unstable.Array {
		r.fault(n, "%s", wrongType(n, "an array"))
	}
	return n.items
}

// named is entries for a table whose keys are names that people choose.
func (r *reading) named(n *node) []*node {
	entries := r.entries(n)
	for _, entry := range entries {
		if err := CheckName(entry.key); err != nil {
			r.fault(entry, "%s", err)
		}
	}
	return entries
}

func (r *reading) pools(n *node) {
	for _, pool := range r.named(n) {
		size, reason := intOf(pool, 1, maxCount)
		if reason != "" {
			r.fault(pool, "%s", reason)
			size = 0 // declared all the same: its users are not at fault
		}
		r.cfg.Pools[pool.key] = size
		r.poolOrder = append(r.poolOrder, pool)
	}
}

func (r *reading) defaultsTable(n *node) {
	d := r.defaults
	d.node, d.set = n, map[string]*node{}
	r.table(n, Defaults, "", &target{cfg: r.cfg, spec: d.spec}, d.set, nil)
	r.checkPolicy(d)
}

func (r *reading) laneTables(n *node) {
	for _, table := range r.named(n) {
		l := &lane{name: table.key, node: table, set: map[string]*node{}}
		r.lanes[l.name] = l
		r.laneOrder = append(r.laneOrder, l)
		r.table(table, Lane, "", &target{cfg: r.cfg, lane: l}, l.set, nil)
		if l.name == jobs.Serial && l.inFlight > 1 {
			r.fault(l.set["in_flight"], "serial always holds 1: declare a lane of another name for %d", l.inFlight)
		}
	}
}

func (r *reading) jobTables(n *node) {
	for _, table := range r.named(n) {
		d := &declared{node: table, spec: cloneSpec(r.defaults.spec), set: map[string]*node{}}
		d.spec.Name, d.spec.Source = table.key, r.at(table)
		r.declared = append(r.declared, d)
		r.table(table, Job, "", &target{cfg: r.cfg, spec: d.spec}, d.set, nil)
		if d.spec.Handler.Dir == "" {
			d.spec.Handler.Dir = r.dir
		}
		for _, n := range []*node{d.set["command"], d.set["shell"], d.httpNode()} {
			if n != nil {
				d.spec.Handler.Source = r.at(n)
			}
		}
		if d.spec.Handler.HTTP != nil {
			d.spec.Handler.Dir, d.spec.Handler.Env = "", nil // they are a process's
			if r.origin(d, "timeout") == nil {
				d.spec.Policy.Timeout = jobs.DefaultHTTPTimeout
			}
		}
		if table.kind == unstable.Table {
			r.checkHandler(d)
			r.checkRequest(d)
			r.checkPolicy(d)
		}
	}
}

func (r *reading) checkHandler(d *declared) {
	var given []*node
	for _, n := range []*node{d.set["command"], d.set["shell"], d.httpNode()} {
		if n != nil {
			given = append(given, n)
		}
	}
	slices.SortStableFunc(given, func(a, b *node) int { return cmp.Compare(a.line, b.line) })
	switch {
	case len(d.set) == 0 && d.node.made == implied && r.faultIn(d.node):
		// Only [jobs.NAME.x] stands there, and x is told to be unknown.
	case len(given) == 0:
		r.fault(d.node, `has nothing to run: write command = ["PROGRAM", "{key}"] or shell = "TEXT"`)
	case len(given) > 1:
		r.fault(given[1], "%s is given too (line %d): a job has one of them", handlerOf(given[0]), given[0].line)
	}
}

// handlerOf names the handler that a key belongs to.
func handlerOf(n *node) string {
	if n.parent.key == "http" {
		return "http"
	}
	return n.key
}

// checkPolicy puts the policy's own faults where the keys stand that they are
// about. What [defaults] has wrong is told there and not once more for each job.
func (r *reading) checkPolicy(d *declared) {
	for _, text := range policyFaults(d.spec.Policy) {
		if d != r.defaults && slices.Contains(r.defaults.wrong, text) {
			continue
		}
		d.wrong = append(d.wrong, text)
		at := d.node
		for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == ':' }) {
			if n := d.set[word]; n != nil {
				at = n
				break
			}
		}
		r.faults = append(r.faults, Fault{Line: at.line, Key: d.node.path(), Reason: text})
	}
}

// policyFaults takes apart what Validate joined.
func policyFaults(p jobs.Policy) []string {
	err := p.Validate()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{err.Error()}
	}
	var texts []string
	for _, one := range joined.Unwrap() {
		texts = append(texts, one.Error())
	}
	return texts
}

// finish fills in what follows from all that was read without fault.
func (r *reading) finish() *Config {
	c := r.cfg
	c.settings = map[string][]Setting{"": r.commonSettings()}
	for _, d := range r.declared {
		c.Jobs[d.spec.Name] = d.spec
		c.Names = append(c.Names, d.spec.Name)
		c.settings[d.spec.Name] = r.jobSettings(d)
	}
	c.unused = r.unused()
	c.base = *r.defaults.spec
	slices.SortStableFunc(r.notes, func(a, b note) int { return cmp.Compare(a.line, b.line) })
	for _, n := range r.notes {
		c.Notes = append(c.Notes, n.text)
	}
	return c
}
