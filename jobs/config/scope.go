package config

import (
	"fmt"
	"strings"
	"time"
)

// scopeWords are the words of a scope and what they stand for.
var scopeWords = []struct {
	word   string
	expand func(now time.Time) string
}{
	{"today", func(now time.Time) string { return now.Format(time.DateOnly) }},
	{"yesterday", yesterday},
	// In autumn one hour comes twice and so does its scope: the same keys are
	// then duplicates, not run again.
	{"hour", func(now time.Time) string { return now.Format("2006-01-02T15") }},
}

// yesterday counts on the calendar, not back by hours: around a change of the
// clocks a day has 23 or 25 of them.
func yesterday(now time.Time) string {
	y, m, d := now.Date()
	return time.Date(y, m, d-1, 12, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// ExpandScope replaces @today, @yesterday and @hour in a scope, alone or as a
// part ("eu-@today"), by the date or hour of now in now's own location. @@ is
// a literal @; any other word after an @ is an error that lists the words.
func ExpandScope(s string, now time.Time) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "@")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if rest, double := strings.CutPrefix(after, "@"); double {
			b.WriteByte('@')
			s = rest
			continue
		}
		word := leadingWord(after)
		text := ""
		for _, w := range scopeWords {
			if w.word == word {
				text = w.expand(now)
			}
		}
		if text == "" {
			return "", fmt.Errorf("no scope word is called %s: want @today, @yesterday or @hour, or @@ for a literal @", show("@"+word))
		}
		b.WriteString(text)
		s = after[len(word):]
	}
}

// leadingWord returns the letters and digits that s begins with. Digits count,
// so that "@today2" is an error and not a date that runs on.
func leadingWord(s string) string {
	end := strings.IndexFunc(s, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
	})
	if end < 0 {
		return s
	}
	return s[:end]
}
