package storetest

import (
	"cmp"
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// What holds work back, as the model has it: pauses, breakers, rates, and
// pools that are kept free.

type modelBreaker struct {
	failed        map[int64]bool // the items that failed in a row, while it is closed
	times         int            // 0: closed
	opened, until int64
	reason        string
}

type modelSqueeze struct {
	since, until int64
	kept, span   int64 // since when and for how long the pool is kept; 0: not yet
}

// bar is why a job may not start one more attempt: "", "pause", "breaker",
// "throttle", "job", "pool".
func (m *model) bar(lane string, spec *jobs.Spec, keeper string) string {
	inFlight, pools := 0, map[string]int{}
	for _, it := range m.items {
		if it.slot == nil {
			continue
		}
		if it.Job == spec.Name {
			inFlight++
		}
		for p, n := range it.slot.uses {
			pools[p] += n
		}
	}
	if b := m.open(spec.Name); m.pauseOf(lane, spec.Name) != nil {
		return "pause"
	} else if b != nil && (m.holds(b) || m.trying(spec.Name) > 0) {
		return "breaker"
	}
	if m.throttleBars(spec) {
		return "throttle"
	}
	if spec.InFlight > 0 && inFlight >= spec.InFlight {
		return "job"
	}
	for p, n := range spec.Uses {
		if keeper != "" && keeper != spec.Name {
			n += m.specs[keeper].Uses[p]
		}
		if size, ok := m.limits.Pools[p]; ok && pools[p]+n > size {
			return "pool"
		}
	}
	return ""
}

// pauseOf is the widest pause that a job in a lane is under.
func (m *model) pauseOf(lane, job string) *store.Pause {
	for _, t := range []store.Target{{}, {Lane: lane}, {Job: job}} {
		if p, ok := m.pauses[t]; ok {
			return &p
		}
	}
	return nil
}

// pause holds a target back and takes back what is claimed of it.
func (m *model) pause(t store.Target, by, reason string) {
	p, ok := m.pauses[t]
	if !ok {
		p = store.Pause{Target: t, Since: at(m.now())}
	}
	p.By, p.Reason = by, reason
	m.pauses[t] = p
	for _, it := range m.items {
		if it.State == jobs.Claimed && m.targets(t, it) {
			it.State, it.claim = jobs.Ready, 0
		}
	}
}

// targets says whether a target means an item that is in hand.
func (m *model) targets(t store.Target, it *modelItem) bool {
	switch {
	case t.Job != "":
		return it.Job == t.Job
	case t.Lane == "":
		return true
	case it.slot != nil:
		return it.slot.lane == t.Lane
	}
	return m.claims[it.claim].lane == t.Lane
}

// open is the breaker of a job if it is open or half open.
func (m *model) open(job string) *store.Breaker {
	if b := m.breakers[job]; b != nil && b.times > 0 {
		return &store.Breaker{Opened: at(b.opened), Until: at(b.until), Times: b.times, Reason: b.reason}
	}
	return nil
}

// holds says whether nothing may be tried yet.
func (m *model) holds(b *store.Breaker) bool {
	now := at(m.now())
	return !now.Before(b.Opened) && now.Before(b.Until)
}

// trying counts what is in flight that began after the breaker opened.
func (m *model) trying(job string) (n int) {
	for _, it := range m.items {
		if it.Job == job && it.slot != nil && it.slot.since > m.breakers[job].opened {
			n++
		}
	}
	return n
}

// began sees to it that no attempt in flight of a job but one seems to have
// begun after a time, on a clock that was set back.
func (m *model) began(job string, by int64, but *modelItem) {
	for _, it := range m.items {
		if it.Job == job && it.slot != nil && it != but {
			it.slot.since = min(it.slot.since, by)
		}
	}
}

// feed tells the breaker of a result of an attempt that began at since.
func (m *model) feed(it *modelItem, since int64, s store.Settlement, out *store.Advanced) {
	v, b := s.Verdict, m.breakers[it.Job]
	open := b != nil && b.times > 0
	failed := s.Breaker.Failures > 0 && v.Charge == jobs.ChargeFailure && (v.Class == jobs.ClassRetry || v.Class == jobs.ClassTimeout)
	switch {
	case !failed && v.To != jobs.Done, open && since <= b.opened:
		return
	case v.To == jobs.Done:
		if open {
			out.Mended = append(out.Mended, it.Job)
		}
		delete(m.breakers, it.Job)
		return
	case b == nil:
		b = &modelBreaker{failed: map[int64]bool{}}
		m.breakers[it.Job] = b
	}
	if !open {
		if b.failed[it.ID] = true; len(b.failed) < s.Breaker.Failures {
			return
		}
	}
	hold := s.Breaker.Cooldown
	for range b.times {
		hold = min(2*hold, 30*time.Minute)
	}
	out.Tripped = append(out.Tripped, store.Tripped{Job: it.Job, Failures: len(b.failed), For: hold, Reason: v.Reason})
	b.failed = map[int64]bool{}
	b.times++
	b.opened, b.until, b.reason = m.now(), m.now()+hold.Milliseconds(), v.Reason
	m.began(it.Job, b.opened, nil)
}

// wait is how long a job's rate keeps it from starting.
func (m *model) wait(spec *jobs.Spec) time.Duration {
	throttle := m.throttleWaits(spec.Name)
	if spec.Rate.Count == 0 {
		return throttle
	}
	ahead := time.Duration(m.paces[spec.Name]-m.now()*1000) * time.Microsecond
	if ahead > jobs.RateSlack+spec.Rate.Interval() { // no start has moved it so far
		return throttle
	}
	return max(throttle, ahead-jobs.RateSlack)
}

// took notes what a start means for what holds others back.
func (m *model) took(it *modelItem, spec *jobs.Spec) {
	if now := m.now() * 1000; spec.Rate.Count > 0 {
		next := m.paces[spec.Name]
		if next < now || next > now+(jobs.RateSlack+spec.Rate.Interval()).Microseconds() {
			next = now
		}
		m.paces[spec.Name] = next + spec.Rate.Interval().Microseconds()
	}
	if b := m.breakers[spec.Name]; b != nil && b.times > 0 && b.opened >= m.now() {
		b.opened, b.until = m.now()-1, m.now()
		m.began(spec.Name, b.opened, it)
	}
	m.tookThrottle(it)
	if m.squeezed(spec.Name) != nil {
		delete(m.squeezes, spec.Name)
	}
}

// squeezed is what is noted of a job that was passed over for a full pool,
// while it counts.
func (m *model) squeezed(job string) *modelSqueeze {
	if s := m.squeezes[job]; s != nil && s.since <= m.now() && m.now() < s.until {
		return s
	}
	return nil
}

// keeper is the job for which pools are kept free now: the one that has been
// squeezed longest, for as long as patience lasts or longer, of those that
// could start something if there were room.
func (m *model) keeper() (keeper string) {
	patience := m.limits.Patience.Milliseconds()
	if patience == 0 {
		return ""
	}
	var late []string
	for _, job := range []string{"a", "b", "c"} {
		if s := m.squeezed(job); s != nil {
			s.until = min(s.until, m.now()+patience)
			if m.now()-s.since >= patience {
				late = append(late, job)
			}
		}
	}
	slices.SortStableFunc(late, func(a, b string) int { return cmp.Compare(m.squeezes[a].since, m.squeezes[b].since) })
	for _, job := range late {
		if m.wanted(job) && m.keeps(job, m.squeezes[job], patience) {
			return job
		}
	}
	return ""
}

// wanted says whether a job has something to start and nothing holds it back.
func (m *model) wanted(job string) bool {
	return m.pauseOf(m.specs[job].Lane, job) == nil && m.open(job) == nil &&
		(m.throttles[job] == nil || m.throttles[job].proven) &&
		slices.ContainsFunc(m.items, func(it *modelItem) bool {
			return it.Job == job && (it.State == jobs.Ready || it.State == jobs.Claimed)
		})
}

// keeps says whether pools are kept for a job now. When what was in flight as
// that began is not over in time, they are free until it is over, and then kept
// for twice as long.
func (m *model) keeps(job string, s *modelSqueeze, patience int64) bool {
	now := m.now()
	switch {
	case s.kept == 0 || s.kept > now:
		s.kept, s.span = now, max(s.span, patience)
	case now >= s.kept+s.span:
		for _, it := range m.items {
			for p := range m.specs[job].Uses {
				if it.slot != nil && it.slot.uses[p] > 0 && it.slot.since <= s.kept {
					return false
				}
			}
		}
		s.kept, s.span = now, min(2*s.span, 24*time.Hour.Milliseconds())
	}
	return true
}

// squeeze notes that a job was passed over for a full pool.
func (m *model) squeeze(job string) {
	patience := m.limits.Patience.Milliseconds()
	if patience == 0 {
		return
	}
	s := m.squeezed(job)
	if s == nil {
		s = &modelSqueeze{since: m.now()}
		m.squeezes[job] = s
	}
	if s.until-m.now() <= patience/2 {
		s.until = m.now() + patience
	}
}

var targets = rapid.SampledFrom([]store.Target{{Job: "a"}, {Lane: "parallel"}, {Job: "b"}, {}, {Lane: jobs.Serial}})

// pause pauses one or two targets.
func (x *machine) pause(t *rapid.T) {
	ts := rapid.SliceOfN(targets, 1, 2).Draw(t, "targets")
	reason := rapid.SampledFrom([]string{"", "why"}).Draw(t, "reason")
	x.w.noError(x.db(t).Pause(x.w.ctx, ts, "ann", reason))
	for _, target := range ts {
		x.m.pause(target, "ann", reason)
	}
}

// resume ends some pauses, or all.
func (x *machine) resume(t *rapid.T) {
	ts := rapid.SliceOfN(targets, 0, 2).Draw(t, "targets")
	if rapid.Bool().Draw(t, "all") {
		ts = nil
	}
	got := must(x.db(t).Resume(x.w.ctx, ts))(x.w)
	var want []store.Pause
	for _, p := range x.m.allPauses() {
		if ts == nil || slices.Contains(ts, p.Target) {
			want = append(want, p)
			delete(x.m.pauses, p.Target)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("resumed (-want +got):\n%s", diff)
	}
}

// allPauses are in their order: everything, lanes, jobs.
func (m *model) allPauses() (all []store.Pause) {
	for _, t := range []store.Target{{}, {Lane: "parallel"}, {Lane: jobs.Serial}, {Job: "a"}, {Job: "b"}} {
		if p, ok := m.pauses[t]; ok {
			all = append(all, p)
		}
	}
	return all
}

// flow compares what holds work back.
func (x *machine) flow(t *rapid.T, st store.Stats) {
	if diff := gocmp.Diff(x.m.allPauses(), st.Pauses); diff != "" {
		t.Fatalf("pauses (-want +got):\n%s", diff)
	}
	for _, j := range st.Jobs {
		if diff := gocmp.Diff(x.m.open(j.Name), j.Breaker); diff != "" {
			t.Fatalf("breaker of %s (-want +got):\n%s", j.Name, diff)
		}
		if diff := gocmp.Diff(x.m.throttled(j.Name), j.Throttle); diff != "" {
			t.Fatalf("throttle of %s (-want +got):\n%s", j.Name, diff)
		}
	}
	squeezed := map[string]time.Time{}
	for _, s := range st.Squeezed {
		squeezed[s.Job] = s.Since
	}
	want := map[string]time.Time{}
	for job := range x.m.squeezes {
		if s := x.m.squeezed(job); s != nil {
			want[job] = at(s.since)
		}
	}
	if diff := gocmp.Diff(want, squeezed); diff != "" {
		t.Fatalf("squeezed (-want +got):\n%s", diff)
	}
	for _, target := range []store.Target{{}, {Lane: "parallel"}, {Job: "a"}} {
		x.inHand(t, target)
	}
}

func (x *machine) inHand(t *rapid.T, target store.Target) {
	var want store.InHand
	byRun := map[int64]*store.Holder{}
	for _, it := range x.m.items {
		switch {
		case it.State == jobs.Claimed && x.m.targets(target, it):
			want.Claimed++
		case it.State == jobs.Running && x.m.targets(target, it):
			want.Running++
			h := byRun[it.slot.run]
			if h == nil {
				h = &store.Holder{Run: it.slot.run, Since: at(it.slot.since)}
				byRun[h.Run] = h
			}
			h.Slots++
			h.Since = at(min(h.Since.UnixMilli(), it.slot.since))
		}
	}
	for _, h := range byRun {
		want.Holders = append(want.Holders, *h)
	}
	got := must(x.w.db.InHand(x.w.ctx, target))(x.w)
	byID := func(a, b store.Holder) int { return cmp.Compare(a.Run, b.Run) }
	slices.SortFunc(want.Holders, byID)
	slices.SortFunc(got.Holders, byID) // the oldest first: some are as old
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("in hand of %s (-want +got):\n%s", target, diff)
	}
}
