package cmd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What the program makes is for its owner alone, whatever the umask: the
// database, its log, the locks, the private directory of a run, the outputs.
func TestSafety_Modes(t *testing.T) {
	t.Parallel()
	for _, umask := range []string{"000", "022", "077"} {
		s := setup(t)
		s.write("item.sh", "#!/bin/sh\necho secret\nprintf '{\"class\":\"done\"}' > \"$BATCHQ_RESULT\"\necho > started\nwhile [ ! -e go ]; do sleep 0.01; done\n")
		under := func(args ...string) *started {
			c := s.command(args...)
			c.Args = append([]string{"sh", "-c", "umask " + umask + `; exec "$0" "$@"`, s.self}, args...)
			c.Path = "/bin/sh"
			return s.start(c)
		}
		if r := under("enqueue", "j", "--item", "a").wait(); r.code != 0 {
			t.Fatal(r)
		}
		work := under("work", "j", "--log-dir", "logs/deep", "--print", "--", "./item.sh")
		s.until("the item runs and is logged", func() bool {
			_, err := os.Stat(filepath.Join(s.dir, "logs", "deep", "j", "1-1.log"))
			return s.file("started") != "" && err == nil || work.ended()
		})
		seen := map[string]bool{}
		s.must(filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it was a file of a moment
			}
			if err != nil {
				return err
			}
			name, _ := filepath.Rel(s.dir, path)
			info, err := d.Info()
			if err != nil || slices.Contains([]string{".", "tmp", "started", "item.sh", "built"}, name) {
				return nil
			}
			if strings.HasPrefix(d.Name(), "result-") {
				// The command makes it, under its own umask; its directory is closed.
				seen["result"] = true
				return nil
			}
			want := fs.FileMode(0o600)
			if d.IsDir() {
				want = 0o700
			}
			if info.Mode().Perm() != want {
				t.Errorf("umask %s: %s has mode %04o, want %04o", umask, name, info.Mode().Perm(), want)
			}
			for _, kind := range []struct{ pattern, what string }{
				{`^q\.db$`, "database"}, {`^q\.db-wal$`, "log"}, {`^q\.db-shm$`, "index"}, {`^\.?q\.db.+[a-z0-9]{20}`, "lock"},
				{`^tmp/batchq-`, "private directory"}, {`^logs/deep/j/1-1\.log$`, "output"}, {`^logs/deep/j$`, "output's directory"}, {`^logs$`, "outputs"},
			} {
				if regexp.MustCompile(kind.pattern).MatchString(name) {
					seen[kind.what] = true
				}
			}
			return nil
		}))
		for _, what := range []string{"database", "log", "index", "lock", "private directory", "output", "output's directory", "outputs", "result"} {
			if !seen[what] {
				t.Errorf("umask %s: no %s was there to look at", umask, what)
			}
		}
		s.write("go", "")
		if r := work.wait(); r.code != 0 || r.stdout != "secret\ndone 1, left 0\n" {
			t.Errorf("umask %s: %s", umask, r)
		}
		s.tidy()
	}
}

// The directory of a database that nobody named is its owner's, too.
func TestSafety_DefaultDirectory(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := s.command("enqueue", "j", "--item", "a")
	c.Args = []string{"sh", "-c", `umask 000; unset BATCHQ_DB; exec "$0" enqueue j --item a`, s.self}
	c.Path = "/bin/sh"
	s.expect(s.result(c), 0, "enqueue")
	for path, want := range map[string]fs.FileMode{".local/share/batchq": 0o700, ".local/share/batchq/batchq.db": 0o600} {
		info, err := os.Stat(filepath.Join(s.dir, path))
		s.must(err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", path, info.Mode().Perm(), want)
		}
	}
}

// hostile is text that does something in every place that acts on text.
const hostile = `$(touch owned);` + "`touch owned`" + `;'"'"'; touch owned #|touch owned & {key}{} %s \n`

