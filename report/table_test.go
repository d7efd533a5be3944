package report

import (
	"strings"
	"testing"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

func TestTable(t *testing.T) {
	tb := table{columns: []column{{title: "ID", right: true}, {title: "KEY", flex: true}, {title: "REASON", flex: true}}}
	tb.add("7", " spaced key ", "timed out after 1h0m0s (failure 8 of 8)")
	tb.add("1234", "日本語", "exit 65")
	var b strings.Builder
	if err := tb.write(&b, 0); err != nil {
		t.Fatal(err)
	}
	want := `  ID  KEY           REASON
   7   spaced key   timed out after 1h0m0s (failure 8 of 8)
1234  日本語        exit 65
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	if err := tb.write(&b, 40); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if len([]rune(line)) > 41 {
			t.Errorf("wider than 40: %q", line)
		}
	}
	if !strings.Contains(b.String(), "…") {
		t.Errorf("nothing was cut:\n%s", b.String())
	}
}

// What is not needed makes room before anything is cut: it is left out, first
// where it says nothing, then where there is no room.
func TestTable_Yields(t *testing.T) {
	for width, want := range map[int]string{
		0:  "ID  SCOPE  N  REASON\n 7         1  timed out\n",
		20: "ID  N  REASON\n 7  1  timed out\n",
		15: "ID  REASON\n 7  timed out\n",
	} {
		tb := table{columns: []column{{title: "ID", right: true}, {title: "SCOPE", spare: true}, {title: "N", yields: true}, {title: "REASON", flex: true}}}
		tb.add("7", "", "1", "timed out")
		var b strings.Builder
		if err := tb.write(&b, width); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("%d columns: got\n%swant\n%s", width, b.String(), want)
		}
	}
}

// No table is wider than the terminal, however narrow that is, and what stands
// in its first columns is there as long as anything is.
func TestTable_Narrow(t *testing.T) {
	for _, width := range []int{1, 2, 20, 40, 60, 80} {
		tb := table{columns: []column{{title: "ID", right: true}, {title: "JOB", flex: true}, {title: "KEY", flex: true},
			{title: "STATE"}, {title: "SINCE/DUE"}, {title: "REASON", flex: true}}}
		tb.add("1042", strings.Repeat("job", 20), strings.Repeat("日本", 20), "delayed", "2026-11-29 12:00:00", strings.Repeat("no route to host ", 9))
		tb.add("7", "a", "", "ready", "12:00:00", "")
		var b strings.Builder
		if err := tb.write(&b, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(strings.TrimSuffix(b.String(), "\n"), "\n")
		if len(lines) != 3 {
			t.Errorf("%d columns: %d lines:\n%s", width, len(lines), b.String())
		}
		for _, line := range lines {
			if w := twwidth.Width(strings.TrimSuffix(line, "\n")); w > width {
				t.Errorf("%d columns: %d wide: %s", width, w, line)
			}
		}
		if width >= 20 && !(strings.Contains(b.String(), "1042  job") && strings.Contains(b.String(), "\n   7  a")) {
			t.Errorf("%d columns: the first columns are gone:\n%s", width, b.String())
		}
		if width >= 80 && !strings.Contains(b.String(), "REASON") {
			t.Errorf("%d columns: REASON could have been there:\n%s", width, b.String())
		}
	}
}
