package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"batchq/jobs"
)

// lane is a [lanes.NAME] table on its way to a limit.
type lane struct {
	name     string
	node     *node // nil for a serial that no file declares
	set      map[string]*node
	inFlight int // as declared; 0: not
	jobs     []*declared
}

// LaneLimit is a lane's in-flight limit and the arithmetic around it.
type LaneLimit struct {
	Lane     string
	InFlight int
	Declared bool   // the file gives the number; else it was worked out
	Source   string // "batchq.toml:9"; "" for a serial that no file declares
	Shares   []Share
}

// Share is one pool's part in a lane: Size ÷ Uses = Fits.
type Share struct {
	Pool string
	Size int
	Uses int    // the largest of the lane's jobs
	Job  string // the one that uses so much, the first of the file
	Fits int    // attempts of Job that the pool holds at once
}

// Head is the limit without the arithmetic: "lane parallel: 2 in flight, …".
func (l LaneLimit) Head() string {
	s := fmt.Sprintf("lane %s: %d in flight", l.Lane, l.InFlight)
	switch {
	case l.Lane == jobs.Serial:
		return s + ", always" // whatever the pools would allow
	case l.Declared:
		return s + ", as declared"
	}
	return s + ", worked out from the pools"
}

// String is a pool's part in the arithmetic: "db 15 ÷ 7 (pos) = 2".
func (s Share) String() string {
	return fmt.Sprintf("%s %d ÷ %d (%s) = %d", s.Pool, s.Size, s.Uses, s.Job, s.Fits)
}

// Arithmetic tells how each lane came to its limit: serial first, then the
// others in the file's order.
func (c *Config) Arithmetic() []LaneLimit { return slices.Clone(c.limits) }

// limits settles the lane of every job, then the limit of every lane.
func (r *reading) limits() {
	serial := r.lanes[jobs.Serial]
	if serial == nil {
		serial = &lane{name: jobs.Serial}
		r.lanes[jobs.Serial] = serial
	}
	r.resolveLanes()
	serial.inFlight = 1
	order := []*lane{serial}
	for _, l := range r.laneOrder {
		if l != serial {
			order = append(order, l)
		}
	}
	for _, l := range order {
		if limit, ok := r.limit(l); ok {
			r.cfg.Lanes[l.name] = limit.InFlight
			r.cfg.limits = append(r.cfg.limits, limit)
		}
	}
	r.noteIdleLimits()
}

// resolveLanes moves the jobs of undeclared lanes to serial. Parallel work has
// to be allowed by a declaration, so a slip in a name must only ever cost speed.
func (r *reading) resolveLanes() {
	known := slices.Sorted(maps.Keys(r.lanes))
	for _, d := range r.declared {
		asked := d.spec.Lane
		if r.lanes[asked] == nil {
			r.note(r.origin(d, "lane"), "job %q: lane %q is not declared%s, so it runs in serial", d.spec.Name, asked, didYouMean(asked, known))
			d.spec.Lane = jobs.Serial
			r.cfg.Undeclared[asked] = append(r.cfg.Undeclared[asked], d.spec.Name)
		}
		l := r.lanes[d.spec.Lane]
		l.jobs = append(l.jobs, d)
	}
	if base := r.defaults.spec; r.lanes[base.Lane] == nil {
		base.Lane = jobs.Serial
	}
}

// origin returns where a job got a key from: its own table, else [defaults];
// nil when from neither.
func (r *reading) origin(d *declared, key string) *node {
	if n := d.set[key]; n != nil {
		return n
	}
	return r.defaults.set[key]
}

// limit works out l's in-flight limit where it is not given: the smallest
// number of attempts of its hungriest jobs that a pool holds at once. ok is
// false when a fault leaves nothing to work it out from.
func (r *reading) limit(l *lane) (limit LaneLimit, ok bool) {
	limit = LaneLimit{Lane: l.name, InFlight: l.inFlight, Declared: l.set["in_flight"] != nil, Shares: r.shares(l)}
	if l.node != nil {
		limit.Source = r.at(l.node)
	}
	switch {
	case l.inFlight > 0:
		r.noteFullPools(l, limit.Shares)
		return limit, true
	case r.faultIn(l.node), r.usesAtFault(l):
		return limit, false // what would be told of it follows from that
	case len(limit.Shares) == 0:
		r.fault(l.node, "in_flight can't be worked out, because no job of this lane uses a pool: write in_flight = NUMBER%s", r.meant(l.name))
		return limit, false
	}
	limit.InFlight = limit.Shares[0].Fits
	for _, share := range limit.Shares {
		limit.InFlight = min(limit.InFlight, share.Fits)
	}
	return limit, true
}

// meant names the jobs that probably belong in a lane: they ask for one that
// is not declared.
func (r *reading) meant(lane string) (hint string) {
	for _, asked := range slices.Sorted(maps.Keys(r.cfg.Undeclared)) {
		if jobs.Nearest(asked, []string{lane}) != "" {
			hint += fmt.Sprintf(" (or did lane %q of job %q mean this one?)", asked, r.cfg.Undeclared[asked][0])
		}
	}
	return hint
}

// shares tells, for each pool that the lane's jobs use, how many attempts of
// the job that uses most of it the pool holds at once; by the pools' names.
func (r *reading) shares(l *lane) []Share {
	largest := map[string]Share{}
	for _, d := range l.jobs {
		for pool, uses := range d.spec.Uses {
			if size := r.cfg.Pools[pool]; uses > largest[pool].Uses && uses <= size {
				largest[pool] = Share{Pool: pool, Size: size, Uses: uses, Job: d.spec.Name, Fits: size / uses}
			}
		}
	}
	var shares []Share
	for _, pool := range slices.Sorted(maps.Keys(largest)) {
		shares = append(shares, largest[pool])
	}
	return shares
}

// usesAtFault says whether what a job of the lane uses is a fault already.
func (r *reading) usesAtFault(l *lane) bool {
	for _, d := range l.jobs {
		if n := r.origin(d, "uses"); n != nil && r.faultIn(n) {
			return true
		}
		for pool := range d.spec.Uses {
			if r.cfg.Pools[pool] == 0 { // its size is a fault
				return true
			}
		}
	}
	return false
}

// faultIn says whether a fault about n, or about what stands in it, is known.
func (r *reading) faultIn(n *node) bool {
	path := n.path()
	return slices.ContainsFunc(r.faults, func(f Fault) bool {
		return f.Key == path || strings.HasPrefix(f.Key, path+".")
	})
}

// noteFullPools points out a declared limit that a pool will not let its jobs
// reach. That is no fault: the pool is enforced when an item starts, and the
// lane's lighter jobs may well fill it.
func (r *reading) noteFullPools(l *lane, shares []Share) {
	for _, share := range shares {
		if share.Fits < l.inFlight {
			r.note(l.set["in_flight"], "lane %q: %d in flight × %d of pool %q (job %q) = %d, and the pool holds %d: at most %d of these run at once",
				l.name, l.inFlight, share.Uses, share.Pool, share.Job, l.inFlight*share.Uses, share.Size, share.Fits)
		}
	}
}

// noteIdleLimits points out a job's own in_flight that its lane never reaches.
func (r *reading) noteIdleLimits() {
	for _, d := range r.declared {
		n, holds := d.set["in_flight"], r.cfg.Lanes[d.spec.Lane]
		if n != nil && holds > 0 && d.spec.InFlight > holds {
			r.note(n, "job %q: in_flight is %d, but its lane %q holds %d", d.spec.Name, d.spec.InFlight, d.spec.Lane, holds)
		}
	}
}