// No shell reads what an item says, by whatever way it reaches the command, and
// whatever a message suggests to type can be pasted.
func TestSafety_NoShellReadsItems(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.db = filepath.Join(s.dir, "q "+strings.ReplaceAll(hostile, "/", "")+".db")
	s.write("batchq.toml", `[jobs.command]
command = ["printf", "%s\n", "{}", "{key}", "{.x}", "{scope}", "a{.x}b"]
[jobs.shell]
shell = 'printf "%s\n" "$1" "$BATCHQ_KEY" "$BATCHQ_SCOPE"; cat'
`)
	row := "id,x\n\"" + strings.ReplaceAll(hostile, `"`, `""`) + "\",\"" + strings.ReplaceAll(hostile, `"`, `""`) + "\"\n"
	s.write("list.csv", row)
	for _, job := range []string{"command", "shell", "moment", "appended"} {
		s.want(0, "enqueue", job, "list.csv", "--key", "id", "--scope", hostile)
	}
	for _, c := range []struct {
		args  []string
		wants int // how often the text stands in the output
	}{
		{[]string{"work", "command", "--print"}, 5},
		{[]string{"work", "shell", "--print"}, 3},
		{[]string{"work", "moment", "--print", "--", "sh", "-c", `printf "%s|" "$@"`, "sh", "{.x}", "{}"}, 2},
		{[]string{"work", "appended", "--print", "--", "printf", "%s"}, 1},
	} {
		// What would run is shown as what a shell would read as the same words.
		dry := append(slices.Insert(slices.Clone(c.args), 2, "--dry-run"), []string(nil)...)
		dry = slices.DeleteFunc(dry, func(w string) bool { return w == "--print" })
		lines := strings.Split(s.want(0, dry...).stdout, "\n")
		pasted := s.shell(strings.TrimSpace(lines[1]))
		r := s.want(0, c.args...)
		if strings.Count(r.stdout, hostile) != c.wants {
			t.Errorf("%v: %s", c.args, r)
		}
		if c.args[1] != "shell" && !strings.HasPrefix(r.stdout, pasted) {
			t.Errorf("%v: pasted, %q gives %q, and it ran as %s", c.args, lines[1], pasted, r)
		}
	}
	// Suggestions: a list of dead items, a job that nobody declares.
	s.want(0, "enqueue", "gone", "--item", hostile)
	suggested := []string{}
	for _, args := range [][]string{{"work"}, {"work", "gone", "--", "sh", "-c", "exit 65"}, {"enqueue", "gone", "--item", hostile}, {"enqueue", hostile + ".csv"}, {"work", hostile}, {"dlq", "list", "--key", hostile + "x"}} {
		r := s.batchq("", append([]string{"--db", s.db, "--config", filepath.Join(s.dir, "batchq.toml")}, args...)...)
		for line := range strings.Lines(r.stdout + r.stderr) {
			if at := strings.Index(line, ": batchq "); at > 0 {
				suggested = append(suggested, strings.TrimSpace(line[at+2:]))
			}
		}
	}
	for _, line := range suggested {
		s.shell(strings.ReplaceAll(line, "COMMAND {}", "true {}"))
	}
	if len(suggested) < 2 {
		t.Errorf("only %q is suggested", suggested)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "*owned*"))
	s.must(err)
	for _, path := range left {
		if !strings.HasPrefix(filepath.Base(path), "q ") {
			t.Errorf("%s was made", path)
		}
	}
	s.sound()
}

// shell runs a line that a person has pasted; batchq is this one.
func (s *site) shell(line string) string {
	s.Helper()
	c := s.command()
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `batchq() { "$BATCHQ_SELF" "$@"; }; ` + line}
	c.Env = append(c.Env, "BATCHQ_SELF="+s.self)
	return s.result(c).stdout
}

