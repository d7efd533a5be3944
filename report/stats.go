package report

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Stats is one picture of everything: the document of `stats --json`.
type Stats struct {
	SchemaVersion int         `json:"schema_version"`
	Path          string      `json:"path"`
	Time          string      `json:"time"` // when the picture was taken
	Totals        Totals      `json:"totals"`
	Lanes         []LaneStats `json:"lanes"`
	Jobs          []JobStats  `json:"jobs"`
	Slots         []SlotStats `json:"slots"` // in use
	Runs          []RunStats  `json:"runs"`  // that have not written their end
	Pauses        []Pause     `json:"pauses"`
	Squeezed      []Squeezed  `json:"squeezed"` // jobs that find no room in their pools
	now           time.Time
}

// Totals is one number a state; enqueued is always the sum of the others.
type Totals struct {
	Enqueued int64 `json:"enqueued"`
	Ready    int64 `json:"ready"`
	Delayed  int64 `json:"delayed"`
	Claimed  int64 `json:"claimed"`
	Running  int64 `json:"running"`
	Done     int64 `json:"done"`
	Dead     int64 `json:"dead"`
	Dropped  int64 `json:"dropped"`
	Pruned   int64 `json:"pruned"`
}

// Backlog is what is to be done, of a lane or a job.
type Backlog struct {
	// Waiting is ready, due but not yet moved, and claimed but not started.
	Waiting int64 `json:"waiting"`
	// OldestWaiting is when the longest waiting item was first due, and how
	// many seconds ago that was; "" and null when nothing waits.
	OldestWaiting        *string  `json:"oldest_waiting"`
	OldestWaitingSeconds *float64 `json:"oldest_waiting_seconds"`
	oldest               time.Time
}

// LaneStats is one lane.
type LaneStats struct {
	Name  string `json:"name"`
	Slots *int   `json:"slots"` // its limit; null where no file declares it
	InUse int    `json:"in_use"`
	Totals
	Backlog
}

// JobStats is one job.
type JobStats struct {
	Name string `json:"name"`
	Lane string `json:"lane"`
	Totals
	Backlog
	Counters Counters  `json:"counters"`
	Breaker  *Breaker  `json:"breaker"`  // null while it is closed
	Throttle *Throttle `json:"throttle"` // null while it goes as fast as it can
}

// Breaker holds a job back whose items failed in a row.
type Breaker struct {
	Opened string `json:"opened"`
	Until  string `json:"until"` // from then on it is tried with one item at a time
	Times  int    `json:"times"` // how often it has opened since the last success
	Reason string `json:"reason"`
	opened time.Time
	until  time.Time
}

// Squeezed is a job that is passed over for a full pool; when that has been so
// for a whole lease, the pool is kept free for it.
type Squeezed struct {
	Job   string `json:"job"`
	Since string `json:"since"`
	since time.Time
}

// Counters is what happened to a job's items since the database was made.
type Counters struct {
	Done       int64 `json:"done"`
	Retries    int64 `json:"retries"`
	Timeouts   int64 `json:"timeouts"`
	Throttled  int64 `json:"throttled"`
	Dead       int64 `json:"dead"`
	Crashes    int64 `json:"crashes"` // taken back from a dead run after they had started
	Lapses     int64 `json:"lapses"`  // likewise, from one whose lease had lapsed
	Stale      int64 `json:"stale"`   // results refused
	Duplicates int64 `json:"duplicates"`
	Conflicts  int64 `json:"conflicts"`
}

// SlotStats is one slot in use.
type SlotStats struct {
	Run   int64  `json:"run"`
	Lane  string `json:"lane"`
	Job   string `json:"job"`
	Item  int64  `json:"item"`
	Scope string `json:"scope"`
	Key
	Attempt int            `json:"attempt"`
	Since   string         `json:"since"`
	PID     int            `json:"pid"`    // 0: not recorded yet
	Orphan  bool           `json:"orphan"` // its run is dead; what it left behind is being ended
	Uses    map[string]int `json:"uses"`
	since   time.Time
}

// Lanes says which lane each job is in, and how many slots declared lanes have.
type Lanes struct {
	Of    map[string]string
	Limit map[string]int
}

