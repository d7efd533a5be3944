package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"batchq/jobs"
	"batchq/jobs/config"
)

// checkLine is one line of the screen: what it says, and where that stands.
type checkLine struct{ text, source string }

// Lines are what a person reads of it: what differs from the built-in defaults,
// or with all, every key. They are as wide as a terminal of width columns, or
// as long as they need to be where that is 0.
func (c Check) Lines(all bool, width int) []string {
	var lines []checkLine
	add := func(source, format string, args ...any) {
		lines = append(lines, checkLine{Safe(fmt.Sprintf(format, args...)), Safe(source)})
	}
	settings := func(indent string, list []CheckedSetting, all bool) {
		for _, s := range list {
			if text := s.text(all); text != "" {
				add(s.where(), "%s%s", indent, text)
			}
		}
	}
	settings("", c.Settings, true)
	for _, pool := range c.pools() {
		add("", "pool %s: %d", pool, c.Pools[pool])
	}
	for _, l := range c.Lanes {
		add(l.Source, "%s", l.head)
		if l.Name != jobs.Serial { // which holds 1 whatever the pools hold
			for _, s := range l.Shares {
				add("", "  %s", config.Share(s))
			}
		}
		for _, j := range c.Jobs {
			if j.Lane == l.Name {
				add(j.Source, "  job %s: at most %d at once", j.Name, j.AtOnce)
				settings("    ", j.Settings, all)
			}
		}
	}
	out := append(c.head(), columns(lines, width)...)
	for _, note := range c.Notes {
		text := "note: " + Safe(note)
		if width > 0 {
			text = Wrap(text, width, 0, len("note: "))
		}
		out = append(out, strings.Split(text, "\n")...)
	}
	return out
}

// head says which files this is about.
func (c Check) head() []string {
	config := "no configuration: the defaults hold"
	if c.Config != "" {
		config = "config " + Safe(c.Config)
	}
	if c.ConfigSource != "" {
		config += " (from " + c.ConfigSource + ")"
	}
	return []string{config, Safe(fmt.Sprintf("database %s (from %s)", c.Database, c.DatabaseSource))}
}

// text is the setting as one would write it; "" where it is not worth a line:
// the database, which has one, a handler that the job does not have, and
// without all, what is built in.
func (s CheckedSetting) text(all bool) string {
	switch {
	case s.Key == "database", s.Origin == config.BuiltIn && s.Source == "" && !all:
		return ""
	case s.Value != nil:
		return s.Key + " = " + *s.Value
	case slices.Contains([]string{"command", "shell"}, s.Key), strings.HasPrefix(s.Key, "http."):
		return ""
	}
	return s.Key + " is not set"
}

func (s CheckedSetting) where() string {
	switch s.Origin {
	case config.BuiltIn:
		return cmp.Or(s.Source, "default")
	case config.Inherited:
		return s.Source + " [defaults]"
	}
	return s.Source
}

// columns puts the sources below each other, right of the texts. A text that is
// much longer than others does not move them; on a terminal it is cut.
func columns(lines []checkLine, width int) []string {
	const most = 48
	column := 0
	for _, l := range lines {
		if n := utf8.RuneCountInString(l.text); n <= most && l.source != "" {
			column = max(column, n)
		}
	}
	var out []string
	for _, l := range lines {
		text := l.text
		if l.source != "" {
			if width > 0 {
				text = Short(text, max(column, width-2-utf8.RuneCountInString(l.source)))
			}
			pad := max(0, column-utf8.RuneCountInString(text))
			text += strings.Repeat(" ", pad) + "  " + l.source
		}
		out = append(out, text)
	}
	return out
}