// control is text that a terminal would act on: colours, titles, C1 codes as
// characters and as bytes, what moves the cursor, what turns writing round.
const control = "\x1b[31m\x1b]0;t\a\x1bPq\x1b\\\u009b2J\x9b2J\r\b\v\x7f\u202e\u2066\u2028\ufeff\U000e0041\t\n!"

// No command lets such text through, wherever it comes from.
func TestSafety_Terminal(t *testing.T) {
	t.Parallel()
	s := setup(t)
	look := func(code int, stdin string, args ...string) result {
		t.Helper()
		r := s.batchq(stdin, args...)
		s.expect(r, code, args...)
		harmless(t, strings.Join(args, " ")+", stdout", r.stdout)
		harmless(t, strings.Join(args, " ")+", stderr", r.stderr)
		return r
	}
	quoted := `"` + control + `"`
	name := strings.ReplaceAll(control, "/", "") + ".csv"
	s.write(name, "id,x\na,1\n"+control+"\n"+quoted+",1\n\"a\"b,"+control+"\n")
	// Rejected records, their file, a conflict, an input that can't be used.
	look(3, "", "enqueue", "j", name, "--key", "id")
	look(3, "id,x\na,2\n", "enqueue", "j", "--format", "csv", "--key", "id")
	look(1, "", "enqueue", "j", control)
	look(1, quoted+",x\n1,2\n", "enqueue", "j", "--format", "csv", "--key", "id")
	look(2, "", "enqueue", "j", "--format", control)
	look(2, "", "enqueue", control, "--item", "a")
	look(2, "", "enqueue", "j", "--item", "a", "--at", control)
	look(2, "", "enqueue", "j", "--item", "a", "--scope", "@"+control)
	look(2, "", "enqueue", "j", "--item", "a", "--priority", control)
	look(0, "", "enqueue", "j", "--item", control, "--scope", control)
	look(0, "", "enqueue", "other", "--item", "a")
	// Reasons of pauses, in every place that repeats them.
	look(0, "", "pause", "j", "--reason", control)
	look(75, "", "work", "j", "--", "true")
	look(75, "", "work", "-v", "j", "--", "true")
	look(0, "", "stats")
	look(0, "", "resume", "j")
	// Output, answers, commands, and what the lists make of them.
	look(3, "", "work", "-v", "j", "--log-dir", "logs", "--", "sh", "-c", `printf '%s\n' "$1" >&2; exit 65`, control)
	look(0, "", "enqueue", "j", "--item", "second")
	look(3, "", "work", "-v", "j", "--", "sh", "-c", `printf '{"class":"permanent","error":"\u001b[31m\u009b\\u202e\u202e"}' > "$BATCHQ_RESULT"`)
	look(0, "", "enqueue", "j", "--item", "third")
	look(78, "", "work", "j", "--", control)
	look(78, "", "work", "j", "--", "./"+control, control)
	look(0, "", "work", "j", "--dry-run", "--", "echo", control, "{}")
	look(3, "", "enqueue", "j", "--item", control, "--scope", control)
	for _, args := range [][]string{{"dlq", "list"}, {"stats"}, {"runs", "list"}, {"doctor"}, {"show", "--job", "j"}, {"show", "--job", "j", "--json"}, {"dlq", "show", "1"}, {"dlq", "show", "1", "--json"},
		{"requeue", "--error", control, "--all", "--dry-run"}, {"dlq", "list", "--json"}, {"stats", "--json"}, {"runs", "list", "--json"}} {
		if r := s.batchq("", args...); r.code != 0 && r.code != 2 {
			t.Errorf("%v: %s", args, r)
		} else {
			harmless(t, strings.Join(args, " "), r.stdout+r.stderr)
		}
	}
	for _, row := range strings.Split(strings.TrimSuffix(look(0, "", "runs", "list").stdout, "\n"), "\n") {
		if strings.Count(row, "\t") != 8 {
			t.Errorf("not 9 cells: %q", row)
		}
	}
	// A configuration that says such things.
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\nlane = '\u202e\u009b'\n\"k\\u001by\" = 1\ntimeout = \"\\u001b[31m\"\n")
	for _, args := range [][]string{{"check"}, {"stats"}, {"work"}} {
		look(78, "", args...)
	}
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\nx = \x1b[31m\n")
	look(78, "", "check")
	s.must(os.Remove(filepath.Join(s.dir, "batchq.toml")))
	s.sound()
}

