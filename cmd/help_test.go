package cmd

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestHelp holds what every help text must have.
func TestHelp(t *testing.T) {
	a := newApp(process{getenv: func(string) string { return "" }})
	root := newRoot(a)
	seen := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		seen++
		t.Run(c.CommandPath(), func(t *testing.T) { checkHelp(t, c) })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if seen < 15 {
		t.Errorf("only %d commands were seen", seen)
	}
}

var statusLine = regexp.MustCompile(`(?m)^ {2,4}(\d+)  \S`)

func checkHelp(t *testing.T, c *cobra.Command) {
	var b strings.Builder
	c.SetOut(&b)
	c.InitDefaultHelpFlag()
	help(c, nil)
	text := b.String()
	for _, section := range []string{"\nUSAGE\n", "\nEXAMPLES\n", "\nFLAGS\n", "\nEXIT STATUS\n"} {
		if !strings.Contains(text, section) {
			t.Errorf("no section %q in:\n%s", strings.TrimSpace(section), text)
		}
	}
	codes := map[string]bool{}
	for _, m := range statusLine.FindAllStringSubmatch(c.Annotations[exitsKey], -1) {
		codes[m[1]] = true
	}
	if !codes["0"] || !codes["2"] {
		t.Errorf("every command can end with 0 and 2; this one says %v", codes)
	}
	if !strings.HasPrefix(strings.TrimSpace(c.Example), "batchq ") && !strings.Contains(c.Example, "| batchq ") && !strings.Contains(c.Example, "(batchq ") {
		t.Errorf("the first example does not call batchq: %q", c.Example)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
			t.Errorf("line of %d characters: %s", n, line)
		}
	}
	if strings.Contains(text, "(default ") {
		t.Errorf("a default in two styles:\n%s", text)
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if what, _ := pflag.UnquoteUsage(f); what != strings.ToUpper(what) {
			t.Errorf("--%s takes %q: want a word in capitals, as N", f.Name, what)
		}
		if f.Usage == "" || strings.HasSuffix(f.Usage, ".") {
			t.Errorf("--%s: usage %q is empty or ends with a full stop", f.Name, f.Usage)
		}
	})
	if c.HasAvailableSubCommands() && c.RunE == nil {
		t.Error("a group that does nothing by itself would exit 0")
	}
}
