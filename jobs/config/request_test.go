package config

import (
	"testing"
	"time"

	"batchq/jobs"
)

const httpJob = "[jobs.a.http]\nurl = 'https://h/{key}'\n"

func TestParse_Request(t *testing.T) {
	c := parse(t, "[defaults]\ndir = '/d'\nenv = { A = 'b' }\nkill_after = '1s'\n[jobs.a]\nhttp = { url = 'https://h:8443/o/{key}?s={scope}', method = 'PUT', headers = { X = 'env:T' }, body = '[{.a}]' }\n")
	h := c.Jobs["a"].Handler
	diff(t, h.HTTP, &jobs.Request{URL: "https://h:8443/o/{key}?s={scope}", Method: "PUT", Headers: map[string]string{"X": "env:T"}, Body: "[{.a}]"})
	if h.Dir != "" || h.Env != nil || h.Source != "batchq.toml:6" {
		t.Errorf("%+v", h)
	}
}

// A request has a minute, unless somebody says otherwise.
func TestParse_RequestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		httpJob:                                  time.Minute,
		"[defaults]\ntimeout = '2h'\n" + httpJob: 2 * time.Hour,
		"[jobs.a]\ntimeout = '5s'\n" + httpJob:   5 * time.Second,
		"[jobs.a]\ntimeout = '0'\n" + httpJob:    0,
		"[jobs.a]\nshell = 's'\n":                time.Hour,
	} {
		if got := parse(t, text).Jobs["a"].Policy.Timeout; got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	for _, s := range parse(t, httpJob).Settings("a") {
		if s.Key == "timeout" {
			diff(t, s, Setting{"timeout", `"60s"`, "default for http", BuiltIn})
		}
	}
}

// Values of headers may be secrets; where they are to be found is none.
func TestSettings_Headers(t *testing.T) {
	for _, s := range parse(t, httpJob+"headers = { Authorization = 'Bearer x', X-Key = 'env:T' }\n").Settings("a") {
		if s.Key == "http.headers" {
			diff(t, s.Value, `{ Authorization = …, X-Key = "env:T" }`)
			return
		}
	}
	t.Error("no headers")
}

