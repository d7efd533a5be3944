package handler

import (
	"fmt"
	"net/http"
	"strings"

	"batchq/jobs"
)

// brokenJob is an error that says that no item of the job could be sent now.
type brokenJob struct{ error }

// message is the request of one item, whole.
type message struct {
	method, url, body string
	headers           http.Header
	secrets           []string // names of headers whose value is not to be seen
	host              string   // "": that of the URL
}

// compose makes the request of one attempt. getenv answers for env:NAME. An
// error that is no brokenJob is the item's own.
func compose(a *Attempt, getenv func(string) (string, bool)) (*message, error) {
	r := a.Spec.Handler.HTTP
	v := &values{item: a.Item}
	m := &message{method: r.Verb(), headers: http.Header{}}
	var err error
	if m.url, err = v.expandURL(r.URL); err != nil {
		return nil, err
	}
	if m.body, err = v.expandBody(r); err != nil {
		return nil, err
	}
	if r.SendsPayload() {
		m.body = string(a.Item.Payload)
	}
	for _, name := range sortedKeys(r.Headers) {
		if err := m.header(v, name, r.Headers[name], getenv); err != nil {
			return nil, err
		}
	}
	m.otherwise("User-Agent", "batchq")
	m.otherwise("Idempotency-Key", a.IdempotencyKey)
	switch form := bodyForm(r); {
	case m.body == "":
	case form == jsonBody, r.SendsPayload() && looksLikeJSON(a.Item.Payload):
		m.otherwise("Content-Type", "application/json")
	default:
		m.otherwise("Content-Type", "application/octet-stream")
	}
	return m, nil
}

// header adds one that the job declares.
func (m *message) header(v *values, name, value string, getenv func(string) (string, bool)) error {
	variable, secret := jobs.Secret(value)
	if !secret {
		text, _, err := v.expand(value)
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		if reason := valueFault(text); reason != "" {
			return fmt.Errorf("header %s %s", name, reason)
		}
		if strings.EqualFold(name, "Host") {
			m.host = text
			return nil
		}
		m.headers.Set(name, text)
		return nil
	}
	text, set := getenv(variable)
	switch {
	case !set:
		return brokenJob{fmt.Errorf("header %s: the variable %s is not set in the environment of this run", name, variable)}
	case valueFault(text) != "":
		// What it holds is not said: it is a secret.
		return brokenJob{fmt.Errorf("header %s: the variable %s holds a line break or another character that no header can carry", name, variable)}
	}
	m.secrets = append(m.secrets, name)
	if strings.EqualFold(name, "Host") {
		m.host = text
		return nil
	}
	m.headers.Set(name, text)
	return nil
}

// otherwise adds a header that the job does not declare itself.
func (m *message) otherwise(name, value string) {
	if _, declared := m.headers[name]; !declared {
		m.headers.Set(name, value)
	}
}

// credentials are headers that another host must not see, wherever their value
// is from.
var credentials = []string{"Authorization", "Cookie", "Proxy-Authorization", "Www-Authenticate"}

// elsewhere is what of the headers goes along to another host.
func (m *message) elsewhere() http.Header {
	h := m.headers.Clone()
	for _, name := range append(m.secrets, credentials...) {
		h.Del(name)
	}
	return h
}

// looksLikeJSON says whether a payload is a row or a document, and no line of
// text.
func looksLikeJSON(payload []byte) bool {
	text := strings.TrimSpace(string(payload[:min(len(payload), 64)]))
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}
