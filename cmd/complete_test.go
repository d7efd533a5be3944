package cmd

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/store"
	"batchq/store/sqlite"
)

// Every flag that takes a value is completed by something: names, words, files
// or nothing at all, but never with files where none are meant.
func TestComplete_EveryFlag(t *testing.T) {
	root := newRoot(newApp(process{getenv: func(string) string { return "" }}))
	named := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			by, there := c.GetFlagCompletionFunc(f.Name)
			what, _ := pflag.UnquoteUsage(f)
			if there == (what == "" || what == "FILE") {
				t.Errorf("%s --%s (%s): completed %v", c.CommandPath(), f.Name, what, there)
			}
			if there && by != nil {
				named++
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
	if named < 30 {
		t.Errorf("only %d flags were seen", named)
	}
}

// Every name in the table of arguments is a command's.
func TestComplete_Arguments(t *testing.T) {
	a := newApp(process{getenv: func(string) string { return "" }})
	root := newRoot(a)
	for path := range argumentOffers(a) {
		c, rest, err := root.Find(strings.Fields(path)[1:])
		if err != nil || len(rest) > 0 || c.ValidArgsFunction == nil {
			t.Errorf("%s: %v %v", path, rest, err)
		}
	}
}

func TestFitting(t *testing.T) {
	got := fitting([]string{"a", "", "ab", "b", "a", "a\tb", "a\nb", "a\xff", "aü"}, "a")
	if d := cmp.Diff([]string{"a", "ab", "aü"}, got); d != "" {
		t.Error(d)
	}
}

// However many scopes there are, Tab shows no more than can be read, the
// newest first.
func TestComplete_ScopesAreBounded(t *testing.T) {
	path := t.TempDir() + "/q.db"
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range offeredMost + 50 {
		_, err := db.Enqueue(t.Context(), store.Enqueue{Job: "pos", Scope: fmt.Sprintf("s%04d", i), OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("k")}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	code := run(process{args: []string{"__complete", "--db", path, "work", "pos", "--scope", "s"}, stdout: &out, stderr: &strings.Builder{},
		getenv: func(string) string { return "" }})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if code != 0 || len(lines) != offeredMost+1 || lines[0] != "s0249" || lines[offeredMost-1] != "s0050" {
		t.Errorf("status %d, %d lines, %s to %s", code, len(lines), lines[0], lines[len(lines)-1])
	}
}

// The script that bash sources asks this binary, and offers what it says.
func TestComplete_Bash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	var script strings.Builder
	if code := run(process{args: []string{"completion", "bash"}, stdout: &script, stderr: &strings.Builder{}, getenv: func(string) string { return "" }}); code != 0 {
		t.Fatalf("status %d", code)
	}
	// bash-completion's part: the words of the line. Which program answers is
	// told by a function, since this test's binary has another name.
	const shell = `
_init_completion() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${words[cword]}; prev=${words[cword-1]}; }
batchq() { printf '%s\n' "$*" >&3; printf 'pos\nposter\n:4\n'; }
COMP_WORDS=(batchq --db q.db work po); COMP_CWORD=4; COMP_LINE="${COMP_WORDS[*]}"; COMP_POINT=${#COMP_LINE}
COMP_TYPE=9 COMP_KEY=9
__start_batchq
printf '%s\n' "${COMPREPLY[@]}"
`
	c := exec.CommandContext(t.Context(), bash, "-c", "exec 3>&1\n"+script.String()+shell)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	want := "__complete --db q.db work po\npos\nposter\n"
	if err != nil || string(out) != want {
		t.Errorf("%v: %q, want %q; %s", err, out, want, &stderr)
	}
}
