package cmd

import (
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

// TestMatrix kills batchq at every moment between two steps that each
// scenario reaches, and lets the user do what he does: give the same line
// again. Nothing may be lost, nothing that was recorded as done be done again,
// nothing be done beside itself, and nothing be left lying about.
//
// One time of several that a step is at a moment is enough here, and a fifth
// of all that with -short: which, the seed decides. BATCHQ_TEST_MATRIX=full
// kills at the first time and at a later one.
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
		for _, c := range everyCell(clean, seed) {
			cells++
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				p := c.suffer(t, clean[c.name])
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
	if !testing.Short() {
		for moment := range missed {
			if struck[moment] == 0 {
				t.Errorf("%s: nobody was killed there", moment)
			}
		}
	}
	t.Logf("%d cells, %d moments, %d kills; not reached a second time: %v", cells, len(struck), sum(struck), missed)
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
	full := os.Getenv("BATCHQ_TEST_MATRIX") == "full"
	for _, sc := range scenarios() {
		for i, st := range sc.steps {
			for _, moment := range slices.Sorted(maps.Keys(clean[sc.name].moments[i])) {
				if !st.kills(moment) {
					continue
				}
				c := cell{sc, i, moment, 1}
				later := c
				later.nth += clean[sc.name].moments[i][moment] / 2
				chance := chance(seed, c.String())
				switch {
				case full && later.nth > 1:
					cells = append(cells, c, later)
				case testing.Short() && chance%5 != 0:
				case chance%2 == 0:
					cells = append(cells, later)
				default:
					cells = append(cells, c)
				}
			}
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
