package config

import "testing"

func TestLanes_WorkedOut(t *testing.T) {
	cfg := parse(t, `
[pools]
db = 15
api = 4
[lanes.parallel]
[lanes.wide]
in_flight = 4
[jobs.pos]
shell = "s"
lane = "parallel"
uses = { db = 7 }
[jobs.light]
shell = "s"
lane = "parallel"
uses = { db = 2, api = 1 }
[jobs.bare]
shell = "s"
lane = "wide"
[jobs.one]
shell = "s"
uses = { db = 3 }
`)
	diff(t, cfg.Lanes, map[string]int{"serial": 1, "parallel": 2, "wide": 4})
	diff(t, cfg.Notes, []string(nil))
	diff(t, cfg.Arithmetic(), []LaneLimit{
		{Lane: "serial", InFlight: 1, Shares: []Share{{Pool: "db", Size: 15, Uses: 3, Job: "one", Fits: 5}}},
		{Lane: "parallel", InFlight: 2, Source: "batchq.toml:5", Shares: []Share{
			{Pool: "api", Size: 4, Uses: 1, Job: "light", Fits: 4},
			{Pool: "db", Size: 15, Uses: 7, Job: "pos", Fits: 2},
		}},
		{Lane: "wide", InFlight: 4, Declared: true, Source: "batchq.toml:6"},
	})
	var lines []string
	for _, l := range cfg.Arithmetic() {
		lines = append(lines, l.Head())
		for _, share := range l.Shares {
			lines = append(lines, share.String())
		}
	}
	diff(t, lines, []string{
		"lane serial: 1 in flight, always",
		"db 15 ÷ 3 (one) = 5",
		"lane parallel: 2 in flight, worked out from the pools",
		"api 4 ÷ 1 (light) = 4",
		"db 15 ÷ 7 (pos) = 2",
		"lane wide: 4 in flight, as declared",
	})
}

// The lane's uses may come from [defaults] as well.
func TestLanes_WorkedOutFromDefaults(t *testing.T) {
	cfg := parse(t, "[defaults]\nuses = { db = 5 }\nlane = 'x'\n[pools]\ndb = 15\n[lanes.x]\n"+job)
	diff(t, cfg.Lanes, map[string]int{"serial": 1, "x": 3})
	diff(t, cfg.Base("b").Lane, "x")
}

func TestLanes_Notes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"limit above the pool", "[pools]\ndb = 15\n[lanes.x]\nin_flight = 8\n" + job + "lane = 'x'\nuses = { db = 7 }\n", []string{
			`lane "x": 8 in flight × 7 of pool "db" (job "a") = 56, and the pool holds 15: at most 2 of these run at once (batchq.toml:4)`,
		}},
		{"limit fills the pool", "[pools]\ndb = 14\n[lanes.x]\nin_flight = 2\n" + job + "lane = 'x'\nuses = { db = 7 }\n", nil},
		{"undeclared lane", job + "lane = 'fast'\n", []string{
			`job "a": lane "fast" is not declared, so it runs in serial (batchq.toml:3)`,
		}},
		{"undeclared lane, near", "[lanes.parallel]\nin_flight = 2\n" + job + "lane = 'paralel'\n", []string{
			`job "a": lane "paralel" is not declared (did you mean "parallel"?), so it runs in serial (batchq.toml:5)`,
		}},
		{"undeclared lane of defaults", "[defaults]\nlane = 'fast'\n" + job, []string{
			`job "a": lane "fast" is not declared, so it runs in serial (batchq.toml:2)`,
		}},
		{"limit of a job above its lane's", job + "in_flight = 4\n", []string{
			`job "a": in_flight is 4, but its lane "serial" holds 1 (batchq.toml:3)`,
		}},
		{"limit in defaults above a lane's", "[defaults]\nin_flight = 4\n" + job, nil},
		{"in line order", job + "in_flight = 4\nlane = 'fast'\n[jobs.b]\nshell = 's'\nlane = 'quick'\n", []string{
			`job "a": in_flight is 4, but its lane "serial" holds 1 (batchq.toml:3)`,
			`job "a": lane "fast" is not declared, so it runs in serial (batchq.toml:4)`,
			`job "b": lane "quick" is not declared, so it runs in serial (batchq.toml:7)`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) { diff(t, parse(t, c.text).Notes, c.want) })
	}
}

func TestLanes_Undeclared(t *testing.T) {
	cfg := parse(t, job+"lane = 'fast'\n[jobs.b]\nshell = 's'\n[jobs.c]\nshell = 's'\nlane = 'fast'\n")
	diff(t, cfg.Undeclared, map[string][]string{"fast": {"a", "c"}})
	diff(t, cfg.Jobs["a"].Lane, "serial")
	diff(t, cfg.Lanes, map[string]int{"serial": 1})
}

func TestLanes_SerialDeclared(t *testing.T) {
	for _, text := range []string{"[lanes.serial]\n", "[lanes.serial]\nin_flight = 1\n"} {
		diff(t, parse(t, text).Lanes, map[string]int{"serial": 1})
	}
}
