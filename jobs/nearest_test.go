package jobs_test

import (
	"testing"

	"batchq/jobs"
)

func TestNearest(t *testing.T) {
	known := []string{"json", "job", "state", "scope", "since", "yes"}
	for word, want := range map[string]string{"jsno": "json", "jobs": "job", "stat": "state", "scop": "scope", "sicne": "since", "frobnicate": "", "x": "", "": ""} {
		if got := jobs.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
