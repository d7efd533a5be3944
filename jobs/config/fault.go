package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"batchq/jobs"
)

// Fault is one thing that is wrong in a file.
type Fault struct {
	File   string // as the user named it
	Line   int    // counted from 1
	Key    string // "jobs.pos.uses.db"; "" where it is about no key
	Reason string
}

// Error is the fault on one line: "batchq.toml:12: jobs.pos.uses.db: 20 is
// more than the pool holds (15)".
func (f Fault) Error() string {
	s := f.File + ":" + strconv.Itoa(f.Line) + ": "
	if f.Key != "" {
		s += f.Key + ": "
	}
	return s + f.Reason
}

// Faults is everything that is wrong in one file, in line order.
type Faults []Fault

// Error is all faults, one a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// sorted names the file in every fault and brings them into line order.
func (fs Faults) sorted(file string) Faults {
	for i := range fs {
		fs[i].File = file
	}
	slices.SortStableFunc(fs, func(a, b Fault) int { return cmp.Compare(a.Line, b.Line) })
	return fs
}

// maxShown bounds a piece of the file that a message repeats.
const maxShown = 60

// show quotes a piece of the file for a message: short, and without control
// bytes that could move a terminal's cursor.
func show(s string) string {
	if len(s) <= maxShown {
		return strconv.Quote(s)
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "…"
}

// didYouMean returns ` (did you mean "timeout"?)` when one of the known words
// is so near to word that it was probably meant, else "".
func didYouMean(word string, known []string) string {
	if near := jobs.Nearest(word, known); near != "" {
		return " (did you mean " + strconv.Quote(near) + "?)"
	}
	return ""
}
