package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/textproto"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"batchq/jobs"
)

// RequestFault is what is wrong with a request that a file declares.
type RequestFault struct {
	Key    string // "url", "method", "headers" or "body"
	Header string // whose value is at fault; "" where it is no header's
	Reason string
}

// CheckRequest says all that can be told of a request without an item.
func CheckRequest(r *jobs.Request) (faults []RequestFault) {
	fault := func(key, header, format string, args ...any) {
		faults = append(faults, RequestFault{key, header, fmt.Sprintf(format, args...)})
	}
	if reason := urlFault(r.URL); reason != "" {
		fault("url", "", "%s", reason)
	}
	switch {
	case !isToken(r.Verb()):
		fault("method", "", "%q is no method: write one like \"POST\"", r.Method)
	case strings.EqualFold(r.Verb(), "CONNECT"):
		fault("method", "", "CONNECT asks a proxy for a tunnel, which no job has a use for")
	case r.Verb() != strings.ToUpper(r.Verb()):
		fault("method", "", "%q: methods are in capitals: write %q", r.Method, strings.ToUpper(r.Method))
	}
	names := map[string]string{}
	for _, name := range sortedKeys(r.Headers) {
		if reason := headerFault(name, r.Headers[name]); reason != "" {
			fault("headers", name, "%s", reason)
		}
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		if other, twice := names[canonical]; twice {
			fault("headers", name, "is the same header as %q", other)
		}
		names[canonical] = name
	}
	if r.Body != "" && slices.Contains([]string{"GET", "HEAD"}, r.Verb()) {
		fault("body", "", "%s sends none: write method = \"POST\", or leave the body out", r.Verb())
	}
	if form := bodyForm(r); form == jsonBody && !validJSONTemplate(r.Body) {
		fault("body", "", `looks like JSON, or its Content-Type says so, and is none: mend it, or say another content-type in headers`)
	}
	return faults
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// urlFault says what is wrong with the template of a URL; "" for nothing.
func urlFault(template string) string {
	scheme, rest, _ := strings.Cut(template, "://")
	if scheme != "http" && scheme != "https" || rest == "" {
		return "want a whole URL that begins with http:// or https://, and no placeholder before its path"
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if from, to := nextPlaceholder(rest); from >= 0 && from < len(authority) {
		return fmt.Sprintf("%s stands in the host: an item must not choose to which server a request goes", rest[from:to])
	}
	if strings.Contains(authority, "@") {
		return `has a user's name or password, which would be shown: use headers = { Authorization = "env:NAME" }`
	}
	if strings.Contains(rest, "#") {
		return "has a #, and what follows is never sent: write %23 for the character"
	}
	filled := fill(template, func(string) string { return "x" })
	u, err := url.Parse(filled)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return "is no URL: " + err.Error()
	}
	if strings.ContainsFunc(filled, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return "has a blank or a control character: write %20 for a blank"
	}
	if u.Hostname() == "" {
		return "names no host"
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fmt.Sprintf("port %s: want 1 to 65535", port)
		}
	}
	if climbs(u.EscapedPath()) {
		return "has a . or .. in its path: write the path that it leads to"
	}
	return ""
}

// variableName is what a shell can name, so that the line to reproduce a request
// can name it too.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ours are headers that follow from the rest of a request.
var ours = []string{"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func headerFault(name, value string) string {
	if !isToken(name) {
		return "is no name for a header: letters, digits and - alone"
	}
	if slices.Contains(ours, textproto.CanonicalMIMEHeaderKey(name)) {
		return "is set by batchq itself"
	}
	if variable, secret := jobs.Secret(value); secret {
		if !variableName.MatchString(variable) {
			return fmt.Sprintf("%q names no variable: write env:NAME, and nothing beside it", value)
		}
		return ""
	}
	if strings.EqualFold(name, "Host") && HasPlaceholder([]string{value}) {
		return "has a placeholder: an item must not choose to which server a request goes"
	}
	return valueFault(value)
}

// isToken says whether s can name a method or a header (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// valueFault says why a text can't be the value of a header.
func valueFault(value string) string {
	if at := strings.IndexFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); at >= 0 {
		return fmt.Sprintf("holds %q, which no header can carry", value[at:at+1])
	}
	return ""
}

// fill replaces each placeholder by what value makes of its name.
func fill(template string, value func(name string) string) string {
	var b strings.Builder
	for from, to := nextPlaceholder(template); from >= 0; from, to = nextPlaceholder(template) {
		b.WriteString(template[:from] + value(template[from+1:to-1]))
		template = template[to:]
	}
	return b.String() + template
}

// climbs says whether a path leads elsewhere than it reads: servers take a .
// or .. for a step, also where it or its / is escaped.
func climbs(escaped string) bool {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return true
	}
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' || c == '\\' })
	return slices.ContainsFunc(parts, func(part string) bool { return part == "." || part == ".." })
}

