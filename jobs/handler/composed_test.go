package handler

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// checkComposed holds a request of FuzzCompose against what its template says.
func checkComposed(t *testing.T, m *message, key string) {
	t.Helper()
	u, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "https" || u.Host != "h:8443" || u.User != nil || u.Fragment != "" {
		t.Fatalf("%s leads elsewhere", m.url)
	}
	parts := strings.Split(u.EscapedPath(), "/")
	if len(parts) != 4 || parts[1] != "a" || parts[3] != "b" {
		t.Fatalf("the path of %s has other segments", m.url)
	}
	if segment, err := url.PathUnescape(parts[2]); err != nil || segment != key {
		t.Fatalf("segment %q, want %q (%v)", segment, key, err)
	}
	if q := u.Query(); len(q) != 2 || q.Get("q") != key || q.Get("z") != "1" {
		t.Fatalf("the query of %s is %v", m.url, q)
	}
	if got := m.headers.Get("X"); got != key || strings.ContainsAny(got, "\r\n\x00") {
		t.Fatalf("header %q", got)
	}
	var body map[string]string
	if err := json.Unmarshal([]byte(m.body), &body); err != nil || len(body) != 2 || body["a"] != key || body["b"] != key {
		t.Fatalf("body %s: %v", m.body, err)
	}
}
