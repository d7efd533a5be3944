package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// orders is a server that takes a moment for each item, whether or not who asked
// is still there, and remembers what it was asked.
type orders struct {
	mu     sync.Mutex
	took   map[string]int
	beside map[string]bool // asked for while it was at work on it
	atWork map[string]bool
	total  int
}

func (o *orders) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	key := r.URL.Path
	o.mu.Lock()
	if o.atWork[key] {
		o.beside[key] = true
	}
	o.atWork[key] = true
	o.total++
	o.mu.Unlock()
	time.Sleep(10 * time.Millisecond) // the work
	o.mu.Lock()
	o.took[key]++
	delete(o.atWork, key)
	o.mu.Unlock()
}

func (o *orders) asked() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

// A run with requests in the air is killed, again and again: each item is asked
// for until it is done, none beside itself, and none that is recorded as done
// once more.
func TestCrash_HTTP(t *testing.T) {
	t.Parallel()
	rounds := 5
	if n, err := strconv.Atoi(os.Getenv("BATCHQ_TEST_ROUNDS")); err == nil {
		rounds = n
	}
	s := setup(t)
	server := &orders{took: map[string]int{}, beside: map[string]bool{}, atWork: map[string]bool{}}
	web := httptest.NewServer(server)
	defer web.Close()
	s.write("batchq.toml", fmt.Sprintf("[lanes.web]\nin_flight = 4\n[jobs.o]\nlane = 'web'\ntimeout = '1s'\nmax_crashes = 1000\n[jobs.o.http]\nurl = '%s/{key}'\n", web.URL))
	const items = 400
	s.enqueue("o", sequence(items))
	line := []string{"work", "--wait", "--lease", "1s"}
	done := map[string]int{} // how often it had been asked for when it was recorded as done
	for range rounds {
		p := s.start(s.command(line...))
		from, more := server.asked(), 1+s.rand.IntN(60)
		s.until("it is at work", func() bool { return server.asked() >= min(from+more, items) || s.totals()["done"] == items })
		p.kill()
		for _, it := range s.items(store.Selection{States: []jobs.State{jobs.Done}}) {
			key := "/" + string(it.Key)
			server.mu.Lock()
			if before, known := done[key]; known && server.took[key] != before {
				t.Errorf("item %s is done, and was asked for again", it.Key)
			}
			done[key] = server.took[key]
			server.mu.Unlock()
		}
	}
	s.want(0, line...)
	s.wantTotals(map[string]int{"done": items})
	for _, key := range sequence(items) {
		if n := server.took["/"+key]; n == 0 || done["/"+key] != 0 && n != done["/"+key] {
			t.Errorf("item %s was asked for %d times, %d when it was done", key, n, done["/"+key])
		}
	}
	for key := range server.beside {
		t.Errorf("%s was asked for beside itself", key)
	}
	s.tidy()
}
