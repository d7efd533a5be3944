package cmd

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// rooms are the parts of the house, from the street inwards. Each may import
// those behind it; report and lease stand side by side. cmd may import all.
//
//	cmd → report, lease → store → jobs
var rooms = map[string][]string{
	"":       {"cmd"}, // main.go
	"cmd":    {"report", "lease", "store", "jobs"},
	"report": {"store", "jobs"},
	"lease":  {"store", "jobs"},
	"store":  {"jobs"},
	"jobs":   {},
}

// driver is what only store/sqlite may import.
const driver = "modernc.org/sqlite"

// TestImportsPointInwards fails when an arrow points the wrong way.
func TestImportsPointInwards(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		files++
		rel, err := filepath.Rel("..", path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		from := filepath.ToSlash(filepath.Dir(rel))
		for _, imp := range f.Imports {
			if why := forbidden(from, strings.Trim(imp.Path.Value, `"`), strings.HasSuffix(rel, "_test.go")); why != "" {
				t.Errorf("%s imports %s: %s", rel, imp.Path.Value, why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Fatalf("only %d files were looked at", files)
	}
}

// forbidden says why a package in the directory from must not import path; ""
// when it may.
func forbidden(from, path string, test bool) string {
	if (path == driver || strings.HasPrefix(path, driver+"/")) && from != "store/sqlite" {
		return "only store/sqlite knows the driver"
	}
	to, ours := strings.CutPrefix(path, "batchq/")
	if !ours {
		return ""
	}
	fromRoom, toRoom := room(from), room(to)
	if fromRoom != toRoom {
		for _, may := range rooms[fromRoom] {
			if toRoom == may {
				return insideTheEngine(from, to, test)
			}
		}
		return "the arrow points from " + fromRoom + " to " + toRoom
	}
	if from == toRoom && to != from && !test {
		return "a room's root must not import its own sub-package"
	}
	return ""
}

// insideTheEngine keeps the engine behind store's interfaces: who decides
// which engine is used is cmd alone.
func insideTheEngine(from, to string, test bool) string {
	if to == "store/sqlite" && room(from) != "cmd" && !test {
		return "the engine is chosen in cmd"
	}
	return ""
}

func room(dir string) string {
	if dir == "." {
		return ""
	}
	first, _, _ := strings.Cut(dir, "/")
	return first
}

func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{".", "batchq/cmd", false, true},
		{".", "batchq/store", false, false},
		{"cmd", "batchq/store/sqlite", false, true},
		{"report", "batchq/lease", false, false},
		{"lease", "batchq/report", false, false},
		{"lease", "batchq/lease/worker", false, false},
		{"lease/worker", "batchq/lease", false, true},
		{"lease", "batchq/store/sqlite", false, false},
		{"lease/worker", "batchq/store/sqlite", true, true},
		{"jobs", "batchq/jobs/input", false, false},
		{"jobs/input", "batchq/jobs", false, true},
		{"jobs/input", "batchq/store", false, false},
		{"store", driver, false, false},
		{"store/sqlite", driver + "/lib", false, true},
		{"store/sqlite", "batchq/store", false, true},
		{"store", "batchq/cmd", true, false},
	} {
		if why := forbidden(c.from, c.to, c.test); (why == "") != c.ok {
			t.Errorf("%s → %s (test %v): %q", c.from, c.to, c.test, why)
		}
	}
}