// of is a job's lane; one that nobody has placed runs in serial.
func (l Lanes) of(job string) string { return cmp.Or(l.Of[job], jobs.Serial) }

// NewStats renders a picture of the store.
func NewStats(s store.Stats, l Lanes, life map[int64]Life, now time.Time) Stats {
	out := Stats{SchemaVersion: SchemaVersion, Path: escapeInvalid(s.Path), Time: timestamp(s.Now), Totals: totals(s.Totals),
		Jobs: []JobStats{}, Slots: []SlotStats{}, Runs: runStats(s.Runs, life),
		Pauses: NewPauses(s.Pauses), Squeezed: []Squeezed{}, now: now}
	for _, q := range s.Squeezed {
		out.Squeezed = append(out.Squeezed, Squeezed{Job: q.Job, Since: timestamp(q.Since), since: q.Since})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		out.Jobs = append(out.Jobs, JobStats{Name: j.Name, Lane: l.of(j.Name), Totals: totals(j.Counts),
			Backlog: backlog(j.Waiting, j.Oldest, s.Now), Counters: Counters(j.Counters), Breaker: breaker(j.Breaker), Throttle: throttle(j.Throttle)})
	}
	for _, slot := range s.Slots {
		out.Slots = append(out.Slots, slotStats(slot))
	}
	out.Lanes = laneStats(s, l)
	return out
}

func totals(c store.Counts) Totals { return Totals(c) }

func backlog(waiting int64, oldest, now time.Time) Backlog {
	b := Backlog{Waiting: waiting, OldestWaiting: maybe(oldest), oldest: oldest}
	if !oldest.IsZero() {
		seconds := max(0, now.Sub(oldest)).Seconds()
		b.OldestWaitingSeconds = &seconds
	}
	return b
}

func breaker(b *store.Breaker) *Breaker {
	if b == nil {
		return nil
	}
	return &Breaker{Opened: timestamp(b.Opened), Until: timestamp(b.Until), Times: b.Times, Reason: escapeInvalid(b.Reason), opened: b.Opened, until: b.Until}
}

func slotStats(s store.SlotRow) SlotStats {
	out := SlotStats{Run: s.Run, Lane: s.Lane, Job: s.Job, Item: s.Item, Scope: escapeInvalid(s.Scope), Key: NewKey(s.Key),
		Attempt: s.Attempt, Since: timestamp(s.Since), PID: s.PID, Orphan: s.Orphan, Uses: s.Uses, since: s.Since}
	if out.Uses == nil {
		out.Uses = map[string]int{}
	}
	return out
}

// laneStats sums the jobs of each lane: those that are declared, that have a
// job, or in which something runs. serial, which always exists, comes first.
func laneStats(s store.Stats, l Lanes) []LaneStats {
	type sum struct {
		counts  store.Counts
		waiting int64
		oldest  time.Time
		inUse   int
	}
	sums := map[string]*sum{jobs.Serial: {}}
	lane := func(name string) *sum {
		if sums[name] == nil {
			sums[name] = &sum{}
		}
		return sums[name]
	}
	for name := range l.Limit {
		lane(name)
	}
	for i := range s.Jobs {
		j, of := &s.Jobs[i], lane(l.of(s.Jobs[i].Name))
		of.counts.Add(j.Counts)
		of.waiting += j.Waiting
		if !j.Oldest.IsZero() && (of.oldest.IsZero() || j.Oldest.Before(of.oldest)) {
			of.oldest = j.Oldest
		}
	}
	for _, slot := range s.Slots {
		lane(slot.Lane).inUse++
	}
	names := slices.Sorted(maps.Keys(sums))
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(btoi(a != jobs.Serial), btoi(b != jobs.Serial))
	})
	var out []LaneStats
	for _, name := range names {
		of := sums[name]
		one := LaneStats{Name: name, InUse: of.inUse, Totals: totals(of.counts), Backlog: backlog(of.waiting, of.oldest, s.Now)}
		limit, declared := l.Limit[name]
		if name == jobs.Serial {
			limit, declared = 1, true
		}
		if declared {
			one.Slots = &limit
		}
		out = append(out, one)
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
