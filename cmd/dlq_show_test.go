package cmd

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/report"
	"batchq/store"
)

// recorder writes down what it was called with, byte for byte: the first time
// for an item as "real", then as "again". It leaves a result, and fails for good.
const recorder = `#!/bin/sh
f=%s/$BATCHQ_IDEMPOTENCY_KEY
if [ -e "$f.real" ]; then f=$f.again; else f=$f.real; fi
{ printf '%%s\0' "$#" "$0" "$PWD" "$@"; cat /proc/$$/environ; printf -- '--\0'; cat; } > "$f"
printf '{"class":"permanent","error":"recorded"}\n' > "$BATCHQ_RESULT"
exit 65
`

// recorded is one call; variables that shells set for themselves, and those
// that are another for each call, are left out.
type recorded struct {
	Argv  []string // with the program and the directory
	Env   []string
	Stdin string
}

func (s *site) recorded(path string) (r recorded) {
	s.Helper()
	data, err := os.ReadFile(path)
	s.must(err)
	rest := string(data)
	word := func() (w string) {
		w, rest, _ = strings.Cut(rest, "\x00")
		return w
	}
	n, err := strconv.Atoi(word())
	s.must(err)
	for range n + 2 {
		r.Argv = append(r.Argv, word())
	}
	for entry := word(); entry != "--"; entry = word() {
		switch name, _, _ := strings.Cut(entry, "="); name {
		case "_", "SHLVL", "OLDPWD", "BATCHQ_RESULT", "BATCHQ_MARK":
		default:
			r.Env = append(r.Env, entry)
		}
	}
	slices.Sort(r.Env)
	r.Stdin = rest
	return r
}

// oddKeys are what a shell, a terminal, printf or env may take for something else.
func oddKeys() []string {
	all := make([]byte, 0, 255)
	for c := 1; c < 256; c++ {
		all = append(all, byte(c))
	}
	return []string{"plain", "two words", "it's", `"`, "-n", "--", "-\x01", "a=b", "%s%%\\n\\", "$(touch owned)`touch owned`", "!!", "!!\x1b", "~", "*", "{}", "{key}",
		"für 日本", "e\u0301\u202e", "\xff\xfe", "\xc3", "a\n", "\n\n", "\x1b\n\n", "\r\n", "a\nnext:\n  rm -rf /", "\t", "\x7f\x01\x80", "1\x002"[:1], string(all)}
}

