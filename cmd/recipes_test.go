package cmd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/tools/txtar"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	tableCell  = regexp.MustCompile("(?m)\\| `([^|`]*(?:\\\\\\|[^|`]*)*)`[^|]*\\|$")
)

// TestRecipes holds that what README recommends is what the scripts
// recipe_*.txtar run, to the letter.
func TestRecipes(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(readme), "## Recipes")
	text, _, ends := strings.Cut(text, "\n## ")
	scripts, err := filepath.Glob("../testdata/script/recipe_*.txtar")
	if err != nil || !found || !ends || len(scripts) == 0 {
		t.Fatal(err, scripts)
	}
	run := map[string]bool{}
	for _, name := range scripts {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			run[string(f.Data)] = true
		}
	}
	var wanted []string
	for _, m := range shellBlock.FindAllStringSubmatch(text, -1) {
		wanted = append(wanted, m[1])
	}
	blocks := len(wanted)
	for _, m := range tableCell.FindAllStringSubmatch(text, -1) {
		wanted = append(wanted, strings.ReplaceAll(m[1], `\|`, "|")+"\n")
	}
	if blocks < 5 || len(wanted)-blocks < 5 {
		t.Fatalf("only %q", wanted)
	}
	for _, w := range wanted {
		if !run[w] {
			t.Errorf("no script has a file that is\n%s", w)
		}
	}
}

// apiCommand serves orders for a script and names itself in $API: 7 is not there,
// every fifth is throttled once, 20 always, and the eleventh fails once in each other way.
func apiCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: api")
	}
	var mu sync.Mutex
	asked := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		order := strings.TrimPrefix(r.URL.Path, "/orders/")
		asked[order]++
		switch again := asked[order]; {
		case r.Header.Get("Idempotency-Key") == "":
			w.WriteHeader(http.StatusBadRequest)
		case order == "7":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintln(w, "no such order")
		case (order == "5" || order == "10") && again == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		case order == "20":
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		case order == "11" && again == 1:
			w.WriteHeader(http.StatusInternalServerError)
		case order == "11" && again == 2:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	ts.Defer(s.Close)
	ts.Setenv("API", s.URL)
}
