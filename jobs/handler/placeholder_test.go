package handler

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"batchq/jobs"
)

func TestArguments(t *testing.T) {
	item := &jobs.Item{
		ID: 7, Job: "j", Scope: "s{}", Key: []byte("k {job}\n\xff"), Attempt: 3,
		Payload: []byte(`{"name":"x{}y","n":1.50,"big":12345678901234567890,"t":true,"f":false,"empty":"","a b":"spaced",` +
			`"esc":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83dx","raw":"` + "\xfe" + `\n","dup":1,"dup":2}`),
	}
	const key = "k {job}\n\xff"
	for _, c := range []struct {
		handler jobs.Handler
		want    []string
	}{
		{jobs.Handler{Command: []string{"c", "{}", "{key}", "{scope}", "{job}", "{attempt}"}}, []string{"c", key, key, "s{}", "j", "3"}},
		{jobs.Handler{Command: []string{"{}"}}, []string{key}},
		{jobs.Handler{Command: []string{"c", "a{}b{}c"}}, []string{"c", "a" + key + "b" + key + "c"}},
		{jobs.Handler{Command: []string{"c", "{foo} { } ${x} {.} {{}} {key {key}} { {attempt}", "{", "}", "}{", "{.a{b}", ""}},
			[]string{"c", "{foo} { } ${x} {.} {" + key + "} {key " + key + "} { 3", "{", "}", "}{", "{.a{b}", ""}},
		{jobs.Handler{Command: []string{"c", "{.name}", "{.n}", "{.big}", "{.t}{.f}", "{.empty}", "{.a b}", "{.dup}"}},
			[]string{"c", "x{}y", "1.50", "12345678901234567890", "truefalse", "", "spaced", "2"}},
		{jobs.Handler{Command: []string{"{.esc}", "{.raw}"}}, []string{"\"\\/\b\f\n\r\té😀\ufffdx", "\xfe\n"}},
		{jobs.Handler{Command: []string{"c", "x"}}, []string{"c", "x"}},
		{jobs.Handler{Command: []string{"c", "x"}, AppendValue: true}, []string{"c", "x", key}},
		{jobs.Handler{Command: []string{"c", "x{.t}"}, AppendValue: true}, []string{"c", "xtrue"}},
		{jobs.Handler{Command: []string{"c", "{foo}"}, AppendValue: true}, []string{"c", "{foo}", key}},
		{jobs.Handler{Shell: `echo {} {key} "$1"`}, []string{"sh", "-c", `echo {} {key} "$1"`, "sh", key}},
	} {
		got, err := arguments(&c.handler, item)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v:\n got %q, %v\nwant %q", c.handler, got, err, c.want)
		}
	}
}

func TestRun_Unresolved(t *testing.T) {
	for _, c := range []struct{ key, payload, arg, want string }{
		{"k", "", "{.x}", `{.x}: the item has no payload`},
		{"k", "text", "{.x}", `{.x}: the payload is no JSON object`},
		{"k", "null", "{.x}", `{.x}: the payload is no JSON object`},
		{"k", "[1]", "{.x}", `{.x}: the payload is no JSON object`},
		{"k", "{}", "{.x y}", `{.x y}: the payload has no field "x y"`},
		{"k", `{"X":1}`, "{.x}", `{.x}: the payload has no field "x"`},
		{"k", `{"x":null}`, "a{.x}", `{.x}: the field is null`},
		{"k", `{"x":{}}`, "{.x}", `{.x}: the field is an object, and only a string, a number or a boolean can stand in an argument`},
		{"k", `{"x": [ ] }`, "{.x}", `{.x}: the field is an array, and only a string, a number or a boolean can stand in an argument`},
		{"k", `{"x":"a\u0000b"}`, "{.x}", `{.x}: the value "a\x00b" holds a NUL byte, which no argument can carry`},
		{"a\x00b", "", "x", `the key "a\x00b" holds a NUL byte, which neither an argument nor a variable can carry`},
	} {
		a := attempt(jobs.Handler{Command: []string{"true", c.arg}})
		a.Item.Key = []byte(c.key)
		if c.payload != "" {
			a.Item.Payload = []byte(c.payload)
		}
		a.Started = func(int, uint64) { t.Error("it was started") }
		if r := run(t, a); r.Ending != jobs.Unresolved || r.Error != c.want {
			t.Errorf("%s with %s: got %+v\nwant %s", c.arg, c.payload, r, c.want)
		}
	}
}

