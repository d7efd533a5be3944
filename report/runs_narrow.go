package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
)

// sparedFirst are the columns of the list of runs that a narrow terminal can do
// without, the first first: how a run ended and what it was stay, and what is
// to be looked at is named below.
var sparedFirst = []string{"BATCHES", "PEAK", "PID", "FOR", "TO LOOK AT"}

// narrow takes columns out of a table until it can be cut to a width (0: any),
// and says in a line which: a row that the terminal wraps is no row any more.
func narrow(t *table, width int) (said string) {
	var left []string
	for _, title := range sparedFirst {
		if width <= 0 || t.least() <= width {
			break
		}
		at := slices.IndexFunc(t.columns, func(c column) bool { return c.title == title })
		t.columns = slices.Delete(t.columns, at, at+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], at, at+1)
		}
		left = append(left, title)
	}
	if len(left) == 0 {
		return ""
	}
	return fmt.Sprintf("left out, for want of room: %s; --json has them", strings.Join(left, ", "))
}

// least is how narrow a table can be made by cutting its flexible columns.
func (t *table) least() int {
	const gap = 2
	total := -gap
	for i, c := range t.columns {
		most := twwidth.Width(c.title)
		for _, row := range t.rows {
			most = max(most, twwidth.Width(row[i]))
		}
		if c.flex {
			most = min(most, max(minFlex, twwidth.Width(c.title)))
		}
		total += most + gap
	}
	return total
}

// below writes a line under a table for a terminal of a width (0: any). A word
// that is too long for it, which is a key, is broken too.
func (b *screen) below(line string) {
	if b.width <= 0 {
		b.line(line)
		return
	}
	const further = "  "
	room := max(b.width-len(further), 1)
	var words []string
	for word := range strings.SplitSeq(line, " ") {
		for twwidth.Width(word) > room {
			part := strings.TrimSuffix(cutTo(word+" ", room+1), "…")
			if part == "" {
				break
			}
			words, word = append(words, part), word[len(part):]
		}
		words = append(words, word)
	}
	b.fold("", further, strings.Join(words, " "))
}
