package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"batchq/jobs/config"
)

// localLayouts are how a person writes a time in the zone of this host.
var localLayouts = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"}

// parseTime reads RFC 3339, or a local time like "2026-11-29 08:00".
func parseTime(text string, zone *time.Location) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		return t, inRange(text, t)
	}
	for _, layout := range localLayouts {
		if t, err = time.ParseInLocation(layout, text, zone); err == nil {
			return t, inRange(text, t)
		}
	}
	return time.Time{}, fmt.Errorf(`%q is no time: write one like "2026-11-29 08:00" or 2026-11-29T08:00:00Z`, text)
}

// inRange refuses what no document could say: RFC 3339 has years of four
// digits, and an age of more than 292 years is no Duration.
func inRange(text string, t time.Time) error {
	if y := t.UTC().Year(); y < 1970 || y > 9999 {
		return fmt.Errorf("%q lies outside the years 1970 to 9999 (UTC)", text)
	}
	return nil
}

// scopeOf is what --scope names, its @words expanded; nil where it is not given.
func scopeOf(f *pflag.FlagSet, text string, now time.Time) (*string, error) {
	if !f.Changed("scope") {
		return nil, nil
	}
	scope, err := config.ExpandScope(text, now)
	if err != nil {
		return nil, usagef("--scope: %w", err)
	}
	return &scope, nil
}

// warnLiteral points out a scope that is a word without its @: a second scope
// is a second settlement.
func (a *app) warnLiteral(scope string) {
	switch scope {
	case "today", "yesterday", "hour":
		a.out.warn("the scope %q is taken as it is; the day or hour itself is @%s", scope, scope)
	}
}
