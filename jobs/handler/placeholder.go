package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"batchq/jobs"
)

// HasPlaceholder says whether any element of argv holds a placeholder: {},
// {key}, {scope}, {job}, {attempt} or {.field}. Other braces are text.
func HasPlaceholder(argv []string) bool {
	for _, arg := range argv {
		if from, _ := nextPlaceholder(arg); from >= 0 {
			return true
		}
	}
	return false
}

// nextPlaceholder finds the first placeholder of s: s[from:to], braces
// included; from is -1 where there is none.
func nextPlaceholder(s string) (from, to int) {
	for at := 0; ; {
		open := strings.IndexByte(s[at:], '{')
		if open < 0 {
			return -1, -1
		}
		from = at + open
		end := strings.IndexAny(s[from+1:], "{}")
		if end < 0 {
			return -1, -1
		}
		to = from + 1 + end
		if s[to] == '}' && isPlaceholder(s[from+1:to]) {
			return from, to + 1
		}
		at = to // an inner { may open one itself
	}
}

func isPlaceholder(name string) bool {
	switch name {
	case "", "key", "scope", "job", "attempt":
		return true
	}
	return len(name) > 1 && name[0] == '.'
}

// arguments builds the argv of one attempt. An error says which placeholder
// has no value in this item, or which value no argument can carry.
func arguments(h *jobs.Handler, item *jobs.Item) ([]string, error) {
	if bytes.IndexByte(item.Key, 0) >= 0 {
		return nil, fmt.Errorf("the key %q holds a NUL byte, which neither an argument nor a variable can carry", item.Key)
	}
	if h.Shell != "" {
		// The text is fixed and the value its first argument, so that no key
		// is ever read as shell.
		return []string{"sh", "-c", h.Shell, "sh", string(item.Key)}, nil
	}
	argv := make([]string, 0, len(h.Command)+1)
	v := values{item: item}
	found := false
	for _, arg := range h.Command {
		expanded, any, err := v.expand(arg)
		if err != nil {
			return nil, err
		}
		found = found || any
		argv = append(argv, expanded)
	}
	if h.AppendValue && !found {
		argv = append(argv, string(item.Key))
	}
	return argv, nil
}

// values looks up what placeholders stand for in one item.
type values struct {
	item   *jobs.Item
	fields map[string]json.RawMessage // of the payload; parsed at the first {.field}
}

// expand replaces the placeholders of one argument, once: a value is never
// looked through again.
func (v *values) expand(arg string) (expanded string, found bool, err error) {
	from, to := nextPlaceholder(arg)
	if from < 0 {
		return arg, false, nil
	}
	var b strings.Builder
	for from >= 0 {
		value, err := v.value(arg[from+1 : to-1])
		if err != nil {
			return "", true, err
		}
		b.WriteString(arg[:from])
		b.WriteString(value)
		arg = arg[to:]
		from, to = nextPlaceholder(arg)
	}
	b.WriteString(arg)
	return b.String(), true, nil
}

func (v *values) value(name string) (string, error) {
	switch name {
	case "", "key":
		return string(v.item.Key), nil
	case "scope":
		return v.item.Scope, nil
	case "job":
		return v.item.Job, nil
	case "attempt":
		return strconv.Itoa(v.item.Attempt), nil
	}
	return v.field(name[1:])
}

// field returns a field of the payload as text: a string's bytes, the literal
// of a number or a boolean. Nothing else can stand in an argument.
func (v *values) field(name string) (string, error) {
	text, err := v.rawField(name)
	if err != nil {
		return "", err
	}
	switch raw := []byte(text); raw[0] {
	case '"':
		text := unquote(raw)
		if strings.IndexByte(text, 0) >= 0 {
			return "", fmt.Errorf("{.%s}: the value %q holds a NUL byte, which no argument can carry", name, text)
		}
		return text, nil
	case 'n':
		return "", fmt.Errorf("{.%s}: the field is null", name)
	case '{':
		return "", fmt.Errorf("{.%s}: the field is an object, and only a string, a number or a boolean can stand in an argument", name)
	case '[':
		return "", fmt.Errorf("{.%s}: the field is an array, and only a string, a number or a boolean can stand in an argument", name)
	}
	return text, nil
}

// rawField returns a field of the payload as it stands there.
func (v *values) rawField(name string) (string, error) {
	if v.fields == nil {
		if v.item.Payload == nil {
			return "", fmt.Errorf("{.%s}: the item has no payload", name)
		}
		if err := json.Unmarshal(v.item.Payload, &v.fields); err != nil || v.fields == nil {
			return "", fmt.Errorf("{.%s}: the payload is no JSON object", name)
		}
	}
	raw, ok := v.fields[name]
	if !ok {
		return "", fmt.Errorf("{.%s}: the payload has no field %q", name, name)
	}
	return string(bytes.TrimSpace(raw)), nil
}

// unquote returns the text of a valid JSON string. Unlike encoding/json it
// keeps bytes that are no UTF-8: a file name must reach the command as it came.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		if raw[0] != '\\' {
			out, raw = append(out, raw[0]), raw[1:]
			continue
		}
		switch c := raw[1]; c {
		case 'u':
			r := hex4(raw[2:])
			raw = raw[6:]
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(raw[2:]))
				}
				if pair != utf8.RuneError {
					raw = raw[6:]
				}
				r = pair
			}
			out = utf8.AppendRune(out, r)
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default: // ", \ and /
			out = append(out, c)
		}
		raw = raw[2:]
	}
	return string(out)
}

func hex4(b []byte) rune {
	n, _ := strconv.ParseUint(string(b[:4]), 16, 32)
	return rune(n)
}
