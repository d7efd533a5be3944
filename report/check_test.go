package report

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"batchq/jobs/config"
)

// On a terminal of 80 columns no line is longer, whatever the file says, and
// nothing that it says moves the cursor.
func TestCheck_FitsATerminal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batchq.toml")
	long := strings.Repeat("long word ", 30)
	cfg, err := config.Parse(path, []byte(`[pools]
db = 15
[lanes.parallel]
in_flight = 4
[lanes.idle]
in_flight = 1
[jobs.a]
lane = "parallel"
uses = { db = 7 }
command = ["./a.sh", "`+long+`", "\u001b[2J"]
timeout = "2h"
[jobs.b]
lane = "nowhere"
command = ["b"]
`))
	if err != nil {
		t.Fatal(err)
	}
	c := NewCheck(cfg, Found{Database: "/q.db", DatabaseSource: "--db", Programs: []string{"b: " + long}})
	for _, all := range []bool{false, true} {
		lines := c.Lines(all, 80)
		for _, line := range lines[1:] { // the first is the path of a test's directory
			if n := utf8.RuneCountInString(line); n > 80 || Safe(line) != line {
				t.Errorf("line of %d characters: %q", n, line)
			}
		}
		if got := slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "  default") && strings.Contains(l, "kill_after") }); got != all {
			t.Errorf("all %v, built-in shown %v", all, got)
		}
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasSuffix(l, "…  batchq.toml:10") }) {
			t.Errorf("the long command is not cut before its source:\n%s", strings.Join(lines, "\n"))
		}
	}
	if whole := strings.Join(c.Lines(false, 0), "\n"); !strings.Contains(whole, long) {
		t.Error("a pipe gets less than all of it")
	}
}
