package input

import (
	"bytes"
	"strconv"
)

// keyMaker makes one key of the values of the key's fields; see the package
// comment for the rule.
type keyMaker struct {
	fields []string // their names
	joined []byte
}

// key returns the key, or the reason why there is none.
func (k *keyMaker) key(values [][]byte) (key []byte, reason string) {
	empty := true
	for i, value := range values {
		if bytes.IndexByte(value, 0) >= 0 {
			return nil, "the key field " + strconv.Quote(k.fields[i]) + " holds a NUL, which no command can be given"
		}
		empty = empty && len(value) == 0
	}
	// One part of several may be empty: (DE, "") differs from ("", DE).
	if empty && len(values) == 1 {
		return nil, "the key field " + strconv.Quote(k.fields[0]) + " is empty"
	}
	if empty {
		return nil, "every key field is empty"
	}
	if len(values) == 1 {
		return values[0], ""
	}
	k.joined = k.joined[:0]
	for i, value := range values {
		if i > 0 {
			k.joined = append(k.joined, '/')
		}
		k.joined = appendEscaped(k.joined, value)
	}
	return k.joined, ""
}

// appendEscaped writes value with the separator, and the escape itself, in
// the percent-encoding of RFC 3986, which shells and URLs leave alone.
func appendEscaped(dst, value []byte) []byte {
	for _, c := range value {
		switch c {
		case '/':
			dst = append(dst, "%2F"...)
		case '%':
			dst = append(dst, "%25"...)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
