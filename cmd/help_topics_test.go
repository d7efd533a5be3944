package cmd

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/jobs/handler"
	"batchq/jobs/input"
)

func TestTopics_Fit(t *testing.T) {
	for _, topic := range topics {
		for line := range strings.Lines(topic.page()) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > helpWidth || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: line of %d characters: %q", topic.name, n, line)
			}
		}
	}
}

func TestTopics_ConfigHasEveryKey(t *testing.T) {
	text := configText(helpWidth)
	for _, k := range config.Keys() {
		head := "\n  " + k.Name
		if k.Default != "" {
			head += " = " + k.Default
		}
		if !strings.Contains(text, head+"\n") {
			t.Errorf("no line %q", head)
		}
		first, _, _ := strings.Cut(k.Doc, " ")
		if !strings.Contains(text, head+"\n      "+first) {
			t.Errorf("%s is not explained", k.Name)
		}
	}
}

func TestTopics_InputHasEveryFormat(t *testing.T) {
	for _, f := range input.Formats() {
		h := formatHelps[f]
		if h.doc == "" || h.example == "" {
			t.Errorf("%s is not described", f)
		}
		if len(h.example) > helpWidth-4 {
			t.Errorf("%s: the example is %d characters long", f, len(h.example))
		}
		if !strings.Contains(inputText(helpWidth), "\n"+string(f)+"\n") {
			t.Errorf("%s is not listed", f)
		}
	}
}

// asked finds where the source reads a variable of the environment.
var asked = regexp.MustCompile(`(?:[gG]etenv\("|LookupEnv\("|userDir\(getenv, ")([A-Z_]+)"`)

// What the source reads is in the list, and the list has nothing else.
func TestTopics_EnvironmentIsWhole(t *testing.T) {
	read := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "jobs/fault/") {
			return err // faults are for tests
		}
		text, err := os.ReadFile(path)
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			read[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range read {
		if environment[name] == "" {
			t.Errorf("%s is read and not listed", name)
		}
	}
	for name := range environment {
		if !read[name] {
			t.Errorf("%s is listed and never read", name)
		}
	}
	text := environmentText(helpWidth)
	for _, v := range handler.Variables() {
		if !strings.Contains(text, "  "+v.Name+" ") {
			t.Errorf("%s is set for commands and not listed", v.Name)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{
		"": nil, "7": {7}, "7, 8": {8, 7}, "7-9": {9, 7, 8, 8}, "1, 3-5, 7, 8, 100": {1, 3, 4, 5, 7, 8, 100},
	} {
		if got := ranges(numbers); got != want {
			t.Errorf("ranges(%v) = %q, want %q", numbers, got, want)
		}
	}
}

func TestTopics_ExplainEveryClass(t *testing.T) {
	text := exitCodesText(helpWidth)
	for _, class := range jobs.Classes() {
		doc := classDocs[class]
		first, _, _ := strings.Cut(doc, " ")
		if doc == "" || !regexp.MustCompile(`(?m)^  `+string(class)+` +`+first).MatchString(text) {
			t.Errorf("%s is not explained", class)
		}
	}
	if len(classDocs) != len(jobs.Classes()) {
		t.Errorf("%d classes are explained, and there are %d", len(classDocs), len(jobs.Classes()))
	}
}
