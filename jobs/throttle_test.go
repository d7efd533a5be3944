package jobs_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"batchq/jobs"
)

// A server that takes so many a second is found, from however far, within few
// refusals, and most of what it takes is used.
func TestThrottle_FindsTheLimit(t *testing.T) {
	for _, limit := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 20 * time.Second} {
		var pace jobs.Throttle
		pace = pace.Slower()
		refused, over := 0, false
		var took time.Duration
		const items = 10_000
		for range items {
			took += pace.Gap
			if pace.Gap < limit {
				pace = pace.Slower()
				refused++
				continue
			}
			if pace, over = pace.Faster(); over {
				t.Fatalf("%s: it is over, and the server refuses", limit)
			}
		}
		// Some seconds go by until it knows.
		if refused > items/40 || took > items*limit*17/10+time.Minute {
			t.Errorf("a server that takes one every %s: %d of %d refused, in %s", limit, refused, items, took)
		}
	}
}

// Without a limit a pace comes to its end, and it never leaves its bounds.
func TestThrottle_Bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pace := jobs.Throttle{}.Slower()
		for range rapid.IntRange(0, 40).Draw(t, "refused") {
			pace = pace.Slower()
		}
		if pace.Gap <= 0 || pace.Gap > time.Minute || pace.Steady > time.Minute {
			t.Fatalf("%+v", pace)
		}
		for n, over := 0, false; !over; n++ {
			before := pace.Gap
			if pace, over = pace.Faster(); pace.Gap >= before || n > 400_000 {
				t.Fatalf("%+v after %d", pace, n)
			}
		}
	})
}
