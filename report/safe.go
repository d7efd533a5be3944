package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes text that came from outside (keys, reasons, paths, output)
// harmless for a terminal and for one cell of a table: what could move a
// cursor, change the direction of writing, hide itself or break a line is
// shown as an escape like \x1b, \n or \u202e, and a byte that is no UTF-8 as
// \xff. Everything else, backslashes too, stays as it is: this is for people
// and can't be reversed. JSON output carries the bytes themselves.
func Safe(s string) string {
	clean := 0
	for clean < len(s) {
		r, size := utf8.DecodeRuneInString(s[clean:])
		if unsafe(r, size) {
			break
		}
		clean += size
	}
	if clean == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:clean])
	for i := clean; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case !unsafe(r, size):
			b.WriteString(s[i : i+size])
		case r == utf8.RuneError && size == 1:
			writeByte(&b, s[i])
		default:
			writeRune(&b, r)
		}
		i += size
	}
	return b.String()
}

// unsafe says whether a rune must not reach a terminal. size tells a byte
// that is no UTF-8 from a replacement character that is spelt out.
func unsafe(r rune, size int) bool {
	switch {
	case r == utf8.RuneError && size == 1:
		return true
	case r < 0x20 || r == 0x7f:
		return true
	case r < 0x7f:
		return false
	case r == '\u200c' || r == '\u200d':
		// Joiners: Persian, Indic scripts and emoji are made with them.
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func writeRune(b *strings.Builder, r rune) {
	switch r {
	case '\n':
		b.WriteString(`\n`)
	case '\r':
		b.WriteString(`\r`)
	case '\t':
		b.WriteString(`\t`)
	default:
		if r < 0x80 {
			writeByte(b, byte(r))
			return
		}
		letter, digits := `\u`, 4
		if r > 0xffff {
			letter, digits = `\U`, 8
		}
		b.WriteString(letter)
		for shift := (digits - 1) * 4; shift >= 0; shift -= 4 {
			b.WriteByte(hexDigits[r>>shift&15])
		}
	}
}

func writeByte(b *strings.Builder, c byte) {
	b.WriteString(`\x`)
	b.WriteByte(hexDigits[c>>4])
	b.WriteByte(hexDigits[c&15])
}

const hexDigits = "0123456789abcdef"

// Short is Safe for a place with little room: at most limit characters, the
// last of which is … when something was left out.
func Short(s string, limit int) string {
	// No character is longer than four bytes: a huge key is not walked through.
	cut := false
	if most := limit * utf8.UTFMax; len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s, cut = s[:most], true
	}
	s = Safe(s)
	if n := utf8.RuneCountInString(s); n < limit || n == limit && !cut {
		if cut {
			s += "…"
		}
		return s
	}
	runes := []rune(s)
	return string(runes[:limit-1]) + "…"
}
