package cmd

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"batchq/store"
)

// strangeKeys are keys of every byte that a key can have, and such as would be
// something else in a path, a shell, a terminal, a table or an option.
func strangeKeys() []string {
	var keys []string
	step := 1
	if testing.Short() {
		step = 7
	}
	for b := 1; b < 256; b += step {
		keys = append(keys, string([]byte{'k', byte(b), '.'}), string([]byte{byte(b)}))
	}
	keys = append(keys, "../../x", "/etc/passwd", "..", "../", "./..", strings.Repeat("n", 300), strings.Repeat("../", 100), "line\nbreak\n", "\n",
		"$(touch owned);`touch owned`", "; touch owned #", "| touch owned", "' ; touch owned ; '", "\" ; touch owned ; \"", "a&&touch owned",
		"-rf", "--", "--help", "{}", "{key}", "{.x}{attempt}", "%s%n", "\\", "~", "*", "a=b", "!!",
		"\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "\x1bP1$r\x1b\\", "\u009b2J", "\u009d0;t\u009c", "over\rwrite", "b\x08\x08\x08", "\u202egnp.exe", "\u2066x\u2069", "\u2028\u2029",
		"\ufeff", "\u00ad", "tag\U000e0041", "\xff\xfe", "caf\xe9", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "tab\tin\tit", ",\";\n", " lead", "trail ", "\r\n")
	slices.Sort(keys)
	return slices.Compact(keys)
}

// harmless fails the test where text for people or tables holds what a
// terminal could act on.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	for i, c := range text {
		raw := c == utf8.RuneError && text[i] != "\ufffd"[0]
		if raw || c != '\n' && c != '\t' && c != '\u200d' && c != '\u200c' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("%s: %q at byte %d of\n%q", what, c, i, text[max(0, i-100):min(len(text), i+100)])
			return
		}
	}
}

// Keys of any bytes reach the command whole, in arguments, shell text's "$1"
// and environment; no shell reads them; no file name is made of them; lists
// show them harmlessly, one item a line, and JSON gives them back.
func TestExtremes_Keys(t *testing.T) {
	t.Parallel()
	s := setup(t)
	keys := strangeKeys()
	c := s.command("enqueue", "j", "-0")
	c.Stdin = strings.NewReader(strings.Join(keys, "\x00"))
	s.expect(s.result(c), 0, "enqueue -0")
	c = s.command("enqueue", "shell", "-0", "--scope", "\x1b[31ms\tcope\n\xff")
	c.Stdin = strings.NewReader(strings.Join(keys, "\x00"))
	s.expect(s.result(c), 0, "enqueue -0 --scope")
	s.write("echo.sh", "#!/bin/sh\nprintf '%s\\0' \"$@\" \"$BATCHQ_KEY\" >> seen.$BATCHQ_JOB\nprintf '%s' \"$1\"\nprintf '\\033[31m\\233why %s' \"$1\" >&2\nexit 65\n")
	s.write("batchq.toml", `database = "q.db"
[jobs.j]
command = ["./echo.sh", "{}", "<{key}|{attempt}>"]
[jobs.shell]
shell = './echo.sh "$1" "<$1|1>"'
`)
	before := s.tree()
	work := s.want(3, "work", "-v", "--log-dir", "logs/today")
	harmless(t, "work -v, stdout", work.stdout)
	harmless(t, "work -v, stderr", work.stderr)

	// What the commands were given.
	for _, job := range []string{"j", "shell"} {
		seen := strings.Split(strings.TrimSuffix(s.file("seen."+job), "\x00"), "\x00")
		var got []string
		for words := range slices.Chunk(seen, 3) {
			if len(words) != 3 || words[2] != words[0] || words[1] != "<"+words[0]+"|1>" {
				t.Fatalf("job %s: arguments and $BATCHQ_KEY %q", job, words)
			}
			got = append(got, words[0])
		}
		if slices.Sort(got); !slices.Equal(got, keys) {
			t.Errorf("job %s: %d keys were worked, want %d, or others", job, len(got), len(keys))
		}
	}

	// What was written: a log for each attempt, named by numbers, and nothing
	// of the items' making.
	after := s.tree()
	logs := 0
	for _, path := range after {
		switch {
		case slices.Contains(before, path):
		case regexp.MustCompile(`^logs/today/(j|shell)/[0-9]+-1\.log$`).MatchString(path):
			logs++
		case !slices.Contains([]string{"logs", "logs/today", "logs/today/j", "logs/today/shell", "seen.j", "seen.shell"}, path):
			t.Errorf("%q was made", path)
		}
	}
	if logs != 2*len(keys) {
		t.Errorf("%d logs, want %d", logs, 2*len(keys))
	}

	s.showsStrange(keys)
	s.selectsStrange(keys)
	s.tidy()
}

