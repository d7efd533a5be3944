package handler

import (
	"fmt"
	"strings"

	"batchq/jobs"
)

// Sent is the request of one attempt: enough for a person to send the same.
type Sent struct {
	Method, URL string
	Headers     []SentHeader
	Body        string
	Payload     bool // the body is the item's payload, which Body does not repeat
}

// SentHeader is one header. Of a secret only the variable is known, which holds
// it.
type SentHeader struct{ Name, Value, Variable string }

// sentBy is what request would send for an attempt, from the same code, but for
// the values of secrets.
func sentBy(a *Attempt) (*Sent, error) {
	m, err := compose(a, func(string) (string, bool) { return "", true })
	if err != nil {
		return nil, err
	}
	r := a.Spec.Handler.HTTP
	out := &Sent{Method: m.method, URL: m.url, Body: m.body, Payload: r.SendsPayload() && m.body != ""}
	if out.Payload {
		out.Body = ""
	}
	if m.host != "" {
		m.headers.Set("Host", m.host)
	}
	variables := map[string]string{}
	for name, value := range r.Headers {
		if variable, secret := jobs.Secret(value); secret {
			variables[strings.ToLower(name)] = variable
			m.headers.Set(name, "")
		}
	}
	for _, name := range sortedKeys(m.headers) {
		out.Headers = append(out.Headers, SentHeader{name, m.headers.Get(name), variables[strings.ToLower(name)]})
	}
	return out, nil
}

// unsetVariable says which variable a request would miss in an environment; ""
// for none.
func unsetVariable(r *jobs.Request, environ []string) string {
	for _, name := range sortedKeys(r.Headers) {
		secret, is := jobs.Secret(r.Headers[name])
		if _, set := variable(environ, secret); is && !set {
			return fmt.Sprintf("header %s: the variable %s is not set in this environment", name, secret)
		}
	}
	return ""
}
