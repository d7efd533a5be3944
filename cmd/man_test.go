package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"batchq/report"
)

// pages runs man and returns the files that it wrote, by name.
func pages(t *testing.T, environ map[string]string) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pages")
	var stderr strings.Builder
	code := run(process{args: []string{"man", dir}, stdout: &strings.Builder{}, stderr: &stderr, getenv: func(name string) string { return environ[name] }})
	if code != 0 {
		t.Fatalf("status %d: %s", code, &stderr)
	}
	files, err := filepath.Glob(dir + "/man[15]/*")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(text)
	}
	return out
}

func TestMan_EveryCommand(t *testing.T) {
	written := pages(t, map[string]string{"SOURCE_DATE_EPOCH": "1795996800"})
	root := newRoot(newApp(process{getenv: func(string) string { return "" }}))
	commands := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		commands++
		text := written[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"]
		for _, part := range []string{`"2026\-11\-30"`, "\n.SH NAME\n", "\n.SH SYNOPSIS\n", "\n.SH \"OPTIONS\"\n", "\n.SH \"EXAMPLES\"\n", "\n.SH \"EXIT STATUS\"\n"} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: no %q", c.CommandPath(), part)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if len(written) != commands+1 || written["batchq.toml.5"] == "" {
		t.Errorf("%d pages of %d commands and batchq.toml", len(written), commands)
	}
}

// The same program writes the same bytes.
func TestMan_IsReproducible(t *testing.T) {
	first, second := pages(t, nil), pages(t, nil)
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs", name)
		}
	}
}

// What can be typed reaches the reader as it stands: no hyphen is bent, no
// backslash and no line that begins with a dot is lost, and roff has nothing to
// complain of.
func TestMan_Reads(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("there is no groff")
	}
	read := func(p *report.ManPage) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), groff, "-man", "-ww", "-Tutf8", "-rLL=100n", "-P-c", "-P-b", "-P-o", "-P-u")
		c.Stdin = strings.NewReader(p.Roff())
		var stderr strings.Builder
		c.Stderr = &stderr
		out, err := c.Output()
		if err != nil || stderr.Len() > 0 {
			t.Errorf("%s: %v\n%s", p.Name, err, &stderr)
		}
		return string(out)
	}
	root := newRoot(newApp(process{getenv: func(string) string { return "" }}))
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		text := read(commandPage(c))
		for line := range strings.Lines(c.Example) {
			if line = strings.TrimSpace(line); !strings.Contains(text, line) {
				t.Errorf("%s: the example %q is lost in\n%s", c.CommandPath(), line, text)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	page := configPage()
	if page.Add("X", ".first 'a' \\n `b`"); !strings.Contains(read(page), ".first 'a' \\n `b`") {
		t.Error("a line that begins with a dot is lost")
	}
	if !slices.ContainsFunc(keyTables(manWidth), func(k keyTable) bool { return strings.Contains(k.title, "[jobs.NAME]") }) {
		t.Error("no keys of jobs")
	}
}
