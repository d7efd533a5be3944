package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"batchq/jobs"
	"batchq/jobs/config"
)

// Check is what a configuration comes to: the document of `check --json`.
type Check struct {
	SchemaVersion  int            `json:"schema_version"`
	Config         string         `json:"config"` // "" when there is no file and the defaults hold
	Database       string         `json:"database"`
	DatabaseSource string         `json:"database_source"` // who named it
	Batch          int            `json:"batch"`
	LeaseSeconds   float64        `json:"lease_seconds"`
	Pools          map[string]int `json:"pools"`
	Lanes          []CheckedLane  `json:"lanes"` // serial, then in the file's order
	Jobs           []CheckedJob   `json:"jobs"`  // in the file's order
	Notes          []string       `json:"notes"`
	lease          time.Duration
}

// CheckedLane is a lane's limit and how it came about.
type CheckedLane struct {
	Name      string      `json:"name"`
	InFlight  int         `json:"in_flight"`
	WorkedOut bool        `json:"worked_out"` // from the pools, as the file gives no number
	Source    string      `json:"source"`     // "" for a serial that no file declares
	Shares    []PoolShare `json:"shares"`
	line      string
}

// PoolShare is one pool's part in a lane: size ÷ uses = fits.
type PoolShare struct {
	Pool string `json:"pool"`
	Size int    `json:"size"`
	Uses int    `json:"uses"` // the most that one attempt in this lane takes
	Job  string `json:"job"`  // the one that takes so much
	Fits int    `json:"fits"` // its attempts that the pool holds at once
}

// CheckedJob is a job as it would run: of its own table, [defaults] and ours.
type CheckedJob struct {
	Name     string         `json:"name"`
	Source   string         `json:"source"`
	Lane     string         `json:"lane"`
	Uses     map[string]int `json:"uses"`
	InFlight int            `json:"in_flight"` // of the job alone; 0: the lane's limit
	Rate     string         `json:"rate"`      // "20/s"; "": no bound
	Scope    string         `json:"scope"`     // as written: @today is not expanded
	Priority int            `json:"priority"`
}

// NewCheck shows a sound configuration, and the database that it would work
// on with who named it.
func NewCheck(cfg *config.Config, database, source string) Check {
	c := Check{SchemaVersion: SchemaVersion, Config: escapeInvalid(cfg.Path), Database: escapeInvalid(database),
		DatabaseSource: escapeInvalid(source), Batch: cfg.Batch, LeaseSeconds: cfg.Lease.Seconds(), Pools: cfg.Pools,
		Lanes: []CheckedLane{}, Jobs: []CheckedJob{}, Notes: []string{}, lease: cfg.Lease}
	for _, l := range cfg.Arithmetic() {
		c.Lanes = append(c.Lanes, checkedLane(l))
	}
	for _, name := range cfg.Names {
		c.Jobs = append(c.Jobs, checkedJob(cfg, name))
	}
	for _, note := range cfg.Notes {
		c.Notes = append(c.Notes, escapeInvalid(note))
	}
	return c
}

func checkedLane(l config.LaneLimit) CheckedLane {
	out := CheckedLane{Name: l.Lane, InFlight: l.InFlight, WorkedOut: !l.Declared && l.Lane != jobs.Serial, Source: escapeInvalid(l.Source),
		Shares: []PoolShare{}, line: l.String()}
	for _, s := range l.Shares {
		out.Shares = append(out.Shares, PoolShare(s))
	}
	return out
}

func checkedJob(cfg *config.Config, name string) CheckedJob {
	s := cfg.Jobs[name]
	uses := s.Uses
	if uses == nil {
		uses = map[string]int{}
	}
	return CheckedJob{Name: name, Source: escapeInvalid(s.Source), Lane: s.Lane, Uses: uses, InFlight: s.InFlight,
		Rate: s.Rate.String(), Scope: s.Scope, Priority: s.Priority}
}

// Lines are what a person reads of it.
func (c Check) Lines() []string {
	lines := []string{"config " + c.Config}
	if c.Config == "" {
		lines[0] = "no configuration: the defaults hold"
	}
	lines = append(lines, fmt.Sprintf("database %s (from %s)", c.Database, c.DatabaseSource),
		fmt.Sprintf("batch %d, lease %s", c.Batch, Duration(c.lease)))
	for _, pool := range slices.Sorted(maps.Keys(c.Pools)) {
		lines = append(lines, fmt.Sprintf("pool %s: %d", pool, c.Pools[pool]))
	}
	for _, l := range c.Lanes {
		lines = append(lines, l.line)
	}
	for _, j := range c.Jobs {
		lines = append(lines, j.text())
	}
	for _, note := range c.Notes {
		lines = append(lines, "note: "+note)
	}
	return lines
}

// text is the job on one line, without what it does not say.
func (j CheckedJob) text() string {
	parts := []string{"lane " + j.Lane}
	for _, pool := range slices.Sorted(maps.Keys(j.Uses)) {
		parts = append(parts, fmt.Sprintf("uses %s %d", pool, j.Uses[pool]))
	}
	if j.Rate != "" {
		parts = append(parts, "rate "+j.Rate)
	}
	if j.InFlight > 0 {
		parts = append(parts, fmt.Sprintf("in flight %d", j.InFlight))
	}
	if j.Scope != "" {
		parts = append(parts, "scope "+j.Scope)
	}
	if j.Priority != 0 {
		parts = append(parts, fmt.Sprintf("priority %d", j.Priority))
	}
	return fmt.Sprintf("job %s (%s): %s", j.Name, j.Source, strings.Join(parts, ", "))
}
