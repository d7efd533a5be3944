package worker_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"batchq/jobs"
)

// serve is a server that a job of the bundle asks, once for each item.
func (b *bundle) serve(h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return s.URL
}

// request is a job that asks a server.
func (b *bundle) request(name, lane, url string) *jobs.Spec {
	spec := b.job(name, lane, "")
	spec.Handler = jobs.Handler{HTTP: &jobs.Request{URL: url + "/{key}", Method: "POST"}}
	return spec
}

// A server that has room for a few at a time gets all of them in the end: the
// job is held, goes on one at a time, and then at a pace; no turn is slept
// through, and other jobs go on meanwhile.
func TestHTTP_Throttled(t *testing.T) {
	b := setup(t)
	var mu sync.Mutex
	room, refused, seen := 3, 0, map[string]int{}
	url := b.serve(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
		if room--; room < 0 && refused < 4 {
			refused++
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	b.enqueue("j", keys("k", 20)...)
	b.enqueue("other", "x")
	spec := b.request("j", "web", url)
	spec.Policy.Breaker = jobs.Breaker{Failures: 1, Cooldown: 1} // which must hear nothing of it
	p := plan(lane("web", 4, spec, b.job("other", "web", "true")))
	p.Wait = true
	sum := b.work(p)
	if sum.Done != 21 || sum.Dead != 0 || sum.Retried != refused || refused != 4 {
		t.Errorf("%d refused: %+v", refused, sum)
	}
	if c := b.counters("j"); c.Throttled != int64(refused) || c.Done != 20 {
		t.Errorf("%+v", c)
	}
	sent := 0
	for _, n := range seen {
		sent += n
	}
	if sent != 20+refused {
		t.Errorf("%d requests", sent)
	}
}

// A stop ends requests; what must not be repeated is set aside.
func TestHTTP_Stop(t *testing.T) {
	for _, dead := range []bool{false, true} {
		b := setup(t)
		asked, end := make(chan struct{}, 1), make(chan struct{})
		url := b.serve(func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-end:
			}
		})
		b.Cleanup(func() { close(end) })
		b.enqueue("j", "a")
		spec, want := b.request("j", jobs.Serial, url), jobs.Ready
		if dead {
			spec.Policy.OnCrash, want = jobs.CrashDead, jobs.Dead
		}
		p := plan(serial(spec))
		p.Grace = 1
		r := b.start(p)
		<-asked
		r.soft()
		r.wait()
		b.want("a", want, 0, 0)
	}
}
