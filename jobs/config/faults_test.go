package config

import (
	"errors"
	"strings"
	"testing"
)

// job is a job that is sound, for cases that are about something else.
const job = "[jobs.a]\nshell = 's'\n"

// TestParse_Faults pins every rule by its exact message. The text of a case
// begins on line 1; want is what follows "batchq.toml:" on each line.
func TestParse_Faults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		// TOML itself.
		{"syntax", "[pools]\ndb =\n", "2: not valid TOML: unexpected character U+000A at start of value"},
		{"syntax at the end", "[pools]\ndb = \"x", "2: not valid TOML: unterminated basic string"},
		{"only the syntax is told", "x = 1\nx = 2\n[", "3: not valid TOML: expected key but reached end of input"},
		{"UTF-8", "# ok\n# \xff\n", "2: not valid UTF-8"},
		{"UTF-8 after a replacement character", "# \uFFFD\n# \xff\n", "2: not valid UTF-8"},
		{"job twice", job + "[jobs.a]\nshell = 't'\n", "3: jobs.a: declared twice: first on line 1"},
		{"lane twice", "[lanes.x]\nin_flight = 1\n[lanes.x]\nin_flight = 2\n", "3: lanes.x: declared twice: first on line 1"},
		{"table twice", "[pools]\na = 1\n[pools]\nb = 1\n", "3: pools: declared twice: first on line 1"},
		{"table and dotted key", "pools.a = 1\n[pools]\nb = 1\n", "2: pools: declared twice: first on line 1"},
		{"table into inline table", "lanes = {}\n[lanes.x]\nin_flight = 1\n", "2: lanes: declared twice: first on line 1"},
		{"dotted key into inline table", "pools = { a = 1 }\npools.b = 1\n", "2: pools: declared twice: first on line 1"},
		{"dotted key into a table", "[jobs.a.env]\nX = 'y'\n[jobs.a]\nshell = 's'\nenv.Z = 'z'\n", "5: jobs.a.env: declared twice: first on line 1"},
		{"key twice", "[pools]\na = 1\na = 2\n", "3: pools.a: declared twice: first on line 2"},
		{"key twice in an inline table", "pools = { a = 1, a = 2 }\n", "1: pools.a: declared twice: first on line 1"},
		{"array of tables", "[[jobs.a]]\nshell = 's'\n", "1: jobs.a: is an array of tables: write one pair of brackets, not two"},

		// Unknown keys.
		{"unknown at the top", "databse = 'x'\n", `1: databse: unknown key (did you mean "database"?)`},
		{"unknown table", "[job.a]\nshell = 's'\n", `1: job: unknown key (did you mean "jobs"?)`},
		{"unknown in a job", job + "time_out = '1h'\n", `3: jobs.a.time_out: unknown key (did you mean "timeout"?)`},
		{"unknown flattened", job + "backoff_base = '1s'\n", `3: jobs.a.backoff_base: unknown key (did you mean "backoff.base"?)`},
		{"dotted key in quotes", job + "'backoff.base' = '1s'\n", `3: jobs.a."backoff.base": unknown key (did you mean "backoff.base"?)`},
		{"unknown in a group", job + "backoff.max = '1s'\n", `3: jobs.a.backoff.max: unknown key`},
		{"unknown in a lane", "[lanes.x]\ninflight = 2\n", `2: lanes.x.inflight: unknown key (did you mean "in_flight"?)`},
		{"unknown and far from all", job + "colour = 'red'\n", "3: jobs.a.colour: unknown key"},
		{"unknown with odd bytes", job + "\"a\\u001bb\" = 1\n", `3: jobs.a."a\x1bb": unknown key`},
		{"group that is none", job + "backoff = '1s'\n", "3: jobs.a.backoff: is a string: want a table"},
		{"job with a dot", "[jobs.eu.fees]\nshell = 's'\n", "1: jobs.eu.fees: unknown key (a job whose name has a dot is written [jobs.\"eu.fees\"])"},
		{"handler in defaults", "[defaults]\nshell = 's'\n", "2: defaults.shell: unknown key here: it belongs in [jobs.NAME]"},
		{"batch in a job", job + "batch = 5\n", "3: jobs.a.batch: unknown key here: it belongs in [defaults]"},
		{"a job's key at the top", "timeout = '1h'\n", "1: timeout: unknown key here: it belongs in [defaults] or [jobs.NAME]"},

		// Types.
		{"string", "database = 3\n", "1: database: is an integer: want a string"},
		{"integer", "[defaults]\nbatch = '5'\n", "2: defaults.batch: is a string: want an integer"},
		{"integer, not float", "[defaults]\nbatch = 5.0\n", "2: defaults.batch: is a float: want an integer"},
		{"integer too large", "[defaults]\nbatch = 99999999999999999999\n", `2: defaults.batch: "99999999999999999999" is no integer, or too large a one`},
		{"boolean", "[pools]\ndb = true\n", "2: pools.db: is a boolean: want an integer"},
		{"date", "[pools]\ndb = 2026-11-29\n", "2: pools.db: is a date or time: want an integer"},
		{"section", "jobs = 3\n", "1: jobs: is an integer: want a table"},
		{"sections", "defaults = 1\npools = 2\nlanes = 3\n", "1: defaults: is an integer: want a table\n2: pools: is an integer: want a table\n3: lanes: is an integer: want a table"},
		{"job", "[jobs]\na = 'x'\n", "2: jobs.a: is a string: want a table"},
		{"lane", "[lanes]\nx = 3\n", "2: lanes.x: is an integer: want a table"},
		{"array", "[jobs.a]\ncommand = 'x'\n", "2: jobs.a.command: is a string: want an array"},
		{"array item", "[jobs.a]\ncommand = [\n 'x',\n 3,\n]\n", "4: jobs.a.command: item 2 is an integer: want a string"},
		{"array in array", "[jobs.a]\ncommand = [['x']]\n", "2: jobs.a.command: item 1 is an array: want a string"},
		{"duration without unit", "[defaults]\nlease = 60\n", `2: defaults.lease: 60 has no unit: write a string like "60s"`},
		{"age without unit", "[defaults]\nkeep_done = 30\n", `2: defaults.keep_done: 30 has no unit: write a string like "30d"`},
		{"age text without unit", "[defaults]\nkeep_done = '30'\n", `2: defaults.keep_done: "30" has no unit: write "30d" for days`},
		{"duration text without unit", "[defaults]\nlease = '60'\n", `2: defaults.lease: "60" has no unit: write "60s"`},
		{"duration", job + "timeout = 'soon'\n", `3: jobs.a.timeout: "soon" is not a duration: write one like "500ms", "60s", "1h30m" or "7d"`},
		{"duration of another type", job + "timeout = 1.5\n", "3: jobs.a.timeout: is a float: want a string"},
		{"rate", job + "rate = 'x'\n", `3: jobs.a.rate: "x" is no rate: write one like "20/s", "90/m", "1000/h" or "3/10s"`},
		{"rate without a time", job + "rate = 5\n", `3: jobs.a.rate: 5 of what time: write a string like "5/s"`},
		{"rate that no time would help", job + "rate = -5\n", "3: jobs.a.rate: is an integer: want a string"},
		{"rate 0", job + "rate = '0/s'\n", `3: jobs.a.rate: rate "0/s": the number must be 1 or more (pause holds a job back altogether)`},
		{"rate empty", "[defaults]\nrate = ''\n", `2: defaults.rate: "" is no rate: write one like "20/s", "90/m", "1000/h" or "3/10s"`},
		{"rate too long to repeat", job + "rate = '" + strings.Repeat("9", 99) + "/s'\n", `3: jobs.a.rate: "` + strings.Repeat("9", 60) + `"… is no rate`},
		{"rate in a lane", "[lanes.x]\nin_flight = 1\nrate = '5/s'\n", "3: lanes.x.rate: unknown key here: it belongs in [defaults] or [jobs.NAME]"},
		{"NUL", "[jobs.a]\nshell = \"a\\u0000b\"\n", "2: jobs.a.shell: has a NUL byte, which no argument, path or variable can hold"},

		// Numbers.
		{"batch 0", "[defaults]\nbatch = 0\n", "2: defaults.batch: 0 is less than 1"},
		{"batch huge", "[defaults]\nbatch = 1000001\n", "2: defaults.batch: 1000001 is more than 1000000"},
		{"lease 0", "[defaults]\nlease = '0'\n", `2: defaults.lease: "0" is not longer than 0`},
		{"lease negative", "[defaults]\nlease = '-1s'\n", `2: defaults.lease: "-1s" is not longer than 0`},
		{"pool 0", "[pools]\ndb = 0\n", "2: pools.db: 0 is less than 1"},
		{"pool negative", "[pools]\ndb = -3\n", "2: pools.db: -3 is less than 1"},
		{"lane negative", "[lanes.x]\nin_flight = -2\n", "2: lanes.x.in_flight: -2 is less than 1"},
		{"job in_flight 0", job + "in_flight = 0\n", "3: jobs.a.in_flight: 0 is less than 1"},
		{"in_flight of [defaults] 0", "[defaults]\nin_flight = 0\n", "2: defaults.in_flight: 0 is less than 1"},
		{"lane 0", "[lanes.x]\nin_flight = 0\n", "2: lanes.x.in_flight: 0 is less than 1"},
		{"in_flight of [defaults] negative", "[defaults]\nin_flight = -1\n", "2: defaults.in_flight: -1 is less than 1"},
		{"job in_flight negative", job + "in_flight = -1\n", "3: jobs.a.in_flight: -1 is less than 1"},
		{"priority", job + "priority = 1000001\n", "3: jobs.a.priority: 1000001 is more than 1000000"},
		{"priority low", job + "priority = -1000001\n", "3: jobs.a.priority: -1000001 is less than -1000000"},

		// Names.
		{"job name", "[jobs.\"a b\"]\nshell = 's'\n", `1: jobs."a b": "a b" is no name: only letters (a to z), digits and _-. make one`},
		{"job name empty", "[jobs.\"\"]\nshell = 's'\n", `1: jobs."": a name can't be empty`},
		{"job name like an option", "[jobs.-a]\nshell = 's'\n", `1: jobs.-a: "-a" is no name: it must begin with a letter, a digit or _`},
		{"job name like a directory", "[jobs.\"..\"]\nshell = 's'\n", `1: jobs."..": ".." is no name: it must begin with a letter, a digit or _`},
		{"pool name", "[pools]\n\"ä\" = 1\n", `2: pools."ä": "ä" is no name: only letters (a to z), digits and _-. make one`},
		{"lane name", "[lanes.\"x/y\"]\nin_flight = 1\n", `1: lanes."x/y": "x/y" is no name: only letters (a to z), digits and _-. make one`},
		{"lane of a job", job + "lane = ''\n", "3: jobs.a.lane: a name can't be empty"},
		{"long name", "[pools]\n" + strings.Repeat("x", 101) + " = 1\n", `2: pools."` + strings.Repeat("x", 60) + `"…: a name of 101 bytes is too long: at most 100`},

		// Pools.
		{"unknown pool", "[pools]\ndb = 15\n" + job + "uses = { bd = 7 }\n", `5: jobs.a.uses.bd: no pool is called "bd" (did you mean "db"?)`},
		{"unknown pool, near", "[pools]\ndatabase = 15\n" + job + "uses = { datbase = 7 }\n", `5: jobs.a.uses.datbase: no pool is called "datbase" (did you mean "database"?)`},
		{"no pool at all", job + "uses = { db = 7 }\n", `3: jobs.a.uses.db: no pool is declared: write db = SIZE under [pools]`},
		{"larger than its pool", "[pools]\ndb = 15\n" + job + "uses = { db = 20 }\n", "5: jobs.a.uses.db: 20 is more than the pool holds (15)"},
		{"uses 0", "[pools]\ndb = 15\n" + job + "uses = { db = 0 }\n", "5: jobs.a.uses.db: 0 is less than 1"},
		{"uses negative", "[pools]\ndb = 15\n" + job + "uses = { db = -7 }\n", "5: jobs.a.uses.db: -7 is less than 1"},
		{"uses is no table", job + "uses = 3\n", "3: jobs.a.uses: is an integer: want a table"},
		{"a pool at fault blames no user", "[pools]\ndb = -1\n[lanes.x]\n" + job + "lane = 'x'\nuses = { db = 7 }\n", "2: pools.db: -1 is less than 1"},
		{"uses in defaults is told once", "[defaults]\nuses = { db = 7 }\n" + job + "[jobs.b]\nshell = 's'\n", `2: defaults.uses.db: no pool is declared: write db = SIZE under [pools]`},

		// Lanes.
		{"serial is 1", "[lanes.serial]\nin_flight = 4\n", "2: lanes.serial.in_flight: serial always holds 1: declare a lane of another name for 4"},
		{"nothing to work out from", "[lanes.x]\n" + job + "lane = 'x'\n", "1: lanes.x: in_flight can't be worked out, because no job of this lane uses a pool: write in_flight = NUMBER"},
		{"nothing worth working out", "[pools]\ndb = 1\n[lanes.x]\n" + job + "lane = 'x'\nuses = { db = 2 }\n", "7: jobs.a.uses.db: 2 is more than the pool holds (1)"},

		// Handlers.
		{"no handler, implied job", "[jobs.a.backoff]\nbase = '1s'\n", `1: jobs.a: has nothing to run: write command = ["PROGRAM", "{key}"] or shell = "TEXT"`},
		{"no handler, implied and empty", "[jobs.a.backoff]\n", `1: jobs.a: has nothing to run: write command = ["PROGRAM", "{key}"] or shell = "TEXT"`},
		{"no handler", "[jobs.a]\n", `1: jobs.a: has nothing to run: write command = ["PROGRAM", "{key}"] or shell = "TEXT"`},
		{"both handlers", "[jobs.a]\nshell = 's'\ncommand = ['c']\n", "3: jobs.a.command: shell is given too (line 2): a job has one of them"},
		{"both handlers, other order", "[jobs.a]\ncommand = ['c']\nshell = 's'\n", "3: jobs.a.shell: command is given too (line 2): a job has one of them"},
		{"empty command", "[jobs.a]\ncommand = []\n", "2: jobs.a.command: has no program: its first string must name one"},
		{"empty program", "[jobs.a]\ncommand = ['', 'x']\n", "2: jobs.a.command: has no program: its first string must name one"},
		{"empty shell", "[jobs.a]\nshell = ''\n", "2: jobs.a.shell: is empty"},
		{"stdin", job + "stdin = 'payloads'\n", `3: jobs.a.stdin: "payloads": want "payload" or "none" (did you mean "payload"?)`},
		{"dir empty", job + "dir = ''\n", "3: jobs.a.dir: is empty"},
		{"dir with a tilde", job + "dir = '~/x'\n", `3: jobs.a.dir: "~/x": ~ is not expanded here: write the whole path`},
		{"env name", job + "env = { 'A=B' = 'x' }\n", `3: jobs.a.env."A=B": is no name for a variable (empty, or has a blank, = or a NUL byte)`},
		{"env name empty", job + "env = { '' = 'x' }\n", `3: jobs.a.env."": is no name for a variable (empty, or has a blank, = or a NUL byte)`},
		{"env name with a blank", job + "env = { 'A B' = 'x' }\n", `3: jobs.a.env."A B": is no name for a variable (empty, or has a blank, = or a NUL byte)`},
		{"env of ours", job + "env = { BATCHQ_KEY = 'x' }\n", "3: jobs.a.env.BATCHQ_KEY: names that begin with BATCHQ_ are set by batchq itself"},
		{"env value", job + "env = { A = 1 }\n", "3: jobs.a.env.A: is an integer: want a string"},
		{"scope", job + "scope = '@tomorrow'\n", `3: jobs.a.scope: no scope word is called "@tomorrow": want @today, @yesterday or @hour, or @@ for a literal @`},

		// What jobs.Policy.Validate knows, on the line of the key that it is about.
		{"policy", job + "max_attempts = 0\n", "3: jobs.a: max_attempts 0 is less than 1"},
		{"policy in defaults is told once", "[defaults]\nmax_attempts = 0\n" + job, "2: defaults: max_attempts 0 is less than 1"},
		{"backoff of two tables", "[defaults]\nbackoff.cap = '1m'\n" + job + "backoff.base = '2m'\n", "5: jobs.a: backoff.cap 1m0s is less than backoff.base 2m0s"},
		{"breaker", job + "breaker = { failures = -1, cooldown = '0' }\n", "3: jobs.a: breaker.failures -1 is negative (0 means never)\n3: jobs.a: breaker.cooldown 0s is not positive"},
		{"breaker in defaults is told once", "[defaults]\nbreaker.failures = -1\n" + job, "2: defaults: breaker.failures -1 is negative (0 means never)"},
		{"breaker, negative cooldown", job + "[jobs.a.breaker]\nfailures = 3\ncooldown = '-1s'\n", "5: jobs.a: breaker.cooldown -1s is not positive"},
		{"unknown in breaker", job + "breaker.failure = 3\n", `3: jobs.a.breaker.failure: unknown key (did you mean "failures"?)`},
		{"timeout", job + "timeout = '-1s'\n", "3: jobs.a: timeout -1s is negative (0 means none)"},
		{"exit code", job + "exit_codes.done = [0]\n", "3: jobs.a: exit_codes.done: 0 is no exit code (1 to 255; 0 is always done)"},
		{"exit code of two meanings", job + "exit_codes.done = [75]\n", "3: jobs.a: exit code 75 is in exit_codes.done and exit_codes.retry"},
		{"exit code type", job + "exit_codes.done = [1, 'x']\n", "3: jobs.a.exit_codes.done: item 2 is a string: want an integer"},
		{"otherwise", job + "exit_codes.otherwise = 'maybe'\n", `3: jobs.a: exit_codes.otherwise is "maybe": want "done", "retry" or "permanent"`},
		{"on_crash", job + "on_crash = 'drop'\n", `3: jobs.a: on_crash is "drop": want "retry" or "dead"`},

		// All at once, in line order, whatever the order of the checks.
		{"all", "[jobs.a]\ntimeout = 5\nuses = { db = 9 }\n[lanes.x]\n[pools]\ndb = 8\napi = 0\n", `1: jobs.a: has nothing to run: write command = ["PROGRAM", "{key}"] or shell = "TEXT"
2: jobs.a.timeout: 5 has no unit: write a string like "5s"
3: jobs.a.uses.db: 9 is more than the pool holds (8)
4: lanes.x: in_flight can't be worked out, because no job of this lane uses a pool: write in_flight = NUMBER
7: pools.api: 0 is less than 1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := Parse("conf/batchq.toml", []byte(c.text))
			var faults Faults
			if !errors.As(err, &faults) {
				t.Fatalf("no faults but %v", err)
			}
			if cfg != nil {
				t.Error("a file with faults gave a configuration")
			}
			want := "conf/batchq.toml:" + strings.ReplaceAll(c.want, "\n", "\nconf/batchq.toml:")
			if got := err.Error(); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}
