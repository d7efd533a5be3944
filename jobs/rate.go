package jobs

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Rate is how many attempts of a job may start within a time, over all runs on
// the database. The zero Rate is no bound.
type Rate struct {
	Count int
	Per   time.Duration
}

// RateSlack is how far a rate may run ahead of its even pace: what a run that
// woke up late may catch up with, and so the burst that a window may see
// beside its share.
const RateSlack = 100 * time.Millisecond

// maxRate bounds a rate: beyond it an interval would be less than the
// microsecond in which paces are counted.
const maxRate = 1_000_000

// maxPer bounds the time of a rate, so that no arithmetic on it overflows.
const maxPer = 365 * 24 * time.Hour

// rateForm is a count, and a time as a unit or as a number of it.
var rateForm = regexp.MustCompile(`^(-?[0-9]+)/([0-9]*)(ms|s|m|h|d)$`)

var rateUnits = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

// ParseRate reads "20/s", "90/m", "1000/h", "5/d" or "3/10s".
func ParseRate(text string) (Rate, error) {
	wrong := fmt.Errorf(`%q is no rate: write one like "20/s", "90/m", "1000/h" or "3/10s"`, text)
	part := rateForm.FindStringSubmatch(text)
	if part == nil {
		return Rate{}, wrong
	}
	count, err := strconv.Atoi(part[1])
	if err != nil || count > maxRate {
		return Rate{}, tooFast(text)
	}
	if count < 1 {
		return Rate{}, fmt.Errorf("rate %q: the number must be 1 or more (pause holds a job back altogether)", text)
	}
	units := 1
	if part[2] != "" {
		if units, err = strconv.Atoi(part[2]); err != nil || units < 1 {
			return Rate{}, wrong
		}
	}
	unit := rateUnits[part[3]]
	if units > int(maxPer/unit) {
		return Rate{}, fmt.Errorf("rate %q: the time must be a year or less", text)
	}
	r := Rate{count, time.Duration(units) * unit}
	if r.Per/time.Duration(count) < time.Microsecond {
		return Rate{}, tooFast(text)
	}
	return r, nil
}

func tooFast(text string) error { return fmt.Errorf("rate %q: at most %d a second", text, maxRate) }

// String is the rate as ParseRate reads it; "" for the zero Rate.
func (r Rate) String() string {
	if r.Count == 0 {
		return ""
	}
	for _, unit := range []string{"d", "h", "m", "s"} {
		switch d := rateUnits[unit]; {
		case r.Per == d:
			return fmt.Sprintf("%d/%s", r.Count, unit)
		case r.Per%d == 0:
			return fmt.Sprintf("%d/%d%s", r.Count, r.Per/d, unit)
		}
	}
	return fmt.Sprintf("%d/%dms", r.Count, r.Per.Milliseconds())
}

// Interval is the time between two starts at an even pace, rounded up to
// microseconds so that the rate is never exceeded; 0: no bound.
func (r Rate) Interval() time.Duration {
	if r.Count == 0 {
		return 0
	}
	n := time.Duration(r.Count) * time.Microsecond
	return (r.Per + n - 1) / n * time.Microsecond
}

// Within is how many attempts may start in d, at least 1; negative: any number.
func (r Rate) Within(d time.Duration) int {
	if r.Count == 0 {
		return -1
	}
	return max(1, int(d/r.Interval()))
}

// MarshalText makes a rate a string in JSON.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r = Rate{}
	if len(text) > 0 {
		*r, err = ParseRate(string(text))
	}
	return err
}
