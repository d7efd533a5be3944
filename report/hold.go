package report

import (
	"fmt"
	"time"

	"batchq/store"
)

// Held says what holds a job back that has something ready.
func Held(h store.Hold, now time.Time) string {
	if p := h.Pause; p != nil {
		s := fmt.Sprintf("%s is paused since %s by %s", p.Target, clock(p.Since, now), p.By)
		if p.Reason != "" {
			s += ": " + p.Reason
		}
		return s
	}
	if h.Throttle != nil {
		return fmt.Sprintf("job %s %s", h.Job, throttle(h.Throttle).said(now))
	}
	b := h.Breaker
	if now.Before(b.Until) {
		return fmt.Sprintf("job %s is held until %s, because its items failed in a row, the last with %q", h.Job, clockSeconds(b.Until, now), b.Reason)
	}
	return fmt.Sprintf("job %s is held to one item at a time until one succeeds; the last failed with %q", h.Job, b.Reason)
}

// holdJSON is what held a job back, or a lane, or everything.
type holdJSON struct {
	Job    string  `json:"job"`  // "" when a lane or everything is paused
	Lane   string  `json:"lane"` // the paused lane; "" else
	Why    string  `json:"why"`  // "paused", "breaker" or "throttled"
	Since  string  `json:"since"`
	Until  *string `json:"until"` // of a breaker or a throttle: when one item is tried again
	Reason string  `json:"reason"`
}

func holdsJSON(holds []store.Hold) []holdJSON {
	out := []holdJSON{}
	for _, h := range holds {
		if p := h.Pause; p != nil {
			out = append(out, holdJSON{Job: p.Job, Lane: p.Lane, Why: "paused", Since: timestamp(p.Since), Reason: escapeInvalid(p.Reason)})
			continue
		}
		if t := h.Throttle; t != nil {
			out = append(out, holdJSON{Job: h.Job, Why: "throttled", Since: timestamp(t.Since), Until: maybe(t.Until), Reason: escapeInvalid(t.Reason)})
			continue
		}
		out = append(out, holdJSON{Job: h.Job, Why: "breaker", Since: timestamp(h.Breaker.Opened), Until: maybe(h.Breaker.Until), Reason: escapeInvalid(h.Breaker.Reason)})
	}
	return out
}
