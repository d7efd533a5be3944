package sqlite

import (
	"math"
	"time"

	"batchq/jobs"
)

// books collects what a transaction changes in the kept numbers, so that each
// is written once at its end, however many items moved.
type books struct {
	tally   map[listKey]*counts
	daily   map[dayKey]*happened
	latency map[latencyKey]int64
}

// listKey names one list of items: a job's items of one scope.
type listKey struct{ job, scope int64 }

type counts struct {
	enqueued, pruned int64
	state            [7]int64
}

type dayKey struct {
	job  int64
	lane string
}

// happened counts events; the fields are the columns of the daily table.
type happened struct {
	done, retries, timeouts, throttled, dead, crashes, lapses, stale, duplicates, conflicts int64
}

type latencyKey struct {
	job    int64
	lane   string
	bucket int
}

func (t *tx) list(job, scope int64) *counts {
	k := listKey{job, scope}
	c := t.books.tally[k]
	if c == nil {
		c = &counts{}
		if t.books.tally == nil {
			t.books.tally = map[listKey]*counts{}
		}
		t.books.tally[k] = c
	}
	return c
}

// added books a new item.
func (t *tx) added(job, scope int64, to jobs.State) {
	c := t.list(job, scope)
	c.enqueued++
	c.state[to]++
}

// moved books an item's step from one state to another.
func (t *tx) moved(job, scope int64, from, to jobs.State) {
	c := t.list(job, scope)
	c.state[from]--
	c.state[to]++
}

// event returns today's counters of a job in a lane, to be incremented.
func (t *tx) event(job int64, lane string) *happened {
	k := dayKey{job, lane}
	h := t.books.daily[k]
	if h == nil {
		h = &happened{}
		if t.books.daily == nil {
			t.books.daily = map[dayKey]*happened{}
		}
		t.books.daily[k] = h
	}
	return h
}

// tick counts one success of the given duration.
func (t *tx) tick(job int64, lane string, took time.Duration) {
	if t.books.latency == nil {
		t.books.latency = map[latencyKey]int64{}
	}
	t.books.latency[latencyKey{job, lane, bucketOf(took)}]++
}

// bucketBase is the ratio between neighbouring latency buckets: a percentile
// read from their middle is within 4% of exact, inside the 5% that we promise.
const bucketBase = 1.08

// bucketOf is the bucket of a duration: log to bucketBase of its microseconds.
func bucketOf(d time.Duration) int {
	us := float64(d.Microseconds())
	if us < 1 {
		return 0
	}
	return int(math.Log(us) / math.Log(bucketBase))
}

const dayMillis = 24 * 60 * 60 * 1000

func (t *tx) writeBooks() error {
	for k, c := range t.books.tally {
		if *c == (counts{}) {
			continue
		}
		args := []any{c.enqueued, c.state[0], c.state[1], c.state[2], c.state[3], c.state[4], c.state[5], c.state[6], c.pruned, k.job, k.scope}
		n, err := t.change(`UPDATE tally SET enqueued = enqueued + ?, ready = ready + ?, delayed = delayed + ?,
			claimed = claimed + ?, running = running + ?, done = done + ?, dead = dead + ?, dropped = dropped + ?,
			pruned = pruned + ? WHERE job = ? AND scope = ?`, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			err := t.exec(`INSERT INTO tally (enqueued, ready, delayed, claimed, running, done, dead, dropped, pruned, job, scope)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, args...)
			if err != nil {
				return err
			}
		}
	}
	day := t.now / dayMillis
	for k, h := range t.books.daily {
		if *h == (happened{}) {
			continue
		}
		err := t.exec(`INSERT INTO daily (job, lane, day, done, retries, timeouts, dead, crashes, lapses, stale, duplicates, conflicts, throttled)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET done = done + excluded.done, retries = retries + excluded.retries,
			timeouts = timeouts + excluded.timeouts, dead = dead + excluded.dead, crashes = crashes + excluded.crashes,
			lapses = lapses + excluded.lapses, stale = stale + excluded.stale,
			duplicates = duplicates + excluded.duplicates, conflicts = conflicts + excluded.conflicts,
			throttled = throttled + excluded.throttled`,
			k.job, k.lane, day, h.done, h.retries, h.timeouts, h.dead, h.crashes, h.lapses, h.stale, h.duplicates, h.conflicts, h.throttled)
		if err != nil {
			return err
		}
	}
	for k, n := range t.books.latency {
		err := t.exec(`INSERT INTO latency (job, lane, day, bucket, n) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET n = n + excluded.n`, k.job, k.lane, day, k.bucket, n)
		if err != nil {
			return err
		}
	}
	return nil
}
