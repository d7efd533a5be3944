package handler

import (
	"strings"
	"testing"

	"batchq/jobs"
)

func itemOf(key, payload string) *jobs.Item {
	it := &jobs.Item{ID: 7, Job: "j", Scope: "s/1", Key: []byte(key), Attempt: 2}
	if payload != "" {
		it.Payload = []byte(payload)
	}
	return it
}

// composed is the request of an item, or the error.
func composed(r jobs.Request, it *jobs.Item, env map[string]string) (*message, error) {
	return compose(&Attempt{Item: it, Spec: &jobs.Spec{Name: "j", Handler: jobs.Handler{HTTP: &r}}, IdempotencyKey: "idem"},
		func(name string) (string, bool) { v, ok := env[name]; return v, ok })
}

func TestCompose_URL(t *testing.T) {
	for _, c := range []struct{ name, template, key, payload, want, err string }{
		{"Plain", "http://h/o/{key}", "17", "", "http://h/o/17", ""},
		{"Slash", "http://h/o/{}", "a/b?c#d e%2F", "", "http://h/o/a%2Fb%3Fc%23d%20e%252F", ""},
		{"Bytes", "http://h/o/{}", "\xff", "", "http://h/o/%FF", ""},
		{"Query", "http://h/o?k={key}&s={scope}&n={attempt}", "a&b=c d/", "", "http://h/o?k=a%26b%3Dc+d%2F&s=s%2F1&n=2", ""},
		{"Both", "http://h/{job}/{key}?q={.q}", "k", `{"q":"ü?"}`, "http://h/j/k?q=%C3%BC%3F", ""},
		{"OtherBraces", "http://h/{x}/{key}", "k", "", "http://h/{x}/k", ""},
		{"Once", "http://h/{key}", "{scope}", "", "http://h/%7Bscope%7D", ""},
		{"DotDot", "http://h/o/{key}", "..", "", "", "has a . or .."},
		{"Dot", "http://h/o/{key}/x", ".", "", "", "has a . or .."},
		{"DotDotInside", "http://h/o/{key}", "a/../../b", "", "", "has a . or .."},
		{"DotDotBackslash", "http://h/o/{key}", `a\..\b`, "", "", "has a . or .."},
		{"DotDotOfTwo", "http://h/o/.{key}", ".", "", "", "has a . or .."},
		{"DotsInAName", "http://h/o/{key}", "a..b.json", "", "http://h/o/a..b.json", ""},
		{"DotDotInQuery", "http://h/o?p={key}", "../x", "", "http://h/o?p=..%2Fx", ""},
		{"Empty", "http://h/o/{.id}", "k", `{"id":""}`, "", "{.id} is empty"},
		{"EmptyInQuery", "http://h/o?x={.id}", "k", `{"id":""}`, "http://h/o?x=", ""},
		{"NoField", "http://h/o/{.id}", "k", `{}`, "", `no field "id"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := composed(jobs.Request{URL: c.template}, itemOf(c.key, c.payload), nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || m.url != c.want {
				t.Fatalf("%v %v, want %s", m, err, c.want)
			}
		})
	}
}

func TestCompose_Body(t *testing.T) {
	jsonType := map[string]string{"content-type": "application/json; charset=utf-8"}
	for _, c := range []struct {
		name, body, method string
		headers            map[string]string
		key, payload       string
		want, media, err   string
	}{
		{"InString", `{"id":"{key}"}`, "", nil, "a\"b\\c\n\u2028<", "", "{\"id\":\"a\\\"b\\\\c\\n\\u2028<\"}", "application/json", ""},
		{"AfterEscapedQuote", `{"a":"\"{key}","b":{key}}`, "", nil, `x"`, "", `{"a":"\"x\"","b":"x\""}`, "application/json", ""},
		{"Values", `[{key}, {attempt}, {.n}, {.o}, {.z}, {.s}]`, "", nil, "k", `{"n":1.50,"o":{"a":[1]},"z":null,"s":"x"}`, `["k", 2, 1.50, {"a":[1]}, null, "x"]`, "application/json", ""},
		{"NotUTF8", `{"id":"{key}"}`, "", nil, "\xff", "", "", "", "no UTF-8"},
		{"NotUTF8Field", `[{.s}]`, "", nil, "k", "{\"s\":\"\xff\"}", "", "", "no UTF-8"},
		{"ByContentType", `{}`, "", jsonType, "k", "", `"k"`, "application/json; charset=utf-8", ""},
		{"Form", "id={key}&n={attempt}", "", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "a&b c", "", "id=a%26b+c&n=2", "application/x-www-form-urlencoded", ""},
		{"Plain", "id {key}", "", nil, "a\"b", "", `id a"b`, "application/octet-stream", ""},
		{"PayloadJSON", "", "POST", nil, "k", `{"a":1}`, `{"a":1}`, "application/json", ""},
		{"PayloadPlain", "", "PUT", nil, "k", "text", "text", "application/octet-stream", ""},
		{"PayloadOwnType", "", "PUT", map[string]string{"Content-Type": "text/csv"}, "k", "[x", "[x", "text/csv", ""},
		{"NoPayload", "", "POST", nil, "k", "", "", "", ""},
		{"GETHasNone", "", "", nil, "k", `{"a":1}`, "", "", ""},
		{"DELETEHasNone", "", "DELETE", nil, "k", `{"a":1}`, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := composed(jobs.Request{URL: "http://h/", Method: c.method, Headers: c.headers, Body: c.body}, itemOf(c.key, c.payload), nil)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %s", err, c.err)
				}
				return
			}
			if err != nil || m.body != c.want || m.headers.Get("Content-Type") != c.media {
				t.Fatalf("%+v %v", m, err)
			}
		})
	}
}