func TestRun_ShellValueIsNeverShellText(t *testing.T) {
	a := shell(`printf '%s|%s|%s' "$0" "$1" "$#"`)
	a.Item.Key = []byte(`"; echo $(id) ` + "`id`" + ` '{}' -n`)
	if r := run(t, a); text(r.Output) != "sh|"+string(a.Item.Key)+"|1" {
		t.Errorf("got %q", text(r.Output))
	}
}

func TestHasPlaceholder(t *testing.T) {
	for arg, want := range map[string]bool{
		"{}": true, "a{key}b": true, "{scope}": true, "{job}": true, "{attempt}": true, "{.x}": true, "{{}}": true, "{a{}": true,
		"": false, "{": false, "}": false, "{ }": false, "{.}": false, "{KEY}": false, "${x}": false, "{.a": false,
	} {
		if got := HasPlaceholder([]string{"cmd", arg}); got != want {
			t.Errorf("%q: %v", arg, got)
		}
	}
}

// The expansion must agree with its description as a regular expression.
var described = regexp.MustCompile(`\{(?:|key|scope|job|attempt|\.[^{}]+)\}`)

func FuzzExpand(f *testing.F) {
	f.Add("a{}b", "key{}", "{scope}", `{"x":"{}"}`)
	f.Add("{.x}{.y}", "k", "", `{"x":"\ud800\u0041","y":1e5}`)
	f.Add("{{key}}{.{}", "k", "s", `null`)
	f.Add("{.\xff}", "k", "s", "{\"\xff\":1}")
	f.Fuzz(func(t *testing.T, arg, key, scope, payload string) {
		item := &jobs.Item{Job: "j", Scope: scope, Key: []byte(key), Attempt: 3, Payload: []byte(payload)}
		var fields map[string]any
		reader := json.NewDecoder(strings.NewReader(payload))
		reader.UseNumber()
		valid := json.Valid([]byte(payload)) && reader.Decode(&fields) == nil && fields != nil
		bad := false
		want := described.ReplaceAllStringFunc(arg, func(p string) string {
			switch p {
			case "{}", "{key}":
				return key
			case "{scope}":
				return scope
			case "{job}":
				return "j"
			case "{attempt}":
				return "3"
			}
			switch x := fields[p[2:len(p)-1]].(type) {
			case string:
				bad = bad || strings.Contains(x, "\x00")
				return x
			case json.Number:
				return x.String()
			case bool:
				if x {
					return "true"
				}
				return "false"
			}
			bad = true
			return ""
		})
		bad = bad || !valid && strings.Contains(described.FindString(arg), "{.")
		v := values{item: item}
		got, found, err := v.expand(arg)
		if found != described.MatchString(arg) || found != HasPlaceholder([]string{arg}) {
			t.Fatalf("%q: found %v", arg, found)
		}
		if (err != nil) != bad {
			t.Fatalf("%q of %q: error %v, want one: %v", arg, payload, err, bad)
		}
		// encoding/json replaces what is no UTF-8; we keep it.
		if err == nil && got != want && utf8.ValidString(payload) {
			t.Fatalf("%q: got %q, want %q", arg, got, want)
		}
	})
}

