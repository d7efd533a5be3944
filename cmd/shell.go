package cmd

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"batchq/report"
)

// plainWord are the characters that mean themselves to every POSIX shell.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+:,@%"

// shellWord quotes s so that it can be pasted into a POSIX shell. What a
// terminal would act on, and what is no UTF-8, can neither be shown nor pasted:
// a word that has such bytes is written for printf.
func shellWord(s string) string { return quoted(s, "'\n'") }

// quoted is shellWord with a word for the newlines at the end of s: $(…) would
// take them off.
func quoted(s, newline string) string {
	if s != "" && strings.Trim(s, plainWord) == "" {
		return s
	}
	if report.Safe(s) == s {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	body := strings.TrimRight(s, "\n")
	end := strings.Repeat(newline, len(s)-len(body))
	switch {
	case body == "":
		return end
	case report.Safe(body) == body:
		return quoted(body, newline) + end
	}
	return printed(body) + end
}

// printed is s as what printf prints, in printable characters alone.
func printed(s string) string {
	var b strings.Builder
	b.WriteString(`"$(printf '`)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		part := s[i : i+size]
		switch {
		case r == '%':
			b.WriteString("%%")
		case i == 0 && r == '-': // no option
			b.WriteString(`\055`)
		case r == ' ' || r == '=' || strings.Contains(plainWord, part), r >= utf8.RuneSelf && report.Safe(part) == part:
			b.WriteString(part)
		default:
			// Octal is what POSIX has. Among these are quotes and ! too, which
			// shells look at in places of their own.
			for _, c := range []byte(part) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		i += size
	}
	b.WriteString(`')"`)
	return b.String()
}

// shellLine is an argv as a person would type it.
func shellLine(argv []string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		words[i] = shellWord(w)
	}
	return strings.Join(words, " ")
}
