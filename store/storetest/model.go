package storetest

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// model is what a store has to be equal to: the rules, written down once more
// and as plainly as possible, over slices and maps. It is the only fake in
// the project.
type model struct {
	clock     *Clock
	limits    store.Limits
	specs     map[string]*jobs.Spec
	items     []*modelItem // in order of id
	pruned    []*modelItem // tokens of them are still about
	lastItem  int64        // the last item id that was given out
	claims    map[int64]*modelClaim
	runs      map[int64]*modelRun
	counters  map[string]*store.Counters
	served    map[string]int64 // the last claim of each job
	last      int64            // the last claim id that was given out
	pauses    map[store.Target]store.Pause
	breakers  map[string]*modelBreaker
	paces     map[string]int64 // job → the next start at an even pace, microseconds
	squeezes  map[string]*modelSqueeze
	throttles map[string]*modelThrottle
}

type modelItem struct {
	store.ItemRow
	payload []byte
	claim   int64
	slot    *modelSlot // while it runs
}

// modelSlot is what a started item takes.
type modelSlot struct {
	lane  string
	uses  map[string]int
	run   int64 // who has it
	owner int64 // who started it
	since int64 // milliseconds
}

type modelClaim struct {
	run    int64
	lane   string
	until  int64 // milliseconds
	lapsed int64 // 0: nobody has looked
}

type modelRun struct {
	id      int64
	ended   bool
	endedAt int64           // milliseconds
	held    []store.Held    // unstarted tokens that it was ever given
	started []store.Started // likewise, of what it started
	orphans []store.Orphan
}

func (m *model) now() int64 { return m.clock.Now().UnixMilli() }

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func rankOf(it *modelItem) int64 {
	return it.Due.UnixMilli() - int64(it.Priority)*60_000
}

// item is an item that a token names, also one that has been pruned since:
// that one is settled and held by nobody.
func (m *model) item(id int64) *modelItem {
	for _, it := range m.pruned {
		if it.ID == id {
			return it
		}
	}
	return m.listed(id)
}

// listed is an item that is still there.
func (m *model) listed(id int64) *modelItem {
	for _, it := range m.items {
		if it.ID == id {
			return it
		}
	}
	return nil
}

// bearer is the item that has a key now.
func (m *model) bearer(job, scope string, key []byte) *modelItem {
	for _, it := range m.items {
		if it.Job == job && it.Scope == scope && bytes.Equal(it.Key, key) && it.State != jobs.Dropped {
			return it
		}
	}
	return nil
}

func (m *model) count(job string) *store.Counters {
	if m.counters[job] == nil {
		m.counters[job] = &store.Counters{}
	}
	return m.counters[job]
}

// due turns a new item's wish into a time and the state that follows from it.
func (m *model) due(n store.NewItem) (time.Time, jobs.State) {
	due := at(m.now() + n.Delay.Milliseconds())
	if due.UnixMilli() > m.now() {
		return due, jobs.Delayed
	}
	return due, jobs.Ready
}

// enqueue does what Enqueue has to do and returns the outcomes. The ids of
// new items are 0 until the store has told them.
func (m *model) enqueue(e store.Enqueue) []store.Outcome {
	out := []store.Outcome{}
	for _, n := range e.Items {
		scope := e.Scope
		if n.Scope != nil {
			scope = *n.Scope
		}
		old := m.bearer(e.Job, scope, n.Key)
		o := store.Added
		if old != nil {
			c := duplicateTable[e.OnDuplicate][old.State]
			if o = c.differs; bytes.Equal(old.payload, n.Payload) && (old.payload == nil) == (n.Payload == nil) {
				o = c.same
			}
		}
		out = append(out, o)
		if o == store.Stopped {
			break
		}
		if e.DryRun {
			continue
		}
		due, state := m.due(n)
		switch o {
		case store.Added:
			m.items = append(m.items, &modelItem{payload: n.Payload, ItemRow: store.ItemRow{Created: at(m.now()),
				Item: jobs.Item{Job: e.Job, Scope: scope, Key: n.Key, State: state, Priority: n.Priority, Generation: 1, Due: due}}})
		case store.Duplicate, store.DuplicateDone:
			m.count(e.Job).Duplicates++
		case store.Conflict:
			m.count(e.Job).Conflicts++
		case store.Requeued:
			m.again(old)
		case store.Replaced:
			if !bytes.Equal(old.payload, n.Payload) || (old.payload == nil) != (n.Payload == nil) {
				old.Generation++
			}
			if old.State == jobs.Dead {
				old.Failures, old.Crashes, old.Defers = 0, 0, 0
			}
			old.payload, old.Priority, old.Due, old.State, old.Finished = n.Payload, n.Priority, due, state, time.Time{}
		}
	}
	return out
}

// again makes an item ready now, with budgets anew.
func (m *model) again(it *modelItem) {
	if it.State == jobs.Done {
		it.Generation++
	}
	it.Failures, it.Crashes, it.Defers = 0, 0, 0
	it.State, it.Due, it.Finished = jobs.Ready, at(m.now()), time.Time{}
}

// promote makes what is due ready.
func (m *model) promote() {
	for _, it := range m.items {
		if it.State == jobs.Delayed && it.Due.UnixMilli() <= m.now() {
			it.State = jobs.Ready
		}
	}
}

