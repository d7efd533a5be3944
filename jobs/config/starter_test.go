package config

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// setting matches a line of the starter that only lacks its # to count.
var setting = regexp.MustCompile(`(?m)^#(\[|[a-z])`)

// uncommented is the starter with all that it shows.
func uncommented() string { return setting.ReplaceAllString(string(Starter("")), "$1") }

func TestStarter_IsSound(t *testing.T) {
	for _, text := range []string{string(Starter("")), uncommented()} {
		c := parse(t, text)
		if len(c.Notes) > 0 || c.Jobs[StarterJob] == nil || c.Jobs[StarterJob].Lane != "serial" {
			t.Errorf("notes %q, jobs %v", c.Notes, c.Names)
		}
	}
	if got := parse(t, uncommented()).Lanes["parallel"]; got != 2 {
		t.Errorf("the lane that it shows holds %d", got)
	}
}

// Every key that it shows is in the table, and a setting of [defaults] that it
// shows at its default has the default of the table.
func TestStarter_GoesByTheTable(t *testing.T) {
	line := regexp.MustCompile(`^([a-z_.]+) = (.*?)(\s+#.*)?$`)
	places := map[string]Place{"": Top, "[defaults]": Defaults, "[lanes.parallel]": Lane, "[jobs.first]": Job, "[jobs.pos]": Job, "[jobs.orders.http]": Job}
	for text := range strings.Lines(string(Starter(""))) {
		if n := utf8.RuneCountInString(text); n > 81 {
			t.Errorf("line of %d characters: %s", n, text)
		}
	}
	table, keys := "", 0
	for text := range strings.Lines(uncommented()) {
		text = strings.TrimSuffix(text, "\n")
		if strings.HasPrefix(text, "[") {
			table, _, _ = strings.Cut(text, " ")
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil || table == "[pools]" {
			continue
		}
		keys++
		name := m[1]
		if table == "[jobs.orders.http]" {
			name = "http." + name
		}
		k, _ := findKey(name, places[table])
		if k == nil {
			t.Errorf("%s %s is no key", table, m[1])
		} else if table == "[defaults]" && m[2] != k.Default {
			t.Errorf("%s = %s, and the default is %s", m[1], m[2], k.Default)
		}
	}
	if keys < 18 {
		t.Errorf("only %d keys were seen", keys)
	}
}

func TestStarter_Line(t *testing.T) {
	lines := slices.Collect(strings.Lines(string(Starter(""))))
	if got := lines[StarterLine()-1]; !strings.HasPrefix(got, "command = ") {
		t.Errorf("line %d is %q", StarterLine(), got)
	}
}

func TestStarter_Database(t *testing.T) {
	for _, path := range []string{"/a b/c.db", `/a"b\c.db`, "/tab\t\x01\x7f", "/ü.db"} {
		if got := parse(t, string(Starter(path))).Database; got != path {
			t.Errorf("%q has become %q", path, got)
		}
		if string(Starter(path)) == string(Starter("")) {
			t.Error("the line was not found")
		}
	}
	if string(Starter("")) != string(starter) {
		t.Error("the plain starter is changed")
	}
}