// showsStrange looks at every list that shows the keys.
func (s *site) showsStrange(keys []string) {
	s.Helper()
	for _, args := range [][]string{{"dlq", "list"}, {"dlq", "list", "--class", "permanent"}, {"stats"}, {"runs", "list"}, {"doctor"}, {"work", "-v", "--dry-run"}} {
		r := s.batchq("", args...)
		harmless(s.T, strings.Join(args, " ")+", stdout", r.stdout)
		harmless(s.T, strings.Join(args, " ")+", stderr", r.stderr)
	}
	list := s.want(0, "dlq", "list").stdout
	rows := strings.Split(strings.TrimSuffix(list, "\n"), "\n")
	if len(rows) != 2*len(keys) {
		s.Errorf("dlq list has %d lines, want %d", len(rows), 2*len(keys))
	}
	for _, row := range rows {
		if strings.Count(row, "\t") != 7 {
			s.Errorf("%d cells in %q", strings.Count(row, "\t")+1, row)
		}
	}
	var doc struct {
		Items []struct {
			Job    string
			Key    string `json:"key"`
			Base64 string `json:"key_base64"`
		}
	}
	text := s.want(0, "dlq", "list", "--json").stdout
	harmless(s.T, "dlq list --json", text)
	s.must(json.Unmarshal([]byte(text), &doc))
	var got []string
	for _, it := range doc.Items {
		key := it.Key
		if it.Base64 != "" {
			whole, err := base64.StdEncoding.DecodeString(it.Base64)
			s.must(err)
			key = string(whole)
		}
		if (it.Base64 != "") == utf8.ValidString(key) {
			s.Errorf("%q: key_base64 is there only where the key is no UTF-8", key)
		}
		if it.Job == "j" {
			got = append(got, key)
		}
	}
	if slices.Sort(got); !slices.Equal(got, keys) {
		s.Errorf("dlq list --json has other keys: %d, want %d", len(got), len(keys))
	}
}

// selectsStrange names items by their keys.
func (s *site) selectsStrange(keys []string) {
	s.Helper()
	n := 0
	for _, key := range keys {
		if len(key) == 1 || strings.HasPrefix(key, "k") && len(key) == 3 && key[1] != '\n' {
			continue // one process a key is enough for those that mean something
		}
		r := s.want(0, "requeue", "--job", "j", "--key="+key)
		if r.stdout != "requeued 1\n" {
			s.Errorf("requeue of %q: %s", key, r)
		}
		if n++; testing.Short() && n > 10 {
			break
		}
	}
	for _, args := range [][]string{{"drop", "--key", "no\x1b[31m\xff\tsuch"}, {"enqueue", "no\x1b[31m\xff"}, {"dlq", "list", "\x1b]0;x\a"}, {"work", "\u202ej"}, {"stats", "--\x1b[2J"}, {"\u009b2J"}} {
		r := s.batchq("", args...)
		harmless(s.T, strings.Join(args, " "), r.stdout+r.stderr)
	}
	for _, it := range s.items(store.Selection{Jobs: []string{"shell"}})[:1] {
		if it.Scope != "\x1b[31ms\tcope\n\xff" {
			s.Errorf("scope %q", it.Scope)
		}
	}
}

// tree lists everything in the site, apart from the database and its side files.
func (s *site) tree() (paths []string) {
	s.Helper()
	s.must(filepath.WalkDir(s.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path, err = filepath.Rel(s.dir, path); err == nil && path != "." && !strings.HasPrefix(path, "q.db") && !strings.HasPrefix(path, ".q.db") {
			paths = append(paths, path)
		}
		return err
	}))
	return paths
}
