package config

import (
	"slices"
	"strings"

	"batchq/jobs"
	"batchq/jobs/handler"
)

// request is the one that a job's table declares, made when its first key is
// met.
func (t *target) request() *jobs.Request {
	h := &t.spec.Handler
	if h.HTTP == nil {
		h.HTTP = &jobs.Request{}
	}
	return h.HTTP
}

// headersAt reads a table of headers, by name. What may stand in it is for
// checkRequest, which sees the whole request.
func headersAt(field func(*target) *map[string]string) kind {
	return kind{"table of strings", func(r *reading, t *target, n *node) {
		m := map[string]string{}
		for _, entry := range r.entries(n) {
			s, reason := stringOf(entry)
			if reason != "" {
				r.fault(entry, "%s", reason)
				continue
			}
			m[entry.key] = s
		}
		*field(t) = m
	}}
}

// httpNode is where a job's request begins; nil for a job that has none.
func (d *declared) httpNode() (first *node) {
	for name, n := range d.set {
		if strings.HasPrefix(name, "http.") && (first == nil || n.line < first.line) {
			first = n
		}
	}
	return first
}

// idleForHTTP are keys that mean nothing where no process is started. In
// [defaults] they stand for other jobs.
var idleForHTTP = []string{"dir", "env", "stdin", "kill_after", "exit_codes.done", "exit_codes.retry", "exit_codes.permanent", "exit_codes.otherwise"}

// checkRequest finds what is wrong with a job's request, each where it stands.
func (r *reading) checkRequest(d *declared) {
	first := d.httpNode()
	if first == nil {
		return
	}
	for _, key := range idleForHTTP {
		switch n := d.set[key]; {
		case n == nil:
		case key == "env":
			r.fault(n, "means nothing for an http job: a header that is env:NAME is read from the environment of the run")
		default:
			r.fault(n, "means nothing for an http job, which starts no process")
		}
	}
	if d.set["http.url"] == nil {
		r.fault(first, `http has no url: write url = "https://HOST/PATH/{key}"`)
		return
	}
	if r.faultIn(d.node) {
		return // what would be told of the rest follows from that
	}
	for _, f := range handler.CheckRequest(d.spec.Handler.HTTP) {
		at := d.set["http."+f.Key]
		if at == nil { // a method that follows from a body
			at = first
		}
		if entry := at.byKey[f.Header]; f.Header != "" && entry != nil {
			at = entry
		}
		r.fault(at, "%s", f.Reason)
	}
}

// headerNames is a table of headers without the values that may be secrets.
func headerNames(n *node) string {
	var parts []string
	for _, entry := range n.order {
		value := "…"
		if _, secret := jobs.Secret(entry.text); secret {
			value = entry.toml()
		}
		parts = append(parts, bareOrQuoted(entry.key)+" = "+value)
	}
	return braced(slices.Compact(parts))
}
