package report

import (
	"fmt"
	"time"

	"batchq/store"
)

// Throttle holds a job back whose server has said that it is too much.
type Throttle struct {
	Since  string  `json:"since"`
	Until  string  `json:"until"`       // from then on one item at a time, until the server has taken one
	Proven bool    `json:"proven"`      // it has
	Gap    float64 `json:"gap_seconds"` // from one start to the next after that
	Reason string  `json:"reason"`
	since  time.Time
	until  time.Time
	gap    time.Duration
}

func throttle(h *store.Throttle) *Throttle {
	if h == nil {
		return nil
	}
	return &Throttle{Since: timestamp(h.Since), Until: timestamp(h.Until), Proven: h.Proven, Gap: h.Gap.Seconds(), Reason: escapeInvalid(h.Reason),
		since: h.Since, until: h.Until, gap: h.Gap}
}

// holds says whether nothing starts now. A hold of the future was written before
// the clock was set back.
func (h *Throttle) holds(now time.Time) bool { return now.Before(h.until) && !now.Before(h.since) }

// said is how it holds its job now.
func (h *Throttle) said(now time.Time) string {
	switch {
	case h.holds(now):
		return fmt.Sprintf("is held until %s, because its server said that it was too much%s", clockSeconds(h.until, now), because(h.Reason))
	case !h.Proven:
		return "is held to one item at a time until its server takes one, after an answer that it was too much" + because(h.Reason)
	}
	return fmt.Sprintf("starts one item every %s, because its server said at %s that it was too much%s", Duration(h.gap), clockSeconds(h.since, now), because(h.Reason))
}