// inLane counts the slots that are taken of a lane.
func (m *model) inLane(lane string) (n int) {
	for _, it := range m.items {
		if it.slot != nil && it.slot.lane == lane {
			n++
		}
	}
	return n
}

// asked says whether a claim asks for something of a job that is ready.
func (m *model) asked(r store.ClaimRequest, job string) bool {
	r.Skip = nil
	return len(m.eligible(r, job)) > 0
}

// eligible lists what is ready of one job for a claim, in order.
func (m *model) eligible(r store.ClaimRequest, job string) (its []*modelItem) {
	for _, it := range m.items {
		if it.Job == job && it.State == jobs.Ready && !r.Skip[it.ID] && (r.Scope == nil || *r.Scope == it.Scope) {
			its = append(its, it)
		}
	}
	slices.SortStableFunc(its, func(a, b *modelItem) int { return cmp.Compare(rankOf(a), rankOf(b)) })
	return its
}

// newClaim books a claim that the store has made.
func (m *model) newClaim(id, run int64, lane string) {
	m.last = id
	m.claims[id] = &modelClaim{run: run, lane: lane, until: m.now() + lease.Milliseconds()}
}

// empty says whether nothing is held under a claim.
func (m *model) empty(claim int64) bool {
	return !slices.ContainsFunc(m.items, func(it *modelItem) bool { return it.claim == claim })
}

// forget removes a claim under which nothing is held.
func (m *model) forget(claim int64) {
	if m.empty(claim) {
		delete(m.claims, claim)
	}
}

func (m *model) claimsOf(run int64) (ids []int64) {
	for id, c := range m.claims {
		if c.run == run {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// heldBy lists what is held under the claims of a run.
func (m *model) heldBy(run int64, s jobs.State) (its []*modelItem) {
	for _, it := range m.items {
		if c := m.claims[it.claim]; c != nil && c.run == run && it.State == s {
			its = append(its, it)
		}
	}
	return its
}

// start starts an item if it is held, unstarted, under the claim named.
func (m *model) start(run int64, lane string, h store.Held, spec *jobs.Spec) bool {
	it := m.item(h.Item)
	if it.State != jobs.Claimed || it.claim != h.Claim {
		return false
	}
	it.State, it.Started = jobs.Running, at(m.now())
	it.Attempt++
	it.slot = &modelSlot{lane: lane, uses: spec.Uses, run: run, owner: run, since: m.now()}
	return true
}

// settle writes a verdict if the item runs under the claim and attempt named.
func (m *model) settle(s store.Settlement, out *store.Advanced) bool {
	it := m.item(s.Item)
	if it.State != jobs.Running || it.claim != s.Claim || it.Attempt != s.Attempt {
		if m.listed(s.Item) != nil { // else nobody knows of which job it was
			m.count(it.Job).Stale++
		}
		return false
	}
	since := it.slot.since
	m.judged(it, s.Verdict)
	m.feed(it, since, s, out)
	m.tellThrottle(it, since, s.Verdict, out)
	return true
}

// judged moves a running item to where a verdict says.
func (m *model) judged(it *modelItem, v jobs.Verdict) {
	c := m.count(it.Job)
	it.State, it.claim, it.slot = v.To, 0, nil
	if v.To == jobs.Done || v.To == jobs.Dead {
		it.Finished = at(m.now())
	}
	switch {
	case v.To == jobs.Done:
		c.Done++
		return
	case v.To == jobs.Dead:
		c.Dead++
	case v.Charge == jobs.ChargeFailure:
		c.Retries++
	}
	if v.Class == jobs.ClassTimeout {
		c.Timeouts++
	}
	if v.Class == jobs.ClassThrottled {
		c.Throttled++
	}
	it.Class, it.Reason = v.Class, v.Reason
	switch v.Charge {
	case jobs.ChargeFailure:
		it.Failures++
	case jobs.ChargeCrash:
		it.Crashes++
		c.Crashes++
	case jobs.ChargeDefer:
		it.Defers++
	}
	if v.Charge != jobs.ChargeNone || v.To == jobs.Delayed {
		it.Due = at(m.now() + v.Delay.Milliseconds())
	}
}

// takeOver gives what a dead run holds to another: started items under a new
// claim, which the store has to tell.
func (m *model) takeOver(dead, by int64, why store.Death) (freed int, orphans []*modelItem) {
	for _, it := range m.heldBy(dead, jobs.Claimed) {
		it.State, it.claim = jobs.Ready, 0
		freed++
	}
	orphans = m.heldBy(dead, jobs.Running)
	for _, it := range orphans {
		// No age is counted from the future, or its wait would have no end.
		it.slot.run, it.slot.since = by, min(it.slot.since, m.now())
		if why == store.DeathLease {
			m.count(it.Job).Lapses++
		}
	}
	m.ended(m.runs[dead])
	return freed, orphans
}

// ended books the end of a run; one that has ended keeps its time.
func (m *model) ended(r *modelRun) {
	if !r.ended {
		r.ended, r.endedAt = true, m.now()
	}
}

// lapsed says whether a claim has run out, or was written before the clock
// was set back.
func (m *model) lapsed(c *modelClaim) bool {
	return c.until <= m.now() || c.until-lease.Milliseconds() > m.now()+1000
}
