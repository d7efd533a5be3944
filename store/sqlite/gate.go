package sqlite

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// gate decides what may start now. It is opened in the transaction that claims
// or starts, against one count of what is in flight in the whole database, and
// against what holds work back: pauses, breakers, throttles, rates, kept pools. The table
// of slots holds as many rows as are in flight, so the count is cheap, and it
// can't drift from the truth as a kept number could.
type gate struct {
	t      *tx
	limits store.Limits
	lane   map[string]int
	job    map[int64]int
	pool   map[string]int
	oldest map[string]int64 // pool → start of the oldest attempt that uses it

	pauses    []store.Pause
	breakers  map[int64]*breaker // those that are open or half open
	throttles map[int64]*throttle
	squeezed  map[int64]*squeeze
	keeper    int64           // the job for which pools are kept free; 0: none
	paces     map[int64]int64 // job → next start at an even pace, microseconds
}

// bar is what keeps a job from starting one more attempt.
type bar uint8

const (
	free     bar = iota
	barPause     // its lane, it, or everything is paused
	barBreaker
	barThrottle
	barJob  // its own limit is full
	barPool // a pool is full, or kept free for another job
)

func (t *tx) openGate(l store.Limits) (*gate, error) {
	g := &gate{t: t, limits: l, lane: map[string]int{}, job: map[int64]int{}, pool: map[string]int{}, oldest: map[string]int64{}, paces: map[int64]int64{}}
	err := t.rows("SELECT lane, job, uses, count(*), min(started) FROM slot GROUP BY lane, job, uses", nil, func(scan func(...any) error) error {
		var lane, uses string
		var job, oldest int64
		var n int
		if err := scan(&lane, &job, &uses, &n, &oldest); err != nil {
			return err
		}
		g.lane[lane] += n
		g.job[job] += n
		amounts, err := decodeUses(uses)
		for pool, amount := range amounts {
			g.pool[pool] += amount * n
			if t, any := g.oldest[pool]; !any || oldest < t {
				g.oldest[pool] = oldest
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if g.pauses, err = t.pauses(); err != nil {
		return nil, err
	}
	if g.breakers, err = t.openBreakers(); err != nil {
		return nil, err
	}
	if g.throttles, err = t.throttles(); err != nil {
		return nil, err
	}
	return g, g.loadSqueezes()
}

func decodeUses(text string) (map[string]int, error) {
	if text == "" {
		return nil, nil
	}
	var m map[string]int
	err := json.Unmarshal([]byte(text), &m)
	return m, err
}

func encodeUses(m map[string]int) string {
	if len(m) == 0 {
		return ""
	}
	b, err := json.Marshal(m) // keys come sorted: equal uses are equal text
	if err != nil {
		panic(err) // a map of numbers always marshals
	}
	return string(b)
}

// laneFull says whether no slot of a lane is free.
func (g *gate) laneFull(lane string) bool {
	limit, limited := g.limits.Lanes[lane]
	return limited && g.lane[lane] >= limit
}

// pauseOf returns what pauses a job of a lane; nil when nothing does.
func (g *gate) pauseOf(lane, job string) *store.Pause {
	for i, p := range g.pauses {
		if p.Job == "" && p.Lane == "" || p.Lane != "" && p.Lane == lane || p.Job != "" && p.Job == job {
			return &g.pauses[i]
		}
	}
	return nil
}

// breakerOf returns a job's breaker; nil when it is closed, or the run that
// asks says that there is none.
func (g *gate) breakerOf(job int64, spec *jobs.Spec) *breaker {
	if spec.Policy.Breaker.Failures == 0 {
		return nil
	}
	return g.breakers[job]
}

// bars says what keeps one more attempt of spec from starting in a lane. A
// rate is not asked here: see pace.
func (g *gate) bars(job int64, lane string, spec *jobs.Spec) bar {
	switch b, h := g.breakerOf(job, spec), g.throttles[job]; {
	case g.pauseOf(lane, spec.Name) != nil:
		return barPause
	case b != nil && (b.holds(g.t.now, spec.Policy.Breaker) || b.trying > 0):
		return barBreaker
	case h != nil && (h.holds(g.t.now, spec.Policy.RetryAfterCap) || !h.proven && h.trying > 0):
		return barThrottle
	case spec.InFlight > 0 && g.job[job] >= spec.InFlight:
		return barJob
	case g.fullPool(job, spec) != "":
		return barPool
	}
	return free
}

// fullPool says which pool has no room for one more attempt of spec, or none
// beside one of the job for which it is kept free; "" when all have.
func (g *gate) fullPool(job int64, spec *jobs.Spec) string {
	var kept map[string]int
	if g.keeper != 0 && g.keeper != job {
		kept = g.squeezed[g.keeper].uses
	}
	for _, pool := range slices.Sorted(maps.Keys(spec.Uses)) {
		size, known := g.limits.Pools[pool]
		switch used, amount := g.pool[pool], spec.Uses[pool]; {
		case !known || used+amount+kept[pool] <= size:
		case used+amount <= size:
			return fmt.Sprintf("pool %s is kept free for a job that has waited longer: %d of %d in use, and it takes %d", pool, used, size, amount)
		default:
			return fmt.Sprintf("pool %s is full: %d of %d in use, and it takes %d", pool, used, size, amount)
		}
	}
	return ""
}

// take counts one more attempt of spec that starts now in a slot.
func (g *gate) take(job, slot int64, lane string, spec *jobs.Spec) error {
	g.lane[lane]++
	g.job[job]++
	for pool, amount := range spec.Uses {
		g.pool[pool] += amount
	}
	if err := g.tookPace(job, spec.Rate); err != nil {
		return err
	}
	if b := g.breakerOf(job, spec); b != nil {
		if err := g.t.trying(job, slot, b); err != nil {
			return err
		}
	}
	if h := g.throttles[job]; h != nil {
		if err := g.t.tookThrottle(job, slot, h); err != nil {
			return err
		}
	}
	return g.foundRoom(job)
}

// admit leaves the jobs that may start something now, and notes in out why the
// others may not.
func (g *gate) admit(lane string, qs []*queue, out *store.Claim) (some []*queue, err error) {
	for _, q := range qs {
		b, throttled := g.breakerOf(q.job, q.spec), g.throttles[q.job]
		switch g.bars(q.job, lane, q.spec) {
		case barPause:
			p := g.pauseOf(lane, q.spec.Name)
			h := store.Hold{Pause: p, Job: q.spec.Name}
			if p.Job == "" {
				h.Job = "" // said once, not for each job of the lane
			}
			if h.Job != "" || !slices.ContainsFunc(out.Holds, func(h store.Hold) bool { return h.Job == "" }) {
				out.Holds = append(out.Holds, h)
			}
		case barBreaker:
			out.Holds = append(out.Holds, store.Hold{Job: q.spec.Name, Breaker: b.public()})
			if b.holds(g.t.now, q.spec.Policy.Breaker) {
				out.NextDue = sooner(out.NextDue, time.Duration(b.until-g.t.now)*time.Millisecond)
			}
		case barThrottle:
			out.Holds = append(out.Holds, store.Hold{Job: q.spec.Name, Throttle: throttled.public()})
			if throttled.holds(g.t.now, q.spec.Policy.RetryAfterCap) {
				out.NextDue = sooner(out.NextDue, time.Duration(throttled.until-g.t.now)*time.Millisecond)
			}
		case barJob:
			out.Pass(q.spec.Name, fmt.Sprintf("its own limit is reached: %d in flight", g.job[q.job]))
		case barPool:
			out.Pass(q.spec.Name, g.fullPool(q.job, q.spec))
			if err := g.squeeze(q.job, lane, q.spec); err != nil {
				return nil, err
			}
		default:
			q.most = q.spec.Rate.Within(rateHeld)
			if throttled != nil {
				q.most = sooner(q.most, max(1, int(rateHeld/throttled.pace.Gap)))
			}
			if b != nil || throttled != nil && !throttled.proven {
				q.most, q.fewest = 1, true
			}
			some = append(some, q)
		}
	}
	return some, nil
}

// rateHeld is how much of a job with a rate a claim takes: as much as may start
// in this time. More would only fill the batch that other jobs could use.
const rateHeld = 5 * time.Second

// sooner is the smaller of two waits or bounds; a negative one is none.
func sooner[N int | time.Duration](a, b N) N {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// pace is how long it is until a job with a rate, or one that is throttled, may start one more attempt;
// 0: now. The even pace is kept as the time of the next start, which each start
// moves on by one interval; a start may come RateSlack before it.
func (g *gate) pace(job int64, r jobs.Rate) (wait time.Duration, err error) {
	if h := g.throttles[job]; h != nil && h.proven {
		wait = h.waits(g.t.now)
	}
	if r.Count == 0 {
		return wait, nil
	}
	next, known := g.paces[job]
	if !known {
		if _, err := missing(g.t.row("SELECT next FROM pace WHERE job = ?", []any{job}, &next)); err != nil {
			return 0, err
		}
		now := g.t.now * 1000
		// Further than one start could have moved it, it was written before
		// the clock was set back, or under another rate.
		if next > now+(jobs.RateSlack+r.Interval()).Microseconds() {
			next = now
		}
		g.paces[job] = next
	}
	return max(wait, time.Duration(next-g.t.now*1000)*time.Microsecond-jobs.RateSlack), nil
}

func (g *gate) tookPace(job int64, r jobs.Rate) error {
	if r.Count == 0 {
		return nil
	}
	next := max(g.paces[job], g.t.now*1000) + r.Interval().Microseconds()
	g.paces[job] = next
	return g.t.exec("INSERT INTO pace (job, next) VALUES (?, ?) ON CONFLICT DO UPDATE SET next = excluded.next", job, next)
}
