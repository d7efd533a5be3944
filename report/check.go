package report

import (
	"maps"
	"slices"

	"batchq/jobs"
	"batchq/jobs/config"
)

// Check is what a configuration comes to: the document of `check --json`.
type Check struct {
	SchemaVersion  int              `json:"schema_version"`
	Config         string           `json:"config"`        // "" when there is no file and the defaults hold
	ConfigSource   string           `json:"config_source"` // "--config" or "$BATCHQ_CONFIG"; "" where its place is the reason
	Database       string           `json:"database"`
	DatabaseSource string           `json:"database_source"` // who named it
	Batch          int              `json:"batch"`
	LeaseSeconds   float64          `json:"lease_seconds"`
	Settings       []CheckedSetting `json:"settings"` // of no job
	Pools          map[string]int   `json:"pools"`
	Lanes          []CheckedLane    `json:"lanes"` // serial, then in the file's order
	Jobs           []CheckedJob     `json:"jobs"`  // in the file's order
	Notes          []string         `json:"notes"`
}

// CheckedSetting is the value that a key comes to, and where that stands.
type CheckedSetting struct {
	Key    string        `json:"key"`
	Value  *string       `json:"value"`  // as one would write it in the file; null where it has none
	Source string        `json:"source"` // "batchq.toml:12"; "" when built in, or why it is built in so
	Origin config.Origin `json:"origin"` // own, defaults or default
}

// CheckedLane is a lane's limit, how it came about, and what runs in it.
type CheckedLane struct {
	Name      string      `json:"name"`
	InFlight  int         `json:"in_flight"`
	WorkedOut bool        `json:"worked_out"` // from the pools, as the file gives no number
	Source    string      `json:"source"`     // "" for a serial that no file declares
	Shares    []PoolShare `json:"shares"`
	Jobs      []string    `json:"jobs"`
	head      string
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
	Name     string           `json:"name"`
	Source   string           `json:"source"`
	Lane     string           `json:"lane"`
	Uses     map[string]int   `json:"uses"`
	InFlight int              `json:"in_flight"` // of the job alone; 0: the lane's limit
	AtOnce   int              `json:"at_once"`   // by lane, job and pools together
	Rate     string           `json:"rate"`      // "20/s"; "": no bound
	Scope    string           `json:"scope"`     // as written: @today is not expanded
	Priority int              `json:"priority"`
	Settings []CheckedSetting `json:"settings"`
}

// Found is what a configuration alone does not say: who named it, on which
// database it would work and who named that, and sentences about its jobs'
// programs.
type Found struct {
	ConfigSource, Database, DatabaseSource string
	Programs                               []string
}

// NewCheck shows a sound configuration.
func NewCheck(cfg *config.Config, found Found) Check {
	c := Check{SchemaVersion: SchemaVersion, Config: escapeInvalid(cfg.Path), ConfigSource: found.ConfigSource, Database: escapeInvalid(found.Database),
		DatabaseSource: escapeInvalid(found.DatabaseSource), Batch: cfg.Batch, LeaseSeconds: cfg.Lease.Seconds(),
		Settings: checkedSettings(cfg.Settings("")), Pools: cfg.Pools, Lanes: []CheckedLane{}, Jobs: []CheckedJob{}, Notes: []string{}}
	for _, l := range cfg.Arithmetic() {
		c.Lanes = append(c.Lanes, checkedLane(cfg, l))
	}
	for _, name := range cfg.Names {
		c.Jobs = append(c.Jobs, checkedJob(cfg, name))
	}
	for _, note := range slices.Concat(cfg.Notes, cfg.Unused(), found.Programs) {
		c.Notes = append(c.Notes, escapeInvalid(note))
	}
	return c
}

func checkedSettings(settings []config.Setting) []CheckedSetting {
	out := []CheckedSetting{}
	for _, s := range settings {
		one := CheckedSetting{Key: s.Key, Source: escapeInvalid(s.Source), Origin: s.Origin}
		if s.Value != "" {
			one.Value = new(escapeInvalid(s.Value))
		}
		out = append(out, one)
	}
	return out
}

func checkedLane(cfg *config.Config, l config.LaneLimit) CheckedLane {
	out := CheckedLane{Name: l.Lane, InFlight: l.InFlight, WorkedOut: !l.Declared && l.Lane != jobs.Serial, Source: escapeInvalid(l.Source),
		Shares: []PoolShare{}, Jobs: []string{}, head: l.Head()}
	for _, s := range l.Shares {
		out.Shares = append(out.Shares, PoolShare(s))
	}
	for _, name := range cfg.Names {
		if cfg.Jobs[name].Lane == l.Lane {
			out.Jobs = append(out.Jobs, name)
		}
	}
	return out
}

func checkedJob(cfg *config.Config, name string) CheckedJob {
	s := cfg.Jobs[name]
	uses := s.Uses
	if uses == nil {
		uses = map[string]int{}
	}
	return CheckedJob{Name: name, Source: escapeInvalid(s.Source), Lane: s.Lane, Uses: uses, InFlight: s.InFlight, AtOnce: cfg.AtOnce(name),
		Rate: s.Rate.String(), Scope: s.Scope, Priority: s.Priority, Settings: checkedSettings(cfg.Settings(name))}
}

// pools lists the pools by name.
func (c Check) pools() []string { return slices.Sorted(maps.Keys(c.Pools)) }