// expandURL is the URL of one item. A value is a part of one segment of the path,
// or of one value of the query, whatever it holds.
func (v *values) expandURL(template string) (string, error) {
	var b strings.Builder
	query := false
	for from, to := nextPlaceholder(template); from >= 0; from, to = nextPlaceholder(template) {
		before, name := template[:from], template[from:to]
		query = query || strings.Contains(before, "?")
		value, err := v.value(name[1 : len(name)-1])
		switch {
		case err != nil:
			return "", err
		case query:
			value = url.QueryEscape(value)
		case value == "":
			// A path without it names something else, and perhaps everything.
			return "", fmt.Errorf("%s is empty, and stands in the path of the URL", name)
		default:
			value = url.PathEscape(value)
		}
		b.WriteString(before + value)
		template = template[to:]
	}
	b.WriteString(template)
	u, err := url.Parse(b.String())
	if err != nil {
		return "", fmt.Errorf("its URL: %w", err)
	}
	if climbs(u.EscapedPath()) {
		return "", fmt.Errorf("the path %s has a . or .., which a server takes for a step to elsewhere", u.EscapedPath())
	}
	return b.String(), nil
}

// form is how a body is written, and so how a value in it has to be escaped.
type form int8

const (
	plainBody form = iota
	jsonBody
	formBody // application/x-www-form-urlencoded
)

// bodyForm is told by the Content-Type, else by how the body begins.
func bodyForm(r *jobs.Request) form {
	if r.Body == "" {
		return plainBody
	}
	for name, value := range r.Headers {
		if !strings.EqualFold(name, "Content-Type") {
			continue
		}
		media, _, err := mime.ParseMediaType(value)
		switch {
		case err != nil:
			return plainBody
		case media == "application/json" || strings.HasSuffix(media, "+json"):
			return jsonBody
		case media == "application/x-www-form-urlencoded":
			return formBody
		}
		return plainBody
	}
	text := strings.TrimSpace(r.Body)
	from, _ := nextPlaceholder(text)
	if text != "" && (text[0] == '[' || text[0] == '{' && from != 0) {
		return jsonBody
	}
	return plainBody
}

func validJSONTemplate(template string) bool {
	text, err := fillJSON(template, func(_ string, quoted bool) (string, error) {
		if quoted {
			return "x", nil
		}
		return "0", nil
	})
	return err == nil && json.Valid([]byte(text))
}

// fillJSON replaces placeholders in JSON; quoted says of each whether it stands
// inside of a string.
func fillJSON(template string, value func(name string, quoted bool) (string, error)) (string, error) {
	var b strings.Builder
	quoted := false
	for {
		from, to := nextPlaceholder(template)
		if from < 0 {
			break
		}
		quoted = inString(template[:from], quoted)
		text, err := value(template[from+1:to-1], quoted)
		if err != nil {
			return "", err
		}
		b.WriteString(template[:from] + text)
		template = template[to:]
	}
	return b.String() + template, nil
}

// inString says whether JSON that went on so far ends inside of a string.
func inString(text string, quoted bool) bool {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == '\\' && quoted:
			i++
		}
	}
	return quoted
}

// expandBody is the body of one item, its values escaped for how it is written.
func (v *values) expandBody(r *jobs.Request) (string, error) {
	switch bodyForm(r) {
	case jsonBody:
		return fillJSON(r.Body, v.inJSON)
	case formBody:
		return v.expandWith(r.Body, url.QueryEscape)
	}
	text, _, err := v.expand(r.Body)
	return text, err
}

func (v *values) expandWith(template string, escape func(string) string) (string, error) {
	var failed error
	text := fill(template, func(name string) string {
		value, err := v.value(name)
		failed = errors.Join(failed, err)
		return escape(value)
	})
	return text, failed
}

// inJSON is a value as it stands in JSON: inside of a string its characters,
// elsewhere the value itself, where a field may be anything.
func (v *values) inJSON(name string, quoted bool) (string, error) {
	if !quoted && name == "attempt" {
		return strconv.Itoa(v.item.Attempt), nil
	}
	raw := !quoted && strings.HasPrefix(name, ".")
	value, err := "", error(nil)
	if raw {
		value, err = v.rawField(name[1:])
	} else {
		value, err = v.value(name)
	}
	if err != nil {
		return "", err
	}
	if !utf8.ValidString(value) {
		return "", fmt.Errorf("{%s}: %q is no UTF-8, which JSON can't carry", name, value)
	}
	if raw {
		return value, nil
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return "", err
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if quoted {
		text = text[1 : len(text)-1]
	}
	return text, nil
}

// hostOf is the host and port to which a URL leads, the port spelt out.
func hostOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
