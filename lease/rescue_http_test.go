package lease

import (
	"testing"
	"time"
)

// No process tells whether a server is still at work on a request of a dead run:
// it comes back when its timeout would have ended it, and without one when a
// person says so.
func TestRescue_Request(t *testing.T) {
	for _, timeout := range []time.Duration{time.Minute, 0} {
		t.Run(timeout.String(), func(t *testing.T) {
			b := setup(t)
			spec := b.spec(holds)
			spec.Policy.Timeout, spec.Policy.KillAfter = timeout, time.Hour // which is no request's
			b.enqueue("a", "b")
			p := b.process(role{Spec: spec, Claim: 2, Start: 1})
			p.kill()
			b.exec(`UPDATE policy SET spec = json_set(spec, '$.handler.http', json('{"url":"http://h/"}'))`)
			r := b.rescuer()
			r.rescue()
			b.want("a running, b ready")
			if orphans, stuck := r.Pending(); orphans != 1 || !stuck {
				t.Errorf("%d pending, stuck: %v", orphans, stuck)
			}
			b.clock.step(timeout + 1000*time.Hour*time.Duration(btoi(timeout == 0)) - 30*time.Second)
			r.rescue()
			b.want("a running")
			if n := len(r.said("is a request that a server may be at work on still: it stays held")); n != 1 {
				t.Errorf("said %d times that it stays held", n)
			}
			b.clock.step(31 * time.Second)
			r.rescue()
			if timeout == 0 {
				b.want("a running")
				return
			}
			b.want("a ready")
			b.wantCrashes("a", 1)
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
