package config

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// FuzzParse: no text makes it panic; every fault has a line; what is accepted
// is TOML for the library too, and keeps the rules that later code relies on.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"testdata/design.toml", "testdata/full.toml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		"", "=", "[", "[[jobs.a]]\n", "a.b.c = { d = [1, {e = 2}] }\n[a]\n[a.b]\n", "[jobs.a]\nuses = { db = 1 }\n[lanes.x]\n",
		"pools = { a = 1, 'b' = 0x2 }\n\"\\u0000\" = '''\n'''\n", "[jobs.a.backoff]\nbase = '1d'\n[jobs.a]\nlane = 'x'\nshell = \"\"\"s\"\"\"\n", "\xff",
		"[jobs.a.http]\nurl = 'https://h/{key}'\nheaders = { X = 'env:T' }\nbody = '{\"a\": {.b}}'\n", "[jobs.a]\nhttp.url = 'http://{key}@h#'\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("/c/batchq.toml", data)
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("no faults but %v", err)
			}
			last := 1
			for _, fault := range faults {
				if fault.Line < last || fault.Reason == "" {
					t.Fatalf("line or order or reason is missing: %#v", fault)
				}
				last = fault.Line
			}
			return
		}
		var whole map[string]any
		if err := toml.Unmarshal(data, &whole); err != nil {
			t.Fatalf("accepted, but no TOML: %v", err)
		}
		if cfg.Batch < 1 || cfg.Lease <= 0 || cfg.Lanes["serial"] != 1 || len(cfg.Names) != len(cfg.Jobs) {
			t.Fatalf("%+v", cfg)
		}
		for name, spec := range cfg.Jobs {
			if cfg.Lanes[spec.Lane] < 1 || CheckName(name) != nil || spec.Policy.Validate() != nil {
				t.Fatalf("job %q: %+v", name, spec)
			}
			handlers := 0
			for _, given := range []bool{len(spec.Handler.Command) > 0, spec.Handler.Shell != "", spec.Handler.HTTP != nil} {
				if given {
					handlers++
				}
			}
			if handlers != 1 {
				t.Fatalf("job %q has not one handler: %+v", name, spec.Handler)
			}
			for pool, uses := range spec.Uses {
				if uses < 1 || uses > cfg.Pools[pool] {
					t.Fatalf("job %q uses %d of %q", name, uses, pool)
				}
			}
		}
	})
}

// FuzzExpandScope: no scope makes it panic; what has its @ doubled comes out as
// it was; what is expanded holds the words of its time and nothing else new.
func FuzzExpandScope(f *testing.F) {
	f.Add("@today", int64(0))
	f.Add("a@@b@hour-@yesterday@", int64(1<<40))
	f.Add("@today2 @@@hour\x00\xff", int64(-1<<40))
	f.Fuzz(func(t *testing.T, s string, at int64) {
		now := time.Unix(at%(1<<38), 0).UTC()
		literal := strings.ReplaceAll(s, "@", "@@")
		if got, err := ExpandScope(literal, now); err != nil || got != s {
			t.Fatalf("%q is expanded to %q, %v", literal, got, err)
		}
		got, err := ExpandScope(s, now)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400 {
				t.Fatalf("an error that can't be shown: %q", err)
			}
			return
		}
		// Word by word, the longest first; what is left of @ is doubled.
		const mark = "\x00at\x00"
		want := strings.ReplaceAll(s, "@@", mark)
		for _, word := range []string{"yesterday", "today", "hour"} {
			text, err := ExpandScope("@"+word, now)
			if err != nil {
				t.Fatal(err)
			}
			want = strings.ReplaceAll(want, "@"+word, text)
		}
		if want = strings.ReplaceAll(want, mark, "@"); got != want && !strings.Contains(s, "\x00") {
			t.Fatalf("%q is expanded to %q, want %q", s, got, want)
		}
	})
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1d12h")
	f.Add("-.5d9223372036854775807ns")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		// What it prints it must read again.
		if again, err := ParseDuration(d.String()); err != nil || again != d {
			t.Fatalf("%q is %v, which is read as %v, %v", s, d, again, err)
		}
	})
}

// FuzzShellWord: a shell reads of a quoted word what it was made of, and
// nothing else of it.
func FuzzShellWord(f *testing.F) {
	for _, s := range []string{"", "/etc/batchq.toml", "a'b", "$(x)`y`\n", "-rf", "~/x", "\x1b\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := s
		if strings.HasPrefix(s, "-") {
			want = "./" + s
		}
		if got, ok := unquoted(shellWord(s)); !ok || got != want {
			t.Fatalf("%q is written as %s, which a shell reads as %q, %v", s, shellWord(s), got, ok)
		}
	})
}

// unquoted reads one word as POSIX says (2.2 Quoting); false where it holds
// anything that a shell would act on.
func unquoted(word string) (string, bool) {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
			b.WriteByte(c)
		case c == '\\' && i+1 < len(word):
			i++
			b.WriteByte(word[i])
		case c >= 0x80 || strings.IndexByte("|&;<>()$`\\\"' \t\n*?[]#~=!{}^\r", c) >= 0 || c < 0x20:
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), !quoted && word != ""
}
