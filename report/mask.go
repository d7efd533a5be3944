package report

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"batchq/jobs"
)

// masked is a reason without what differs from one item to the next, so that
// like reasons are the same text.
type masked struct {
	text string // safe for a terminal
	// part is the longest part of the reason that is no mask, and stands in the
	// reason as it is; one with a code goes before. "" when there is none.
	part string
}

// mask replaces in a reason each number (also with a unit, a date, an address),
// each id (hexadecimal, UUID, letters mixed with digits) by # and what is quoted
// by …:
//
//	order 4711 of "Müller" not found after 3.2s
//	order # of "…" not found after #
//
// An exit status, an HTTP status or an error code is no such number: it says
// what the error is. How many failures there were, which is said at the end of a
// reason, is none of the cause, and left out. Masking a masked text changes
// nothing.
func mask(reason string) masked {
	m := masking{in: unsaid(Safe(oneLine.Replace(reason)))}
	for m.at < len(m.in) {
		switch end := m.quoted(); {
		case end > 0:
			_, open := utf8.DecodeRuneInString(m.in[m.at:])
			_, shut := utf8.DecodeLastRuneInString(m.in[:end])
			m.keep(m.at + open)
			m.replace(end-shut, "…")
			m.keep(end)
		case isWord(m.rune()):
			m.word()
		default:
			m.keep(m.at + utf8.RuneLen(m.rune()))
		}
	}
	m.cut()
	return masked{shortened(unsaid(m.out.String())), bestPart(m.parts, reason)}
}

// comparable is how much of a masked text is compared, in bytes, where its end
// was cut off. What was cut is another word in each item, by the length of what
// is masked before it.
const comparable = 120

// shortened is a masked text without an end that differs only by where it was cut.
func shortened(text string) string {
	if len(text) <= comparable+len(jobs.Cut) || !strings.HasSuffix(text, jobs.Cut) {
		return text
	}
	end := strings.LastIndexByte(text[:comparable], ' ')
	if end < comparable/2 {
		end = comparable
	}
	return strings.ToValidUTF8(text[:end], "") + jobs.Cut
}

// failuresSaid is what jobs.Policy.Judge adds to the reason of an item whose
// attempts are spent. Several are taken for one, as a command may repeat it, and
// what is masked already as what is not.
var failuresSaid = regexp.MustCompile(`( \(failure ([0-9]+ of [0-9]+|# of #)\))+$`)

// unsaid is a reason without that.
func unsaid(reason string) string {
	if !strings.HasSuffix(reason, ")") { // most have none, and a list may have a million
		return reason
	}
	return failuresSaid.ReplaceAllString(reason, "")
}

// PartOf is the part of a reason that tells it from others best, for --error;
// "" when there is none.
func PartOf(reason string) string { return mask(reason).part }

// oneLine makes spaces of what a message was laid out with.
var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ")

const (
	// shortestPart: what is shorter stands in too many reasons.
	shortestPart = 3
	// longestPart, in bytes, is more than a person wants to type.
	longestPart = 100
)

// bestPart is the part that tells a reason from others best: one that stands in it
// as it is, with a code in it, and long.
func bestPart(parts []string, reason string) (found string) {
	for _, part := range parts {
		if len(part) > longestPart {
			part = strings.ToValidUTF8(part[:longestPart], "") // the cut may go through a character
		}
		part = strings.TrimFunc(part, func(r rune) bool { return !isWord(r) })
		if len(part) >= shortestPart && better(part, found) && strings.Contains(reason, part) {
			found = part
		}
	}
	return strings.Clone(found) // not to keep the whole reason
}

// better compares two parts; what digits are left in one are a code's.
func better(a, b string) bool {
	coded, other := strings.ContainsFunc(a, unicode.IsDigit), strings.ContainsFunc(b, unicode.IsDigit)
	if coded != other {
		return coded
	}
	return len(a) > len(b)
}

// masking is one walk over a text, which is UTF-8 without control characters.
type masking struct {
	in    string
	at    int
	out   strings.Builder
	part  int      // of out: where the text that is kept now began
	parts []string // that were kept before
	// lone are quotes of which the last one looked at had no end: no later one
	// of its kind has, and a text of nothing but quotes is not read again for each.
	lone string
}

func (m *masking) rune() rune {
	r, _ := utf8.DecodeRuneInString(m.in[m.at:])
	return r
}

// keep passes on the text up to a place.
func (m *masking) keep(to int) {
	m.out.WriteString(m.in[m.at:to])
	m.at = to
}

// replace puts sign for the text up to a place.
func (m *masking) replace(to int, sign string) {
	m.cut()
	m.out.WriteString(sign)
	m.at, m.part = to, m.out.Len()
}

