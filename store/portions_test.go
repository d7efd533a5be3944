package store

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
)

// What a person moves goes in transactions of at most MaxRows, with a breath
// between, so that heartbeats never wait long; after an error it is known what
// was done.
func TestPortions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ids := make([]int64, 2*MaxRows+500)
		var sizes []int
		var ended time.Time
		broken := errors.New("disk full")
		moved, err := portions(ids, func(ids []int64) (Moved, error) {
			if len(sizes) > 0 && time.Since(ended) < Breath {
				t.Errorf("portion %d begins %s after the one before", len(sizes), time.Since(ended))
			}
			if sizes = append(sizes, len(ids)); len(sizes) == 3 {
				return Moved{}, broken
			}
			ended = time.Now()
			return Moved{Moved: len(ids) - 1, Refused: []Refusal{{ID: 1}}, From: []JobState{{"j", jobs.Dead, len(ids) - 1}}}, nil
		})
		if !errors.Is(err, broken) {
			t.Error(err)
		}
		if diff := cmp.Diff([]int{MaxRows, MaxRows, 500}, sizes); diff != "" {
			t.Errorf("portions (-want +got):\n%s", diff)
		}
		want := Moved{Moved: 2 * (MaxRows - 1), Refused: []Refusal{{ID: 1}, {ID: 1}}, From: []JobState{{"j", jobs.Dead, 2 * (MaxRows - 1)}}}
		if diff := cmp.Diff(want, moved); diff != "" {
			t.Errorf("moved (-want +got):\n%s", diff)
		}
	})
}
