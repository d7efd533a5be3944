package config

import (
	"errors"
	"os"
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
			if (len(spec.Handler.Command) > 0) == (spec.Handler.Shell != "") {
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

func FuzzExpandScope(f *testing.F) {
	f.Add("@today")
	f.Add("a@@b@hour-@yesterday@")
	f.Fuzz(func(t *testing.T, s string) { _, _ = ExpandScope(s, time.Unix(0, 0).UTC()) })
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
