package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"batchq/jobs"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Origin says who gave a setting its value.
type Origin string

const (
	Own       Origin = "own"      // the job's own table, or the top of the file
	Inherited Origin = "defaults" // [defaults]
	BuiltIn   Origin = "default"  // nobody: the key is not in the file
)

// Setting is what a key comes to, and where that stands.
type Setting struct {
	Key string
	// Value is as one would write it; "" where the key has no value, which its
	// Doc explains. Of env it tells the names only: values may be secrets.
	Value  string
	Source string // "batchq.toml:12"; "" when built in, or why it is built in so
	Origin Origin
}

// Settings tells every key of the job called name: its own value, else that of
// [defaults], else the built-in one. For "" it tells the keys that belong to no
// job. In the order of Keys; nil for a job that the file does not declare.
func (c *Config) Settings(name string) []Setting { return slices.Clone(c.settings[name]) }

// commonSettings are the keys that belong to no job.
func (r *reading) commonSettings() []Setting {
	var out []Setting
	for _, k := range keys {
		switch k.In {
		case Top:
			s := r.setting(k, r.top[k.Name], nil)
			if k.Name == "database" && s.Value != "" {
				s.Value = tomlString(r.cfg.Database)
			}
			out = append(out, s)
		case Defaults:
			out = append(out, r.setting(k, nil, r.defaults.set[k.Name]))
		}
	}
	return out
}

// jobSettings are the keys of a job.
func (r *reading) jobSettings(d *declared) []Setting {
	var out []Setting
	for _, k := range keys {
		if k.In&Job == 0 {
			continue
		}
		if d.spec.Handler.HTTP != nil && slices.Contains(idleForHTTP, k.Name) {
			continue
		}
		own, inherited := d.set[k.Name], r.defaults.set[k.Name]
		s := r.setting(k, own, inherited)
		switch {
		case k.Name == "lane" && s.Origin != BuiltIn && d.spec.Lane == jobs.Serial:
			s.Value = tomlString(jobs.Serial) // also where the file asks for one that is not declared
		case k.Name == "dir":
			s.Value = tomlString(d.spec.Handler.Dir)
		case k.Name == "http.headers" && own != nil:
			s.Value = headerNames(own)
		case k.Name == "timeout" && s.Origin == BuiltIn && d.spec.Handler.HTTP != nil:
			s.Value, s.Source = tomlString("60s"), "default for http"
		case k.Name == "env" && s.Origin != BuiltIn:
			s.Value = variableNames(own, inherited)
		}
		out = append(out, s)
	}
	return out
}

// setting is the value that a key comes to of the places where it stands; nil
// for those where it does not.
func (r *reading) setting(k Key, own, inherited *node) Setting {
	switch {
	case own != nil:
		return Setting{k.Name, own.toml(), r.at(own), Own}
	case inherited != nil:
		return Setting{k.Name, inherited.toml(), r.at(inherited), Inherited}
	}
	return Setting{k.Name, k.Default, "", BuiltIn}
}

// toml is the value as one would write it, on one line.
func (n *node) toml() string {
	var parts []string
	switch n.kind {
	case unstable.String:
		return tomlString(n.text)
	case unstable.Array:
		for _, item := range n.items {
			parts = append(parts, item.toml())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case unstable.Table:
		for _, entry := range n.order {
			parts = append(parts, bareOrQuoted(entry.key)+" = "+entry.toml())
		}
		return braced(parts)
	}
	return n.text
}

// variableNames is a table of variables without their values: what [defaults]
// has and a job adds.
func variableNames(own, inherited *node) string {
	var parts []string
	for _, n := range []*node{inherited, own} {
		if n == nil {
			continue
		}
		for _, entry := range n.order {
			if part := bareOrQuoted(entry.key) + " = …"; !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return braced(parts)
}

func braced(parts []string) string {
	if len(parts) == 0 {
		return "{}"
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

func bareOrQuoted(key string) string {
	if bareKey.MatchString(key) {
		return key
	}
	return strconv.Quote(key)
}

// AtOnce is the most attempts of a declared job that can be in flight at once:
// by its lane, its own limit, and each pool that it uses.
func (c *Config) AtOnce(name string) int {
	s := c.Jobs[name]
	most := c.Lanes[s.Lane]
	if s.InFlight > 0 {
		most = min(most, s.InFlight)
	}
	for pool, uses := range s.Uses {
		most = min(most, c.Pools[pool]/uses)
	}
	return most
}

// Unused are sentences for who looks at the file: lanes and pools that nothing
// uses, and how to declare a lane that a job asks for. They are no faults, and
// of no interest to who works.
func (c *Config) Unused() []string { return slices.Clone(c.unused) }

func (r *reading) unused() []string {
	var out []string
	for _, l := range r.laneOrder {
		if len(l.jobs) == 0 && l.name != jobs.Serial {
			out = append(out, fmt.Sprintf("lane %q: no job runs in it (%s)", l.name, r.at(l.node)))
		}
	}
	for _, pool := range r.poolOrder {
		used := slices.ContainsFunc(r.declared, func(d *declared) bool { return d.spec.Uses[pool.key] > 0 })
		if !used {
			out = append(out, fmt.Sprintf("pool %q: no job uses it (%s)", pool.key, r.at(pool)))
		}
	}
	known := slices.Collect(maps.Keys(r.lanes))
	for _, d := range r.declared {
		for asked, names := range r.cfg.Undeclared {
			// In the file's order, each lane once, and no slip of the pen.
			if names[0] == d.spec.Name && jobs.Nearest(asked, known) == "" {
				out = append(out, fmt.Sprintf("to declare lane %q: [lanes.%s] and below it in_flight = NUMBER", asked, bareOrQuoted(asked)))
			}
		}
	}
	return out
}
