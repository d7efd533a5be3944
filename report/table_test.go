package report

import (
	"strings"
	"testing"
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
