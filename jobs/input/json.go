package input

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// appendString writes s, which is UTF-8, as a JSON string. Only what RFC 8259
// demands is escaped, so that a payload reads like its row; encoding/json
// would escape <, > and & as well, for pages that this never becomes.
func appendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}

// members walks over the top-level members of a JSON object that is known to
// be valid. encoding/json would make a map of it, in which numbers have lost
// their text and a repeated member has vanished.
type members struct {
	text []byte
	at   int // before a member, or at the closing brace
}

// membersOf starts at the first member of object, which begins with its brace.
func membersOf(object []byte) members {
	return members{text: object, at: 1}
}

// next returns a member's name, with its quotes, and its value as they stand
// in the text.
func (m *members) next() (name, value []byte, ok bool) {
	m.pass()
	if m.text[m.at] == '}' {
		return nil, nil, false
	}
	name = m.value()
	m.pass()
	return name, m.value(), true
}

// pass steps over space and what separates; where that may stand has been
// checked before.
func (m *members) pass() {
	for {
		switch m.text[m.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			m.at++
		default:
			return
		}
	}
}

// value steps over the value that starts here. It counts braces rather than
// calling itself: the input decides how deep they go.
func (m *members) value() []byte {
	from, depth := m.at, 0
	for {
		switch m.text[m.at] {
		case '"':
			m.passString()
		case '{', '[':
			depth++
			m.at++
		case '}', ']':
			depth--
			m.at++
		default:
			m.at++
		}
		if depth == 0 && m.valueEnds() {
			return m.text[from:m.at]
		}
	}
}

// valueEnds says whether what follows can't be part of a scalar.
func (m *members) valueEnds() bool {
	switch m.text[m.at] {
	case ',', '}', ':', ' ', '\t', '\r', '\n':
		return true
	}
	return false
}

func (m *members) passString() {
	for m.at++; m.text[m.at] != '"'; m.at++ {
		if m.text[m.at] == '\\' {
			m.at++
		}
	}
	m.at++
}

// unquote returns what a valid JSON string stands for, in place where it has
// no escapes, else appended to scratch. It is false for half of a surrogate
// pair: no text has one, and U+FFFD in its place would make different strings
// the same.
func unquote(scratch, s []byte) (text, grown []byte, ok bool) {
	s = s[1 : len(s)-1]
	if bytes.IndexByte(s, '\\') < 0 {
		return s, scratch, true
	}
	from := len(scratch)
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			scratch = append(scratch, s[i])
			continue
		}
		i++
		switch s[i] {
		case 'b':
			scratch = append(scratch, '\b')
		case 'f':
			scratch = append(scratch, '\f')
		case 'n':
			scratch = append(scratch, '\n')
		case 'r':
			scratch = append(scratch, '\r')
		case 't':
			scratch = append(scratch, '\t')
		case 'u':
			r := unit(s[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if !bytes.HasPrefix(s[i+1:], []byte(`\u`)) {
					return nil, scratch, false
				}
				r = utf16.DecodeRune(r, unit(s[i+3:]))
				if r == utf8.RuneError {
					return nil, scratch, false
				}
				i += 6
			}
			scratch = utf8.AppendRune(scratch, r)
		default: // a quote, a backslash, a slash
			scratch = append(scratch, s[i])
		}
	}
	return scratch[from:], scratch, true
}

// unit reads the four digits of a \u escape.
func unit(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32)
	return rune(n)
}

// nextObject returns the next line that is not empty, or why it is no JSON
// object, and its number.
func nextObject(lines *lineScanner) (object []byte, reason string, number int64, err error) {
	for {
		line, number, err := lines.next()
		if err != nil {
			return nil, "", number, err
		}
		if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
			return line, faultOf(line), number, nil
		}
	}
}
