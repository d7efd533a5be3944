package jobs

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// DefaultHTTPTimeout is how long a request may take where nobody says: a server
// that has not answered by then hardly will, and the default for commands is an
// hour.
const DefaultHTTPTimeout = time.Minute

// Request is what an HTTP job sends for each item. URL, Headers and Body hold
// placeholders.
type Request struct {
	URL    string `json:"url"`
	Method string `json:"method,omitempty"` // "": POST with a Body, else GET
	// Headers are the values by name. One that is env:NAME as a whole is read
	// from the run's environment when it is sent, and stands nowhere else.
	Headers map[string]string `json:"headers,omitempty"`
	Body    string            `json:"body,omitempty"` // "": the payload, where there is one
}

// Verb is the method with which a request is sent.
func (r *Request) Verb() string {
	switch {
	case r.Method != "":
		return r.Method
	case r.Body != "":
		return "POST"
	}
	return "GET"
}

// SendsPayload says whether an item's payload is the body.
func (r *Request) SendsPayload() bool {
	return r.Body == "" && !slices.Contains([]string{"GET", "HEAD", "DELETE"}, r.Verb())
}

// Secret is the variable of the environment that holds a header's value, if it
// is one that is not to be seen: env:NAME.
func Secret(value string) (name string, secret bool) { return strings.CutPrefix(value, "env:") }

// Public is the request without what may be secret: of its headers those alone
// that say where their value is to be found.
func (r *Request) Public() *Request {
	public := *r
	public.Headers = maps.Clone(r.Headers)
	maps.DeleteFunc(public.Headers, func(_, value string) bool {
		_, secret := Secret(value)
		return !secret
	})
	return &public
}

// CloneRequest copies r so that the two share nothing; nil for nil.
func CloneRequest(r *Request) *Request {
	if r == nil {
		return nil
	}
	c := *r
	c.Headers = maps.Clone(r.Headers)
	return &c
}
