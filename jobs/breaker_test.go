package jobs

import (
	"math"
	"testing"
	"time"
)

func TestBreaker_Hold(t *testing.T) {
	minute := Breaker{Failures: 10, Cooldown: time.Minute}
	for n, want := range map[int]time.Duration{
		-1: time.Minute, 0: time.Minute, // who asks too early is told the first
		1: time.Minute, 2: 2 * time.Minute, 3: 4 * time.Minute, 5: 16 * time.Minute, 6: 30 * time.Minute, 7: 30 * time.Minute,
		math.MaxInt: 30 * time.Minute,
	} {
		if got := minute.Hold(n); got != want {
			t.Errorf("hold %d: %s, want %s", n, got, want)
		}
	}
}

// Whatever the cooldown and however often the breaker has opened, a hold is
// between the cooldown and the longest, and never less than the one before.
func TestBreaker_HoldIsBounded(t *testing.T) {
	for _, cooldown := range []time.Duration{1, time.Millisecond, time.Second, time.Minute, longestHold - 1, longestHold, longestHold + 1,
		24 * time.Hour, math.MaxInt64/2 + 1, math.MaxInt64} {
		b := Breaker{Failures: 1, Cooldown: cooldown}
		before := time.Duration(0)
		for n := 1; n <= 1000; n++ {
			got := b.Hold(n)
			if got < cooldown || got > b.Longest() || got < before {
				t.Fatalf("cooldown %s, hold %d: %s after %s", cooldown, n, got, before)
			}
			before = got
		}
		if before != max(cooldown, longestHold) {
			t.Errorf("cooldown %s: the last hold is %s", cooldown, before)
		}
	}
}

func TestBreaker_Counts(t *testing.T) {
	b := Breaker{Failures: 3, Cooldown: time.Minute}
	for _, c := range []struct {
		name string
		v    Verdict
		want bool
	}{
		{"failed, may recover", Verdict{To: Delayed, Class: ClassRetry, Charge: ChargeFailure}, true},
		{"timed out", Verdict{To: Delayed, Class: ClassTimeout, Charge: ChargeFailure}, true},
		{"its last attempt", Verdict{To: Dead, Class: ClassRetry, Charge: ChargeFailure}, true},
		{"done", Verdict{To: Done, Class: ClassDone}, false},
		{"the item's own fault", Verdict{To: Dead, Class: ClassPermanent, Charge: ChargeFailure}, false},
		{"put off at its own wish", Verdict{To: Delayed, Class: ClassDefer, Charge: ChargeDefer}, false},
		{"crashed with its run", Verdict{To: Ready, Class: ClassCrash, Charge: ChargeCrash}, false},
		{"stopped", Verdict{To: Ready, Class: ClassFree}, false},
		{"a handler that can't run", Verdict{To: Ready, Class: ClassBroken}, false},
		{"not charged", Verdict{To: Delayed, Class: ClassRetry}, false},
	} {
		if got := b.Counts(c.v); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		if (Breaker{Cooldown: time.Minute}).Counts(c.v) {
			t.Errorf("%s counts where nothing is ever held", c.name)
		}
	}
}

func TestPolicy_ValidateBreaker(t *testing.T) {
	for _, c := range []struct {
		b    Breaker
		want string
	}{
		{Breaker{10, time.Minute}, ""},
		{Breaker{0, time.Nanosecond}, ""},
		{Breaker{-1, time.Minute}, "breaker.failures -1 is negative (0 means never)"},
		{Breaker{1, 0}, "breaker.cooldown 0s is not positive"},
		{Breaker{1, -time.Second}, "breaker.cooldown -1s is not positive"},
	} {
		p, got := DefaultPolicy(), ""
		p.Breaker = c.b
		if err := p.Validate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.b, got, c.want)
		}
	}
}
