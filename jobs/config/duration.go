package config

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
)

// bareNumber matches a duration that lacks its unit.
var bareNumber = regexp.MustCompile(`^[-+]?[0-9]+(\.[0-9]+)?$`)

// days matches the part of a duration that Go does not know, and the rest.
var days = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d((?:[0-9.].*)?)$`)

// ParseAge is ParseDuration for how long ago something was, or for how long it is
// kept: who leaves the unit out means days then, and would lose nearly everything
// by a hint at seconds.
func ParseAge(s string) (time.Duration, error) {
	d, err := ParseDuration(s)
	if err != nil && bareNumber.MatchString(s) {
		return 0, fmt.Errorf("%s has no unit: write %s for days", show(s), show(s+"d"))
	}
	return d, err
}

// ParseDuration reads a duration as Go does ("500ms", "60s", "1h30m"), and
// days before the rest ("7d", "1d12h"; a day is 24 hours, also when the clocks
// change). "0" needs no unit; any other number does.
func ParseDuration(s string) (time.Duration, error) {
	if bareNumber.MatchString(s) && strings.Trim(s, "-+0.") != "" {
		return 0, fmt.Errorf("%s has no unit: write %s", show(s), show(s+"s"))
	}
	wrong := fmt.Errorf(`%s is not a duration: write one like "500ms", "60s", "1h30m" or "7d"`, show(s))
	unsigned, negative := strings.CutPrefix(s, "-")
	if !negative {
		unsigned = strings.TrimPrefix(s, "+")
	}
	part := days.FindStringSubmatch(unsigned)
	if part == nil {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, wrong
		}
		return d, nil
	}
	// Go's parser checks the digits and the overflow of the days as hours.
	day, err := time.ParseDuration(part[1] + "h")
	if err != nil || day > math.MaxInt64/24 {
		return 0, wrong
	}
	d := day * 24
	if part[2] != "" {
		rest, err := time.ParseDuration(part[2])
		if err != nil || rest > math.MaxInt64-d {
			return 0, wrong
		}
		d += rest
	}
	if negative {
		d = -d
	}
	return d, nil
}