// What dlq show prints is what was executed: pasted, it gives a program the
// same arguments, environment, directory and input, byte for byte.
func TestDLQShow_Pasted(t *testing.T) {
	t.Parallel()
	s := setup(t)
	records := filepath.Join(s.dir, "records")
	s.must(os.Mkdir(records, 0o700))
	for _, name := range []string{"rec", "rec=ord", "it's/rec"} {
		path := filepath.Join(s.dir, name)
		s.must(os.MkdirAll(filepath.Dir(path), 0o700))
		s.must(os.WriteFile(path, fmt.Appendf(nil, recorder, records), 0o700))
	}
	s.write("batchq.toml", `[pools]
"d-b" = 15
[defaults]
env = { SHARED = "", TZ = "Asia/Tokyo" }
[jobs.plain]
command = ["./rec", "{}", "a{key}b", "{scope}", "{job}", "{attempt}", "{", "{key"]
[jobs.fixed]
command = ["./rec", "no {placeholder}"]
[jobs.rows]
command = ["./rec", "{.x}", "x{.n}"]
uses = { "d-b" = 7 }
env = { "odd-name" = "v", TOKEN = "it's $HOME!\n\u001b[31m", EMPTY = "", PATH_ = "~" }
[jobs.unread]
command = ["./rec=ord", "{key}"]
stdin = "none"
[jobs.script]
dir = "it's"
shell = '''
# two lines, and it's quoted
exec ./rec "$1" "$0"'''
[jobs.bang]
shell = "true ! \n exec ./rec \"$1\""
`)
	s.want(0, "check")
	keys := oddKeys()
	list := strings.Join(keys, "\x00") + "\x00"
	var rows strings.Builder
	rows.WriteString("id,x,n\n")
	all := 0
	for _, key := range keys {
		if !utf8.ValidString(key) {
			continue // rows have to be text
		}
		all++
		quoted := `"` + strings.ReplaceAll(key, `"`, `""`) + `"`
		fmt.Fprintf(&rows, "%s,%s,12.50\n", quoted, quoted)
	}
	for _, job := range []string{"plain", "fixed", "script", "bang", "moment", "appended"} {
		s.expect(s.batchq(list, "enqueue", job, "-0", "--scope", "it's\x1b"), 0, "enqueue", job)
	}
	for _, job := range []string{"rows", "unread", "momentrows"} {
		s.expect(s.batchq(rows.String(), "enqueue", job, "--format", "csv", "--key", "id"), 0, "enqueue", job)
	}
	// The program is found by its name, as a person finds it.
	path := "PATH=" + filepath.Dir(s.self) + ":" + os.Getenv("PATH")
	called := func(shell string, args ...string) result {
		c := s.command(args...)
		if c.Env = append(c.Env, path); shell != "" {
			c.Path, c.Args = shell, append([]string{filepath.Base(shell)}, args...)
		}
		return s.result(c)
	}
	for _, line := range [][]string{{}, {"moment", "--", "./rec", "{}", "x{}"}, {"appended", "--", "./rec", "it's", "\xff"}, {"momentrows", "--", "./rec", "{.x}", "\x1b"}} {
		s.expect(called("", append([]string{"work"}, line...)...), 3, "work")
	}
	shells := []string{"/bin/sh"}
	if bash, err := exec.LookPath("bash"); err == nil {
		shells = append(shells, bash)
	}
	dead := s.items(store.Selection{States: []jobs.State{jobs.Dead}})
	if want := 6*len(keys) + 3*all; len(dead) != want {
		t.Fatalf("%d items are dead, want %d", len(dead), want)
	}
	for i, it := range dead {
		// Each key once where it stands everywhere, and some of them elsewhere.
		if every := it.Job == "plain" && !testing.Short(); !every && i%7 > 0 {
			continue
		}
		id := fmt.Sprint(it.ID)
		var doc report.DeadItem
		s.must(json.Unmarshal([]byte(s.want(0, "dlq", "show", id, "--json").stdout), &doc))
		text := s.want(0, "dlq", "show", id).stdout
		if !strings.Contains(text, "\n"+doc.Shell+"\n") {
			t.Errorf("item %s: the paste is not to be seen:\n%s", id, text)
		}
		harmless(t, "dlq show", text)
		record := filepath.Join(records, doc.IdempotencyKey)
		want := s.recorded(record + ".real")
		s.likeDocument(doc, want)
		for _, shell := range shells {
			r := called(shell, "-c", doc.Shell)
			if r.code != 65 || r.stdout != `{"class":"permanent","error":"recorded"}`+"\n" || r.stderr != "" {
				t.Fatalf("job %s, key %q, in %s: %s\nof\n%s", it.Job, it.Key, shell, r, doc.Shell)
			}
			if diff := cmp.Diff(want, s.recorded(record+".again")); diff != "" {
				t.Errorf("job %s, key %q, in %s (-attempt +pasted):\n%s\nof\n%s", it.Job, it.Key, shell, diff, doc.Shell)
			}
		}
	}
	left, err := os.ReadDir(filepath.Join(s.dir, "tmp"))
	s.must(err)
	if len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	s.tidy()
}

// likeDocument compares the document's argv and variables with what a command got.
func (s *site) likeDocument(doc report.DeadItem, got recorded) {
	s.Helper()
	argv := doc.Command
	if doc.CommandBase64 != nil {
		argv = nil
		for _, w := range doc.CommandBase64 {
			b, err := base64.StdEncoding.DecodeString(w)
			s.must(err)
			argv = append(argv, string(b))
		}
	}
	if argv[0] != "sh" {
		// Behind the program and its directory.
		if diff := cmp.Diff(got.Argv[2:], argv[1:]); diff != "" {
			s.Errorf("argv (-attempt +document):\n%s", diff)
		}
	}
	for _, v := range doc.Env {
		value := v.Value
		if v.ValueBase64 != "" {
			b, err := base64.StdEncoding.DecodeString(v.ValueBase64)
			s.must(err)
			value = string(b)
		}
		if !slices.Contains(got.Env, v.Name+"="+value) {
			s.Errorf("the command did not get %s=%q: %q", v.Name, value, got.Env)
		}
	}
	if (doc.Stdin == "payload") != (got.Stdin != "") {
		s.Errorf("stdin is %q, and the command read %q", doc.Stdin, got.Stdin)
	}
}
