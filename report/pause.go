package report

import (
	"fmt"
	"strings"
	"time"

	"batchq/store"
)

// Pause is what a person holds back, in every document that tells of it.
type Pause struct {
	Kind   string `json:"kind"` // "all", "lane" or "job"
	Name   string `json:"name"` // of the lane or job; "" for all
	Since  string `json:"since"`
	By     string `json:"by"`
	Reason string `json:"reason"`
	pause  store.Pause
}

// NewPauses renders pauses.
func NewPauses(pauses []store.Pause) []Pause {
	out := make([]Pause, 0, len(pauses))
	for _, p := range pauses {
		one := Pause{Kind: "all", Since: timestamp(p.Since), By: escapeInvalid(p.By), Reason: escapeInvalid(p.Reason), pause: p}
		switch {
		case p.Job != "":
			one.Kind, one.Name = "job", p.Job
		case p.Lane != "":
			one.Kind, one.Name = "lane", p.Lane
		}
		out = append(out, one)
	}
	return out
}

// userShown and reasonShown are how much a line shows of who paused, and why.
const (
	userShown   = 40
	reasonShown = 120
)

// said is "since 09:12 by ann: REASON".
func (p Pause) said(now time.Time) string {
	return fmt.Sprintf("since %s by %s%s", clock(p.pause.Since, now), Short(p.pause.By, userShown), because(p.pause.Reason))
}

// because adds a reason where there is one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + Short(reason, reasonShown)
}

// Paused is what pause did: the document of its --json.
type Paused struct {
	SchemaVersion int     `json:"schema_version"`
	Paused        []Pause `json:"paused"`
	StillRunning  int64   `json:"still_running"` // of all that, when this was written
}

// NewPaused renders pauses that hold from now on; running is what of them may
// still finish.
func NewPaused(pauses []store.Pause, running int64) Paused {
	return Paused{SchemaVersion: SchemaVersion, Paused: NewPauses(pauses), StillRunning: running}
}

// Lines says what is paused, one line each.
func (p Paused) Lines() []string {
	var lines []string
	for _, one := range p.Paused {
		lines = append(lines, fmt.Sprintf("paused %s%s", one.pause.Target, because(one.pause.Reason)))
	}
	return lines
}

// StillRunning says what of a target has not ended, and which runs have it.
func StillRunning(t store.Target, in store.InHand, now time.Time) string {
	var who []string
	for _, h := range in.Holders {
		who = append(who, fmt.Sprintf("run %d since %s", h.Run, clock(h.Since, now)))
	}
	s := fmt.Sprintf("%s: %d still running", t, in.Running)
	if in.Running == 0 {
		s = fmt.Sprintf("%s: %d still claimed", t, in.Claimed)
	}
	if len(who) > 0 {
		s += " (" + strings.Join(who, ", ") + ")"
	}
	return s
}

// Resumed is what resume did: the document of its --json.
type Resumed struct {
	SchemaVersion int     `json:"schema_version"`
	Resumed       []Pause `json:"resumed"`
	// Tried are the jobs that their breakers held back: one item may be tried now.
	Tried       []string `json:"tried"`
	Unthrottled []string `json:"unthrottled"` // jobs that a server's answer held
	StillPaused []Pause  `json:"still_paused"`
	now         time.Time
}

// NewResumed renders the pauses that ended, the jobs whose breakers wait no
// longer, those that are throttled no longer, and the pauses that still hold.
func NewResumed(ended []store.Pause, tried, unthrottled []string, left []store.Pause, now time.Time) Resumed {
	return Resumed{SchemaVersion: SchemaVersion, Resumed: NewPauses(ended), Tried: append([]string{}, tried...), Unthrottled: append([]string{}, unthrottled...), StillPaused: NewPauses(left), now: now}
}

// Lines says what may start again, one line each.
func (r Resumed) Lines() []string {
	var lines []string
	for _, one := range r.Resumed {
		lines = append(lines, fmt.Sprintf("resumed %s (paused %s)", one.pause.Target, one.said(r.now)))
	}
	for _, job := range r.Tried {
		lines = append(lines, fmt.Sprintf("job %s was held because its items failed in a row: one is tried as soon as a run looks", job))
	}
	for _, job := range r.Unthrottled {
		lines = append(lines, fmt.Sprintf("job %s was held because its server said that it was too much: it goes on at once", job))
	}
	return lines
}

// Left names the pauses that still hold: at most Named of them, then a count.
func (r Resumed) Left() []string {
	var lines []string
	for _, one := range r.StillPaused[:min(len(r.StillPaused), Named)] {
		lines = append(lines, fmt.Sprintf("still paused: %s %s", one.pause.Target, one.said(r.now)))
	}
	if more := len(r.StillPaused) - Named; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more are still paused", more))
	}
	return lines
}
