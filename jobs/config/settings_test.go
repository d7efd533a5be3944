package config

import (
	"slices"
	"testing"
)

func TestSettings(t *testing.T) {
	c := parse(t, `database = "q.db"
[defaults]
batch = 7
timeout = "90m"
env = { TZ = "UTC", TOKEN = "secret" }
backoff.base = "1s"
lane = "fast"
[pools]
db = 15
[jobs.a]
command = ["./a.sh", "{key}", "say \"x\""]
uses = { db = 7 }
dir = "sub"
[jobs.a.backoff]
cap = "2s"
[jobs.a.env]
TOKEN = "other"
"A.B" = "c"
`)
	want := map[string]Setting{
		"database":     {"database", `"/etc/app/q.db"`, "batchq.toml:1", Own},
		"batch":        {"batch", "7", "batchq.toml:3", Inherited},
		"lease":        {"lease", `"60s"`, "", BuiltIn},
		"command":      {"command", `["./a.sh", "{key}", "say \"x\""]`, "batchq.toml:11", Own},
		"shell":        {"shell", "", "", BuiltIn},
		"uses":         {"uses", "{ db = 7 }", "batchq.toml:12", Own},
		"dir":          {"dir", `"/etc/app/sub"`, "batchq.toml:13", Own},
		"lane":         {"lane", `"serial"`, "batchq.toml:7", Inherited}, // fast is not declared
		"timeout":      {"timeout", `"90m"`, "batchq.toml:4", Inherited},
		"env":          {"env", `{ TZ = …, TOKEN = …, "A.B" = … }`, "batchq.toml:16", Own},
		"backoff.base": {"backoff.base", `"1s"`, "batchq.toml:6", Inherited},
		"backoff.cap":  {"backoff.cap", `"2s"`, "batchq.toml:15", Own},
		"kill_after":   {"kill_after", `"5s"`, "", BuiltIn},
		"keep_done":    {"keep_done", "", "", BuiltIn},
	}
	settings := append(c.Settings(""), c.Settings("a")...)
	for _, s := range settings {
		if w, ok := want[s.Key]; ok {
			diff(t, s, w)
			delete(want, s.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	if c.Settings("b") != nil {
		t.Error("a job that is not declared has settings")
	}
	// Every key of a job is told, in the order of the table.
	var told, table []string
	for _, s := range c.Settings("a") {
		told = append(told, s.Key)
	}
	for _, k := range Keys() {
		if k.In&Job != 0 {
			table = append(table, k.Name)
		}
	}
	diff(t, told, table)
	if d := none().Settings(""); len(d) != 3 || d[1].Value != "100" {
		t.Errorf("without a file: %v", d)
	}
}

func TestSettings_DirIsTheFilesOwn(t *testing.T) {
	i := slices.IndexFunc(parse(t, job).Settings("a"), func(s Setting) bool { return s.Key == "dir" })
	diff(t, parse(t, job).Settings("a")[i], Setting{"dir", `"/etc/app"`, "", BuiltIn})
}

func TestUnused(t *testing.T) {
	c := parse(t, `[pools]
db = 15
web = 3
[lanes.idle]
in_flight = 2
[lanes.serial]
[jobs.a]
shell = "s"
uses = { db = 1 }
lane = "fast"
[jobs.b]
shell = "s"
lane = "fast"
`)
	diff(t, c.Unused(), []string{
		`lane "idle": no job runs in it (batchq.toml:4)`,
		`pool "web": no job uses it (batchq.toml:3)`,
		`to declare lane "fast": [lanes.fast] and below it in_flight = NUMBER`,
	})
	diff(t, parse(t, job).Unused(), []string(nil))
}

func TestAtOnce(t *testing.T) {
	c := parse(t, `[pools]
db = 15
web = 6
[lanes.wide]
in_flight = 4
[jobs.lane]
shell = "s"
lane = "wide"
[jobs.own]
shell = "s"
lane = "wide"
in_flight = 2
[jobs.pool]
shell = "s"
lane = "wide"
uses = { db = 1, web = 2 }
[jobs.serial]
shell = "s"
`)
	for name, want := range map[string]int{"lane": 4, "own": 2, "pool": 3, "serial": 1} {
		if got := c.AtOnce(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}