func TestParse_RequestFaults(t *testing.T) {
	url := func(s string) string { return "[jobs.a.http]\nurl = '" + s + "'\n" }
	for _, c := range []struct{ name, text, want string }{
		{"no url", "[jobs.a.http]\nmethod = 'GET'\n", `2: jobs.a.http.method: http has no url: write url = "https://HOST/PATH/{key}"`},
		{"and a command", "[jobs.a]\ncommand = ['c']\n" + httpJob, "4: jobs.a.http.url: command is given too (line 2): a job has one of them"},
		{"and a shell", "[jobs.a]\nhttp.url = 'http://h'\nshell = 's'\n", "3: jobs.a.shell: http is given too (line 2): a job has one of them"},
		{"scheme", url("ftp://h/x"), "2: jobs.a.http.url: want a whole URL that begins with http:// or https://, and no placeholder before its path"},
		{"no scheme", url("h/x"), "2: jobs.a.http.url: want a whole URL that begins with http:// or https://, and no placeholder before its path"},
		{"placeholder as scheme", url("{scope}://h/x"), "2: jobs.a.http.url: want a whole URL that begins with http:// or https://, and no placeholder before its path"},
		{"placeholder as host", url("http://{key}/x"), "2: jobs.a.http.url: {key} stands in the host: an item must not choose to which server a request goes"},
		{"placeholder in host", url("http://h.{.a}.org"), "2: jobs.a.http.url: {.a} stands in the host: an item must not choose to which server a request goes"},
		{"placeholder as port", url("http://h:{key}/x"), "2: jobs.a.http.url: {key} stands in the host: an item must not choose to which server a request goes"},
		{"password", url("http://u:p@h/x"), `2: jobs.a.http.url: has a user's name or password, which would be shown: use headers = { Authorization = "env:NAME" }`},
		{"fragment", url("http://h/x#y"), "2: jobs.a.http.url: has a #, and what follows is never sent: write %23 for the character"},
		{"escape", url("http://h/%zz"), `2: jobs.a.http.url: is no URL: invalid URL escape "%zz"`},
		{"blank", url("http://h/a b"), "2: jobs.a.http.url: has a blank or a control character: write %20 for a blank"},
		{"no host", url("http:///x"), "2: jobs.a.http.url: names no host"},
		{"port", url("http://h:70000/x"), "2: jobs.a.http.url: port 70000: want 1 to 65535"},
		{"dots", url("http://h/a/../{key}"), "2: jobs.a.http.url: has a . or .. in its path: write the path that it leads to"},
		{"method", httpJob + "method = 'PO ST'\n", `3: jobs.a.http.method: "PO ST" is no method: write one like "POST"`},
		{"small method", httpJob + "method = 'post'\n", `3: jobs.a.http.method: "post": methods are in capitals: write "POST"`},
		{"CONNECT", httpJob + "method = 'CONNECT'\n", "3: jobs.a.http.method: CONNECT asks a proxy for a tunnel, which no job has a use for"},
		{"GET with a body", httpJob + "method = 'GET'\nbody = 'b'\n", `4: jobs.a.http.body: GET sends none: write method = "POST", or leave the body out`},
		{"header's name", httpJob + "headers = { 'a b' = 'x' }\n", "3: jobs.a.http.headers.\"a b\": is no name for a header: letters, digits and - alone"},
		{"header of ours", httpJob + "headers = { content-length = '1' }\n", "3: jobs.a.http.headers.content-length: is set by batchq itself"},
		{"header twice", httpJob + "headers = { X-A = '1', x-a = '2' }\n", `3: jobs.a.http.headers.x-a: is the same header as "X-A"`},
		{"header's value", httpJob + "headers = { X = \"a\\nb\" }\n", `3: jobs.a.http.headers.X: holds "\n", which no header can carry`},
		{"header of no string", httpJob + "headers = { X = 1 }\n", "3: jobs.a.http.headers.X: is an integer: want a string"},
		{"Host from an item", httpJob + "headers = { Host = '{key}' }\n", "3: jobs.a.http.headers.Host: has a placeholder: an item must not choose to which server a request goes"},
		{"no variable", httpJob + "headers = { X = 'env:' }\n", `3: jobs.a.http.headers.X: "env:" names no variable: write env:NAME, and nothing beside it`},
		{"variable and more", httpJob + "headers = { X = 'env:A b' }\n", `3: jobs.a.http.headers.X: "env:A b" names no variable: write env:NAME, and nothing beside it`},
		{"no JSON", httpJob + "body = '{\"a\": {key}'\n", "3: jobs.a.http.body: looks like JSON, or its Content-Type says so, and is none: mend it, or say another content-type in headers"},
		{"stdin", "[jobs.a]\nstdin = 'none'\n" + httpJob, "2: jobs.a.stdin: means nothing for an http job, which starts no process"},
		{"dir", "[jobs.a]\ndir = '/d'\n" + httpJob, "2: jobs.a.dir: means nothing for an http job, which starts no process"},
		{"env", "[jobs.a]\nenv = { A = 'b' }\n" + httpJob, "2: jobs.a.env: means nothing for an http job: a header that is env:NAME is read from the environment of the run"},
		{"exit codes", "[jobs.a]\nexit_codes.done = [3]\n" + httpJob, "2: jobs.a.exit_codes.done: means nothing for an http job, which starts no process"},
		{"kill_after", "[jobs.a]\nkill_after = '1s'\n" + httpJob, "2: jobs.a.kill_after: means nothing for an http job, which starts no process"},
		{"unknown", httpJob + "bodi = 'x'\n", `3: jobs.a.http.bodi: unknown key (did you mean "body"?)`},
		{"in defaults", "[defaults]\nhttp.url = 'http://h'\n", "2: defaults.http: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("conf/batchq.toml", []byte(c.text))
			if err == nil || err.Error() != "conf/batchq.toml:"+c.want {
				t.Errorf("got  %v\nwant conf/batchq.toml:%s", err, c.want)
			}
		})
	}
}