// cut ends the part that is kept now.
func (m *masking) cut() {
	if s := m.out.String()[m.part:]; s != "" {
		m.parts = append(m.parts, s)
	}
}

// closing is what ends a quotation that begins with open; 0: none does.
func closing(open rune) rune {
	switch open {
	case '"', '\'', '`':
		return open
	case '“':
		return '”'
	case '„':
		return '“'
	case '«':
		return '»'
	}
	return 0
}

// quoted says where the quotation ends that begins here; 0: none does.
func (m *masking) quoted() int {
	open := m.rune()
	shut := closing(open)
	if shut == 0 || strings.ContainsRune(m.lone, open) {
		return 0
	}
	if before, size := utf8.DecodeLastRuneInString(m.in[:m.at]); open == '\'' && size > 0 && !strings.ContainsRune(" ([{<=:,", before) {
		return 0 // the apostrophe of "can't"
	}
	escaped := false
	for i, r := range m.in[m.at:] {
		switch {
		case i == 0:
		case escaped:
			escaped = false
		case r == '\\' && open == '"':
			escaped = true
		case r == shut:
			end := m.at + i + utf8.RuneLen(r)
			after, size := utf8.DecodeRuneInString(m.in[end:])
			if open != '\'' || size == 0 || strings.ContainsRune(" )]}>,.;:!?", after) {
				return end
			}
		}
	}
	m.lone += string(open)
	return 0
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordEnd is where the letters and digits end that begin at from.
func (m *masking) wordEnd(from int) int {
	n := strings.IndexFunc(m.in[from:], func(r rune) bool { return !isWord(r) })
	if n < 0 {
		return len(m.in)
	}
	return from + n
}

// word passes over the word that begins here, and over what belongs to a
// number that does.
func (m *masking) word() {
	end := m.wordEnd(m.at)
	word := m.in[m.at:end]
	first := strings.IndexFunc(word, unicode.IsDigit)
	switch {
	case isUUID(m.in[m.at:]):
		m.replace(m.at+uuidLen, "#")
	case first < 0:
		m.keep(end)
	case first == 0:
		if to := m.numberEnd(end); to > end || !m.isCode(word) {
			m.replace(to, "#")
			return
		}
		m.keep(end)
	default:
		m.mixed(word, first)
	}
}

// numberEnd is where a number, date or address ends whose first digits end at
// from: a sign and a digit go on with it.
func (m *masking) numberEnd(from int) int {
	for from+1 < len(m.in) && strings.IndexByte(".,:-_", m.in[from]) >= 0 {
		next, _ := utf8.DecodeRuneInString(m.in[from+1:])
		if !unicode.IsDigit(next) {
			break
		}
		from = m.wordEnd(from + 1)
	}
	return from
}

// longestCode is how many digits a code has at most; a longer number counts
// something or is an id.
const longestCode = 5

// isCode says whether the digits here tell which error it is.
func (m *masking) isCode(digits string) bool {
	if len(digits) > longestCode || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	before := strings.TrimSuffix(m.in[:m.at], " ")
	if before == m.in[:m.at] || strings.HasSuffix(before, ":") {
		before = strings.TrimRight(before, ":=")
	}
	name := before[strings.LastIndexFunc(before, func(r rune) bool { return !isWord(r) })+1:]
	switch strings.ToLower(name) {
	case "exit", "status", "code", "http", "errno", "error", "signal":
		return true
	}
	return false
}

// mixed masks a word that begins with a letter and has a digit: an id as a
// whole, of a name with a number only that.
func (m *masking) mixed(word string, first int) {
	end := m.at + len(word)
	rest := strings.TrimLeftFunc(word[first:], unicode.IsDigit)
	if isHex(word) && len(word) >= shortestHex || strings.ContainsFunc(rest, unicode.IsDigit) {
		m.replace(end, "#")
		return
	}
	m.keep(m.at + first)
	m.replace(end-len(rest), "#")
	m.keep(end)
}

// shortestHex: shorter ones are words like "b2" or "cafe1".
const shortestHex = 7

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdefABCDEF") == "" }

const uuidLen = 36

// isUUID says whether s begins with a UUID (RFC 9562).
func isUUID(s string) bool {
	if len(s) < uuidLen || s[8] != '-' {
		return false
	}
	if next, size := utf8.DecodeRuneInString(s[uuidLen:]); size > 0 && isWord(next) {
		return false
	}
	for i, part := range strings.SplitN(s[:uuidLen], "-", 6) {
		if i > 4 || len(part) != []int{8, 4, 4, 4, 12}[i] || !isHex(part) {
			return false
		}
	}
	return true
}