func environ(t *testing.T, r *Runner, a Attempt) map[string]string {
	t.Helper()
	a.Spec.Handler.Command, a.Spec.Handler.Shell = []string{"env", "-0"}, ""
	a.Print = true
	result, printed := r.Run(t.Context(), context.Background(), a)
	defer printed.Close()
	wantExit(t, result, 0)
	var b strings.Builder
	if _, err := printed.Stdout.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{}
	for _, entry := range strings.Split(strings.TrimSuffix(b.String(), "\x00"), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		if _, twice := vars[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		vars[name] = value
	}
	return vars
}

func TestRun_Environment(t *testing.T) {
	for _, v := range append(Variables(), Variable{Name: "BATCHQ_USES_OLD"}, Variable{Name: "BATCHQ_USES_DB"}) {
		t.Setenv(v.Name, "outer")
	}
	t.Setenv("BATCHQ_DB", "here.db")
	t.Setenv("BATCHQ_CONFIG", "here.toml")
	t.Setenv("PLAIN", "outer")
	dir := t.TempDir()
	r := newRunner(t)
	a := attempt(jobs.Handler{Dir: dir, Env: map[string]string{"PLAIN": "inner", "EXTRA": "a=b", "BATCHQ_KEY": "forged", "BATCHQ_DB": "there.db"}})
	a.Spec.Uses = map[string]int{"db": 7, "gpu-2.x": 1}
	a.Item.Key = []byte("key\nwith=all\xff")
	got := environ(t, r, a)
	for name, want := range map[string]string{
		"BATCHQ_JOB": "j", "BATCHQ_SCOPE": "s1", "BATCHQ_KEY": "key\nwith=all\xff", "BATCHQ_IDEMPOTENCY_KEY": "idem",
		"BATCHQ_ATTEMPT": "2", "BATCHQ_CLAIM": "99", "BATCHQ_MARK": a.Mark,
		"BATCHQ_USES_DB": "7", "BATCHQ_USES_GPU_2_X": "1", "BATCHQ_THREADS": "7",
		"BATCHQ_DB": "there.db", "BATCHQ_CONFIG": "here.toml", "PLAIN": "inner", "EXTRA": "a=b", "PWD": dir, "PATH": os.Getenv("PATH"),
	} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
	if !strings.HasPrefix(got["BATCHQ_RESULT"], r.temp.path+"/") {
		t.Errorf("BATCHQ_RESULT=%q", got["BATCHQ_RESULT"])
	}
	if value, ok := got["BATCHQ_USES_OLD"]; ok {
		t.Errorf("BATCHQ_USES_OLD=%q has leaked", value)
	}
	// Each of them is in the table that documents read, and nothing else is.
	listed := map[string]bool{"BATCHQ_DB": true, "BATCHQ_CONFIG": true}
	for _, v := range Variables() {
		name := strings.Replace(v.Name, "<POOL>", "DB", 1)
		listed[name] = true
		if got[name] == "" || v.Doc == "" {
			t.Errorf("%s=%q, %q", v.Name, got[name], v.Doc)
		}
	}
	for name := range got {
		if strings.HasPrefix(name, "BATCHQ_") && !listed[name] && name != "BATCHQ_USES_GPU_2_X" {
			t.Errorf("%s is set and not in Variables", name)
		}
	}
	again := environ(t, r, a)
	if again["BATCHQ_RESULT"] == got["BATCHQ_RESULT"] {
		t.Error("two attempts have the same BATCHQ_RESULT")
	}
	plain := environ(t, r, attempt(jobs.Handler{}))
	for _, name := range []string{"BATCHQ_THREADS", "BATCHQ_USES_DB", "EXTRA"} {
		if value, ok := plain[name]; ok {
			t.Errorf("%s=%q without uses", name, value)
		}
	}
	if plain["BATCHQ_DB"] != "here.db" || plain["PLAIN"] != "outer" {
		t.Errorf("BATCHQ_DB=%q PLAIN=%q", plain["BATCHQ_DB"], plain["PLAIN"])
	}
}

func TestSpecEnv_IsBounded(t *testing.T) {
	r := newRunner(t)
	for range 3 * maxSpecEnvs {
		r.specEnv(&jobs.Spec{Name: "j"})
	}
	if len(r.envs) > maxSpecEnvs {
		t.Errorf("%d kept", len(r.envs))
	}
}