// What a job's environment holds in batchq.toml is nobody's to read: no command
// prints it, also when the file is broken right there, and the database does
// not have it. Only who asks dlq show for the whole command is told.
func TestSafety_Secrets(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const secret = "hunter2-s3cr3t"
	silent := func(code int, args ...string) {
		t.Helper()
		r := s.want(code, args...)
		if strings.Contains(r.stdout+r.stderr, secret) || strings.Contains(r.stdout+r.stderr, secret[:9]) {
			t.Errorf("batchq %v: %s", args, r)
		}
	}
	s.write("batchq.toml", "[jobs.j]\ncommand = [\"./job.sh\"]\nenv = { TOKEN = \""+secret+"\" }\n[jobs.broken]\ncommand = [\"./nothing\"]\nenv = { TOKEN = \""+secret+"\" }\n")
	s.write("job.sh", "#!/bin/sh\n[ \"$TOKEN\" = "+secret+" ] || exit 0\nexit 65\n")
	silent(0, "enqueue", "j", "--item", "a")
	silent(0, "enqueue", "broken", "--item", strings.Repeat("x", 1000))
	for _, args := range [][]string{{"check"}, {"check", "--json"}, {"work", "--dry-run", "-v"}, {"work", "--dry-run", "--json"}} {
		silent(0, args...)
	}
	silent(3, "work", "-v", "j")
	silent(78, "work", "-v", "broken")
	for _, args := range [][]string{{"stats"}, {"stats", "--json"}, {"dlq", "list"}, {"dlq", "list", "--json"}, {"runs", "list"}, {"runs", "list", "--json"}, {"doctor", "-v"}, {"doctor", "--json"}, {"show", "1"}, {"show", "--job", "j", "--json"}} {
		silent(0, args...)
	}
	if r := s.want(0, "dlq", "show", "1"); !strings.Contains(r.stdout, "TOKEN="+secret) {
		t.Errorf("the command can't be reproduced: %s", r)
	}
	files, err := filepath.Glob(filepath.Join(s.dir, "q.db*"))
	s.must(err)
	for _, path := range files {
		if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), secret) {
			t.Errorf("%s holds it (%v)", path, err)
		}
	}
	for _, env := range []string{
		"env = \"" + secret + "\"", "env = [\"" + secret + "\"]", "env = { TOKEN = [\"" + secret + "\"] }", "env = { TOKEN = \"" + secret + "\\u0000\" }",
		"env = { TOKEN = \"" + secret + " }", "env = { TOKEN = " + secret + " }", "env = { BATCHQ_X = \"" + secret + "\" }", "env = { \"A=B\" = \"" + secret + "\" }",
		"env = { TOKEN = \"" + secret + "\", TOKEN = \"" + secret + "2\" }", "env = { TOKEN = \"" + secret + "\\q\" }", "env = { TOKEN = '''" + secret + " }",
		"[jobs.j.env]\nTOKEN = " + secret, "[jobs.j.env]\nTOKEN \"" + secret + "\"", "[jobs.j.env]\nTOKEN.x = \"" + secret + "\"", "environment = { TOKEN = \"" + secret + "\" }",
	} {
		s.write("batchq.toml", "[jobs.j]\ncommand = [\"true\"]\n"+env+"\n")
		for _, args := range [][]string{{"check"}, {"work", "-v"}, {"stats"}} {
			silent(78, args...)
		}
	}
	s.must(os.Remove(filepath.Join(s.dir, "batchq.toml")))
	s.sound()
}
