package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"batchq/jobs"

	"github.com/google/go-cmp/cmp"
)

// parse reads text as /etc/app/batchq.toml.
func parse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("/etc/app/batchq.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func parseFile(t *testing.T, name string) *Config {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

func diff(t *testing.T, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestParse_Design(t *testing.T) {
	cfg := parseFile(t, "design.toml")
	diff(t, cfg.Path, "/etc/app/batchq.toml")
	diff(t, cfg.Database, "/etc/app/batchq.db")
	diff(t, cfg.Batch, 100)
	diff(t, cfg.Lease, time.Minute)
	diff(t, cfg.Pools, map[string]int{"db": 15})
	diff(t, cfg.Lanes, map[string]int{"serial": 1, "parallel": 2})
	diff(t, cfg.Names, []string{"settlement", "pos"})
	diff(t, cfg.Notes, []string(nil))
	diff(t, cfg.Jobs, map[string]*jobs.Spec{
		"settlement": {
			Name:    "settlement",
			Handler: jobs.Handler{Command: []string{"./settle.sh", "{key}"}, Dir: "/etc/app", Stdin: "payload", Source: "batchq.toml:14"},
			Lane:    "serial", Scope: "@today", Policy: jobs.DefaultPolicy(), Source: "batchq.toml:12",
		},
		"pos": {
			Name:    "pos",
			Handler: jobs.Handler{Command: []string{"./pos.sh", "{key}"}, Dir: "/etc/app", Stdin: "payload", Source: "batchq.toml:18"},
			Lane:    "parallel", Uses: map[string]int{"db": 7}, Policy: jobs.DefaultPolicy(), Source: "batchq.toml:15",
		},
	})
}

func TestParse_EveryKey(t *testing.T) {
	cfg := parseFile(t, "full.toml")
	diff(t, cfg.Database, "/var/lib/batchq/batchq.db")
	diff(t, cfg.Batch, 50)
	diff(t, cfg.Lease, 2*time.Minute)
	diff(t, cfg.Lanes, map[string]int{"serial": 1, "wide": 1})
	diff(t, cfg.Names, []string{"plain", "own", "eu.fees"})
	plain := jobs.Spec{
		Name: "plain",
		Handler: jobs.Handler{
			Command: []string{"/bin/true"}, Dir: "/etc/app/work", Stdin: "none", Source: "batchq.toml:42",
			Env: map[string]string{"TZ": "UTC", "LANG": "C"},
		},
		Lane: "wide", Uses: map[string]int{"db": 2}, InFlight: 3, Rate: jobs.Rate{Count: 20, Per: time.Second}, Scope: "eu-@today", Priority: -1,
		Policy: jobs.Policy{
			Timeout: 7 * 24 * time.Hour, KillAfter: 10 * time.Second, MaxAttempts: 5, MaxCrashes: 2,
			BackoffBase: time.Second, BackoffCap: time.Minute, RetryAfterCap: 2 * time.Hour, DeferCap: 7,
			Codes:   jobs.ExitCodes{Done: []int{3}, Retry: []int{75}, Permanent: []int{64, 65}, Otherwise: "permanent"},
			OnCrash: "dead",
			Breaker: jobs.Breaker{Failures: 4, Cooldown: 30 * time.Second},
		},
		Source: "batchq.toml:41",
	}
	diff(t, cfg.Jobs["plain"], &plain)
	diff(t, cfg.Jobs["own"], &jobs.Spec{
		Name: "own",
		Handler: jobs.Handler{
			Shell: `echo "$1"`, Dir: "/srv", Stdin: "payload", Source: "batchq.toml:45",
			Env: map[string]string{"TZ": "UTC", "LANG": "", "EXTRA": "x"}, // added to [defaults]
		},
		Lane: "serial", Uses: map[string]int{}, InFlight: 1, // uses: replaced
		Rate: jobs.Rate{Count: 3, Per: 10 * time.Second}, Scope: "fixed", Priority: 5,
		Policy: jobs.Policy{
			MaxAttempts: 1, MaxCrashes: 1,
			BackoffBase: time.Second, BackoffCap: 30 * time.Second, // one overridden, one not
			Codes:   jobs.ExitCodes{Retry: []int{75}, Permanent: []int{64, 65}, Otherwise: "done"},
			OnCrash: "retry",
			Breaker: jobs.Breaker{Failures: 0, Cooldown: 30 * time.Second}, // likewise
		},
		Source: "batchq.toml:44",
	})
	fees := cfg.Jobs["eu.fees"]
	diff(t, fees.Uses, map[string]int{"api": 3, "db": 4})
	diff(t, fees.Source, "batchq.toml:76")

	// What no job may do to another, or to the base: share a map or a list.
	cfg.Jobs["plain"].Handler.Env["TZ"] = "changed"
	cfg.Jobs["plain"].Policy.Codes.Retry[0] = 1
	plain.Name, plain.Source, plain.Handler.Source, plain.Handler.Command = "given", "", "", nil
	plain.Handler.Env = map[string]string{"TZ": "UTC", "LANG": "C"}
	plain.Policy.Codes.Retry = []int{75}
	diff(t, cfg.Base("given"), &plain)
}

// TOML has several ways to write the same tables; they must come to the same.
func TestParse_WaysOfWriting(t *testing.T) {
	want := parse(t, "[jobs.a]\nshell = 's'\n[jobs.a.backoff]\nbase = '2s'").Jobs["a"]
	for _, text := range []string{
		"jobs.a.shell = 's'\n\njobs.a.backoff.base = '2s'",
		"[jobs]\na = { shell = 's', backoff.base = '2s' }",
		"[jobs]\na.shell = 's'\na.backoff = { base = '2s' }",
		"jobs = { a = { shell = \"s\", backoff = { \"base\" = '''2s''' } } }",
		"[jobs.a.backoff]\r\nbase = '2s'\r\n[jobs.a]\r\nshell = 's'\r\n",
	} {
		got := parse(t, text).Jobs["a"]
		got.Source, got.Handler.Source = want.Source, want.Handler.Source
		diff(t, got, want)
	}
}

// The header of the job counts, not the first line that implies it.
func TestParse_SourceIsTheHeader(t *testing.T) {
	cfg := parse(t, "[jobs.a.backoff]\nbase = '2s'\n[jobs.a]\nshell = 's'")
	diff(t, cfg.Jobs["a"].Source, "batchq.toml:3")
	diff(t, cfg.Jobs["a"].CommandSource(), "batchq.toml:4")
	diff(t, cfg.Base("b").CommandSource(), "")
}

func TestParse_IntegersOfTOML(t *testing.T) {
	cfg := parse(t, "[pools]\na = 1_000\nb = 0x10\nc = +3")
	diff(t, cfg.Pools, map[string]int{"a": 1000, "b": 16, "c": 3})
}

func TestParse_RelativeName(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	cfg, err := Parse("sub/batchq.toml", []byte("database = '../x.db'\n[jobs.a]\nshell = 's'\ndir = 'd'"))
	if err != nil {
		t.Fatal(err)
	}
	diff(t, cfg.Path, filepath.Join(dir, "sub", "batchq.toml"))
	diff(t, cfg.Database, filepath.Join(dir, "x.db"))
	diff(t, cfg.Jobs["a"].Handler.Dir, filepath.Join(dir, "sub", "d"))
}

func TestParse_Empty(t *testing.T) {
	cfg := parse(t, "# nothing\n")
	diff(t, cfg.Lanes, map[string]int{"serial": 1})
	diff(t, cfg.Batch, jobs.DefaultBatch)
	diff(t, cfg.Lease, jobs.DefaultLease)
	diff(t, cfg.Base("x"), &jobs.Spec{Name: "x", Lane: "serial", Policy: jobs.DefaultPolicy(), Handler: jobs.Handler{Stdin: "payload"}})
}
