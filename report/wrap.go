package report

import (
	"strings"
	"unicode/utf8"
)

// Wrap breaks text between words so that no line is longer than width
// characters, where the words allow that. Every line but the first begins with
// indent spaces; the first is taken to begin at column `at`. A width of 0 is a
// line without end.
func Wrap(text string, width, at, indent int) string {
	if width <= 0 {
		return text
	}
	var b strings.Builder
	column := at
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
