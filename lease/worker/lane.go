package worker

import (
	"slices"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// lane is a lane's state in this run.
type lane struct {
	Lane
	held    []*held // claimed, not started, in the order in which they start
	running int

	// look says that a claim may find something. It is put out by a claim that
	// found nothing, and lit by whatever may have changed that.
	look    bool
	nextDue time.Time         // when the first delayed item is due; zero: none known
	allow   int               // how many more items may be claimed; negative: no bound
	full    *FullLane         // why nothing could be taken or started, at the last try
	passed  bool              // something was passed over because its job or pool was full
	holds   []store.Hold      // what is paused or held by a breaker, at the last look
	noRoom  map[string]string // likewise, what was full for a job
}

// held is an item that this run owns.
type held struct {
	store.Held
	lane  *lane
	item  *jobs.Item
	spec  *jobs.Spec
	since time.Time // of the claim
}

// unsettled is what the run is responsible for in the lane.
func (l *lane) unsettled() int { return len(l.held) + l.running }

// free is how many more attempts this run may have in flight here.
func (l *lane) free() int { return max(0, l.Slots-l.running) }

// room is how many items a claim may take: the bound of responsibility, and
// what --once and --limit leave.
func (l *lane) room(batch, limit int) int {
	n := batch - l.unsettled()
	if l.allow >= 0 {
		n = min(n, l.allow)
	}
	if limit >= 0 {
		n = min(n, limit)
	}
	return max(0, n)
}

// has says whether something of a job is held.
func (l *lane) has(job string) bool {
	return slices.ContainsFunc(l.held, func(h *held) bool { return h.item.Job == job })
}

// remove takes what f picks out of the held ones and returns it.
func (l *lane) remove(f func(*held) bool) (gone []*held) {
	kept := l.held[:0]
	for _, h := range l.held {
		if f(h) {
			gone = append(gone, h)
		} else {
			kept = append(kept, h)
		}
	}
	clear(l.held[len(kept):])
	l.held = kept
	return gone
}

// dueSoon notes that something becomes due in the lane after d.
func (l *lane) dueSoon(now time.Time, d time.Duration) {
	at := now.Add(d)
	if l.nextDue.IsZero() || at.Before(l.nextDue) {
		l.nextDue = at
	}
}
