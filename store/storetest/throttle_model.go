package storetest

import (
	"slices"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"batchq/jobs"
	"batchq/store"
)

// modelThrottle is a job whose server has said that it is too much.
type modelThrottle struct {
	since, until int64
	proven       bool
	pace         jobs.Throttle // its own test says what it has to be
	next         int64         // microseconds
	reason       string
}

// throttled is the throttle of a job as the store shows it.
func (m *model) throttled(job string) *store.Throttle {
	h := m.throttles[job]
	if h == nil {
		return nil
	}
	return &store.Throttle{Since: at(h.since), Until: at(h.until), Proven: h.proven, Gap: h.pace.Gap, Reason: h.reason}
}

// throttleBars says whether a throttle lets nothing start: it holds, or one is
// under way that has to show whether the server takes it.
func (m *model) throttleBars(spec *jobs.Spec) bool {
	h := m.throttles[spec.Name]
	if h == nil {
		return false
	}
	left := h.until - m.now()
	if left > 0 && h.since <= m.now() && left <= spec.Policy.RetryAfterCap.Milliseconds() {
		return true
	}
	return !h.proven && slices.ContainsFunc(m.items, func(it *modelItem) bool {
		return it.Job == spec.Name && it.slot != nil && it.slot.since > h.since
	})
}

// throttleWaits is how long the pace of a throttle keeps a job from starting.
func (m *model) throttleWaits(job string) time.Duration {
	h := m.throttles[job]
	if h == nil || !h.proven {
		return 0
	}
	ahead := time.Duration(h.next-m.now()*1000) * time.Microsecond
	if ahead > h.pace.Gap { // no start has moved it so far
		return 0
	}
	return max(0, ahead)
}

// tookThrottle notes a start.
func (m *model) tookThrottle(it *modelItem) {
	h := m.throttles[it.Job]
	if h == nil {
		return
	}
	h.next = m.now()*1000 + h.pace.Gap.Microseconds()
	if h.since >= m.now() {
		h.since, h.until = m.now()-1, m.now()
		m.began(it.Job, h.since, it)
	}
}

// tellThrottle tells the throttle of a result of an attempt that began at since.
func (m *model) tellThrottle(it *modelItem, since int64, v jobs.Verdict, out *store.Advanced) {
	h := m.throttles[it.Job]
	if taken := v.To == jobs.Done || v.Class == jobs.ClassPermanent; taken || v.Hold <= 0 {
		if h != nil && taken && since > h.since {
			h.proven = true
			if over := false; v.To == jobs.Done {
				if h.pace, over = h.pace.Faster(); over {
					delete(m.throttles, it.Job)
				}
			}
		}
		return
	}
	until := m.now() + v.Hold.Milliseconds()
	if h != nil && since <= h.since && h.since <= m.now() {
		h.until, h.reason = max(h.until, until), v.Reason
		return
	}
	if h == nil {
		h = &modelThrottle{}
		m.throttles[it.Job] = h
	}
	out.Throttled = append(out.Throttled, store.Throttled{Job: it.Job, For: v.Hold, Reason: v.Reason})
	*h = modelThrottle{since: m.now(), until: until, pace: h.pace.Slower(), reason: v.Reason}
	m.began(it.Job, h.since, nil)
}

// unthrottle is a person who knows better.
func (x *machine) unthrottle(t *rapid.T) {
	names := rapid.SampledFrom([][]string{nil, {"a"}, {"b", "c"}, {}}).Draw(t, "jobs")
	got := must(x.db(t).Unthrottle(x.w.ctx, names))(x.w)
	var want []string
	for _, job := range []string{"a", "b", "c"} {
		if h := x.m.throttles[job]; h != nil && (names == nil || slices.Contains(names, job)) {
			if h.until > x.m.now() {
				want = append(want, job)
			}
			delete(x.m.throttles, job)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("unthrottled (-want +got):\n%s", diff)
	}
}