func TestCompose_Headers(t *testing.T) {
	env := map[string]string{"TOKEN": "Bearer s3cret", "BAD": "s3cret\n"}
	m, err := composed(jobs.Request{URL: "http://h/", Headers: map[string]string{"authorization": "env:TOKEN", "X-Item": "{job} {key}"}}, itemOf("k", ""), env)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Authorization": "Bearer s3cret", "X-Item": "j k", "Idempotency-Key": "idem", "User-Agent": "batchq"} {
		if got := m.headers.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if m, err := composed(jobs.Request{URL: "http://h/", Headers: map[string]string{"idempotency-key": "{key}"}}, itemOf("k", ""), env); err != nil || m.headers.Get("Idempotency-Key") != "k" {
		t.Errorf("%+v %v", m, err)
	}
	for _, c := range []struct {
		value, key, want string
		broken           bool
	}{
		{"env:NONE", "k", "header X: the variable NONE is not set", true},
		{"env:BAD", "k", "header X: the variable BAD holds a line break", true},
		{"a {key}", "x\r\nEvil: 1", `header X holds "\r"`, false},
		{"{key}", "\x01", `header X holds "\x01"`, false},
		{"{.none}", "k", "header X: {.none}", false},
	} {
		_, err := composed(jobs.Request{URL: "http://h/", Headers: map[string]string{"X": c.value}}, itemOf(c.key, ""), env)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, want %s", c.value, err, c.want)
		}
		if _, broken := err.(brokenJob); broken != c.broken {
			t.Errorf("%q: of the job %v, want %v", c.value, broken, c.broken)
		}
	}
}

// FuzzCompose: no key and no field leads a request to another host, or out of
// the segment in which it stands, or makes a header or a piece of JSON of it.
func FuzzCompose(f *testing.F) {
	for _, key := range []string{"k", "..", "a/../b", "%2e%2e", "\x00", "\xff", "?x#y", `"}`, "@evil/", "\r\nX: y", "\\..\\"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		if len(key) == 0 {
			t.Skip()
		}
		r := jobs.Request{URL: "https://h:8443/a/{key}/b?q={key}&z=1", Headers: map[string]string{"X": "{key}"}, Body: `{"a":"{key}","b":{key}}`}
		m, err := composed(r, &jobs.Item{Key: key}, nil)
		if err != nil {
			return
		}
		checkComposed(t, m, string(key))
	})
}
