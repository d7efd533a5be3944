package cmd

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"batchq/report"
)

// FuzzParseTime: what is taken for a time is one that JSON can say (RFC 3339,
// years with four digits), and is read again as the same.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-11-29 08:00", "2026-11-29T08:00:00Z", "1970-01-01", "0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00",
		"2262-04-11T23:47:17Z", "2026-10-25 02:30", "24h", "today", "-1d", "9223372036854775807ns", "106751d", "2026-11-29T08:00:00.999999999Z", "yesterday\x00"} {
		f.Add(s, 3600)
	}
	now := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string, offset int) {
		zone := time.FixedZone("", offset%(14*3600))
		at, err := parseTime(s, zone)
		if err == nil {
			text := at.UTC().Format(time.RFC3339Nano)
			if again, err := parseTime(text, zone); err != nil || !again.Equal(at) {
				t.Fatalf("%q is %s, which is read as %s, %v", s, text, again, err)
			}
			if back := time.UnixMilli(at.UnixMilli()); at.Sub(back) < 0 || at.Sub(back) >= time.Millisecond {
				t.Fatalf("%q is stored as %s", s, back)
			}
		}
		ago, err := parseSince(s, now.In(zone))
		switch {
		case err == nil && ago <= 0:
			t.Fatalf("since %q: %s", s, ago)
		case err != nil && codeOf(err) != exitUsage:
			t.Fatalf("since %q: %v is no usage error", s, err)
		}
	})
}

// FuzzShellLine: a command line that a message suggests or a dry run shows is
// read by a shell as the same words, and nothing in them is acted on.
func FuzzShellLine(f *testing.F) {
	for _, s := range []string{"", "a b", "$(touch owned)", "`touch owned`", "a'b'c", "-rf", "~root", "x=1", "\n\r\x1b", "!!", "{a,b}", "#", "\xff", "\\", "-\x01", "%\x7f'!\"", "a\n", "\x1b\n\n", "é\u202e"} {
		f.Add("cmd", s)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		line := shellLine([]string{first, second})
		words, ok := shellWords(line)
		if !ok || len(words) != 2 || words[0] != first || words[1] != second {
			t.Fatalf("%q and %q are written as %s, which a shell reads as %q, %v", first, second, line, words, ok)
		}
		if flat := strings.ReplaceAll(line, "'\n'", ""); report.Safe(flat) != flat {
			t.Fatalf("%q and %q are written as %q, which a terminal would act on", first, second, line)
		}
	})
}

// shellWords cuts a line as POSIX says (2.2 Quoting, 2.3 Token Recognition);
// false where a shell would act on something in it.
func shellWords(line string) (words []string, ok bool) {
	var b strings.Builder
	inWord, quoted := false, false
	for i := 0; i < len(line); i++ {
		if text, length, ok := printfWord(line[i:]); ok && !quoted {
			b.WriteString(text)
			i, inWord = i+length-1, true
			continue
		}
		switch c := line[i]; {
		case c == '\'':
			quoted, inWord = !quoted, true
		case quoted:
			b.WriteByte(c)
		case c == ' ':
			words = append(words, b.String())
			b.Reset()
			inWord = false
		case c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			inWord = true
		case c < ' ' || c >= 0x7f || strings.IndexByte("|&;<>()$`\\\"*?[]#~=!{}^", c) >= 0:
			return nil, false
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, b.String())
	}
	return words, !quoted
}

// printfWord is what "$(printf 'FORMAT')" at the start of line gives, and how
// long it is: POSIX's printf with octal escapes and %%, less the newlines at its
// end. It is false for everything else, and for a FORMAT with anything that a
// shell or printf could take for more.
func printfWord(line string) (text string, length int, ok bool) {
	const begin, end = `"$(printf '`, `')"`
	format, rest, closed := strings.Cut(strings.TrimPrefix(line, begin), end)
	if !strings.HasPrefix(line, begin) || !closed || strings.HasPrefix(format, "-") || strings.ContainsAny(format, "'\"`$!") {
		return "", 0, false
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		switch c := format[i]; c {
		case '%':
			if i++; i == len(format) || format[i] != '%' {
				return "", 0, false
			}
			b.WriteByte('%')
		case '\\':
			n, err := strconv.ParseUint(format[i+1:min(i+4, len(format))], 8, 8)
			if err != nil {
				return "", 0, false
			}
			b.WriteByte(byte(n))
			i += 3
		default:
			b.WriteByte(c)
		}
	}
	return strings.TrimRight(b.String(), "\n"), len(line) - len(rest), true
}
