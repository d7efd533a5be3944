package jobs

import (
	"fmt"
	"strconv"
	"strings"
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

// ParseRate reads "20/s", "90/m", "1000/h", "5/d" or "3/10s".
func ParseRate(text string) (Rate, error) {
	wrong := fmt.Errorf(`%q is no rate: write one like "20/s", "90/m", "1000/h" or "3/10s"`, text)
	number, unit, found := strings.Cut(text, "/")
	count, err := strconv.Atoi(number)
	if !found || err != nil {
		return Rate{}, wrong
	}
	if count < 1 {
		return Rate{}, fmt.Errorf("rate %q: the number must be 1 or more (pause holds a job back altogether)", text)
	}
	if unit == "" || unit[0] < '0' || unit[0] > '9' {
		unit = "1" + unit
	}
	per, err := time.ParseDuration(unit)
	if days, ok := strings.CutSuffix(unit, "d"); err != nil && ok {
		per, err = time.ParseDuration(days + "h")
		per *= 24
	}
	if err != nil || per <= 0 {
		return Rate{}, wrong
	}
	r := Rate{count, per}
	if int64(count) > maxRate || r.Per/time.Duration(count) < time.Microsecond {
		return Rate{}, fmt.Errorf("rate %q: at most %d a second", text, maxRate)
	}
	return r, nil
}

// String is the rate as ParseRate reads it; "" for the zero Rate.
func (r Rate) String() string {
	if r.Count == 0 {
		return ""
	}
	for _, u := range []struct {
		name string
		d    time.Duration
	}{{"s", time.Second}, {"m", time.Minute}, {"h", time.Hour}, {"d", 24 * time.Hour}} {
		if r.Per == u.d {
			return fmt.Sprintf("%d/%s", r.Count, u.name)
		}
	}
	return fmt.Sprintf("%d/%s", r.Count, r.Per)
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
