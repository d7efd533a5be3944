package cmd

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// seed makes the choices of a test: BATCHQ_TEST_SEED, or another each time.
func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("BATCHQ_TEST_SEED")
	if text == "" {
		text = strconv.FormatInt(time.Now().UnixNano(), 10)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("BATCHQ_TEST_SEED=%d", n)
	return n
}

// matrixWidth is how many scenarios go on at once: they wait more than they work.
const matrixWidth = 3

// TestMatrix kills batchq at every moment between two steps that each
// scenario reaches, and lets the user do what he does: give the same line
// again. Nothing may be lost, nothing that was recorded as done be done again,
// nothing be done beside itself, and nothing be left lying about.
//
// Each moment is suffered in two scenarios here, and with -short a fifth of the
// moments: which, the seed decides. BATCHQ_TEST_MATRIX=full kills in each step,
// at the first time and at a later one.
func TestMatrix(t *testing.T) {
	t.Parallel()
	seed := seed(t)
	var mu sync.Mutex
	clean := map[string]played{}
	t.Run("Clean", func(t *testing.T) {
		for _, sc := range scenarios() {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				p := sc.play(t)
				mu.Lock()
				defer mu.Unlock()
				clean[sc.name] = p
			})
		}
	})
	if t.Failed() {
		return
	}
	t.Run("Moments", func(t *testing.T) {
		source := momentsInSource(t)
		for moment, where := range source {
			reached := false
			for _, sc := range scenarios() {
				for i, st := range sc.steps {
					reached = reached || clean[sc.name].moments[i][moment] > 0 && st.kills(moment)
				}
			}
			if !reached {
				t.Errorf("%s: no scenario kills at %s", where, moment)
			}
		}
		t.Logf("%d moments", len(source))
	})
	struck, missed := map[string]int{}, map[string]int{}
	cells := 0
	t.Run("Killed", func(t *testing.T) {
		todo := make(chan cell)
		var killers sync.WaitGroup
		for range matrixWidth {
			killers.Go(func() {
				for c := range todo {
					t.Run(c.String(), func(t *testing.T) {
						var p played
						for tries := 0; tries < 3 && !p.struck; tries++ { // what goes on side by side comes in another order
							p = c.suffer(t, clean[c.name])
						}
						mu.Lock()
						defer mu.Unlock()
						if p.struck {
							struck[c.moment]++
						} else {
							missed[c.moment]++
						}
					})
				}
			})
		}
		for _, c := range everyCell(clean, seed) {
			cells++
			todo <- c
		}
		close(todo)
		killers.Wait()
	})
	if !testing.Short() {
		for moment := range missed {
			if struck[moment] == 0 {
				t.Errorf("%s: nobody was killed there", moment)
			}
		}
	}
	t.Logf("%d cells, %d moments, %d kills; not reached again: %v", cells, len(struck), sum(struck), missed)
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// kills says whether a step is to be killed at a moment.
func (st step) kills(moment string) bool {
	return st.only == nil || slices.ContainsFunc(st.only, func(begin string) bool { return strings.HasPrefix(moment, begin) })
}

// everyCell lists what is to be suffered in this run of the test.
func everyCell(clean map[string]played, seed uint64) (cells []cell) {
	at := map[string][]cell{} // by moment: the times that anybody is there
	for _, sc := range scenarios() {
		for i, st := range sc.steps {
			for moment, n := range clean[sc.name].moments[i] {
				if !st.kills(moment) {
					continue
				}
				at[moment] = append(at[moment], cell{sc, i, moment, 1})
				if n > 1 {
					at[moment] = append(at[moment], cell{sc, i, moment, 1 + n/2})
				}
			}
		}
	}
	for _, moment := range slices.Sorted(maps.Keys(at)) {
		times := at[moment]
		if os.Getenv("BATCHQ_TEST_MATRIX") == "full" {
			cells = append(cells, times...)
			continue
		}
		if testing.Short() && chance(seed, moment)%5 != 0 {
			continue
		}
		slices.SortFunc(times, func(a, b cell) int { return cmp.Compare(chance(seed, a.String()), chance(seed, b.String())) })
		cells = append(cells, times[0])
		if i := slices.IndexFunc(times, func(c cell) bool { return c.scenario != times[0].scenario }); i > 0 {
			cells = append(cells, times[i])
		}
	}
	return cells
}

// chance is a number that only the seed and the name decide.
func chance(seed uint64, name string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", seed, name)
	return h.Sum64() >> 8 // the low bits mix badly
}
