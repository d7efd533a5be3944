package handler

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
)

func TestParseAnswer(t *testing.T) {
	for text, want := range map[string]jobs.Answer{
		`{"class":"done"}`:                                       {Class: jobs.ClassDone},
		"  {\"class\":\"retry\"}\r\n\n":                          {Class: jobs.ClassRetry},
		"{\n\"class\": \"permanent\",\n\"error\": \"no\"\n}":     {Class: jobs.ClassPermanent, Error: "no"},
		`{"class":"defer","after":"30s","error":"later"}`:        {Class: jobs.ClassDefer, After: 30 * time.Second, Error: "later"},
		`{"class":"defer","after":" 1h30m "}`:                    {Class: jobs.ClassDefer, After: 90 * time.Minute},
		`{"class":"defer","after":"30"}`:                         {Class: jobs.ClassDefer, After: 30 * time.Second},
		`{"class":"defer","after":30}`:                           {Class: jobs.ClassDefer, After: 30 * time.Second},
		`{"class":"defer","after":1.5}`:                          {Class: jobs.ClassDefer, After: 1500 * time.Millisecond},
		`{"class":"defer","after":-5}`:                           {Class: jobs.ClassDefer},
		`{"class":"defer","after":"-5m"}`:                        {Class: jobs.ClassDefer},
		`{"class":"defer","after":1e300}`:                        {Class: jobs.ClassDefer, After: math.MaxInt64},
		`{"class":"defer","after":1e999}`:                        {Class: jobs.ClassDefer, After: math.MaxInt64},
		`{"class":"defer","after":"-1e999"}`:                     {Class: jobs.ClassDefer},
		`{"class":"defer","after":null,"error":null}`:            {Class: jobs.ClassDefer},
		`{"class":"done","rows":12,"after":0,"id":"x","z":[{}]}`: {Class: jobs.ClassDone},
		`{"class":"retry","error":"` + strings.Repeat("é", 3000) + `"}`: {
			Class: jobs.ClassRetry, Error: strings.Repeat("é", maxAnswerError/2)},
	} {
		if got, err := ParseAnswer([]byte(text)); err != nil || *got != want {
			t.Errorf("%.60s: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " \n\t\r\n"} {
		if got, err := ParseAnswer([]byte(text)); got != nil || err != nil {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		`done`:                                  `"done" is no JSON object`,
		`null`:                                  `"null" is no JSON object`,
		`[]`:                                    `"[]" is no JSON object`,
		`{"class":"done"`:                       `"{\"class\":\"done\"" is no JSON object`,
		`{"class":"done"}{"class":"done"}`:      `more than one answer`,
		`{"class":"done"} x`:                    `more than one answer`,
		`{}`:                                    `no "class"`,
		`{"class":3}`:                           `class "3" is no text`,
		`{"class":null}`:                        `class "": want done, retry, permanent or defer`,
		`{"class":"timeout"}`:                   `class "timeout": want done, retry, permanent or defer`,
		`{"class":"Done"}`:                      `class "Done": want done, retry, permanent or defer`,
		`{"class":"done","error":{}}`:           `error "{}" is no text`,
		`{"class":"done","after":"soon"}`:       `after "\"soon\"": want a duration such as "30s", or seconds`,
		`{"class":"done","after":"NaN"}`:        `after "\"NaN\"": want a duration such as "30s", or seconds`,
		`{"class":"done","after":true}`:         `after "true": want a duration such as "30s", or seconds`,
		`{"class":"done","after":["30s"]}`:      `after "[\"30s\"]": want a duration such as "30s", or seconds`,
		strings.Repeat("x", 100):                `"` + strings.Repeat("x", 40) + `"… is no JSON object`,
		`{"class":"` + strings.Repeat("x", 100): `"{\"class\":\"` + strings.Repeat("x", 30) + `"… is no JSON object`,
	} {
		if got, err := ParseAnswer([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%.60s: got %+v, %v\nwant %s", text, got, err, want)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"class":"defer","after":"30s","error":"é"}`))
	f.Add([]byte(`{"class":"retry","after":1e400}`))
	f.Add([]byte(`{"class":"done"} {}`))
	f.Add([]byte(`{"class":"permanent","class":"done","after":"-1","error":"\ud800\u001b","extra":[{}]}`))
	f.Add([]byte("{\"class\":\"defer\",\"after\":\" 1e9 \",\"error\":\"" + strings.Repeat("\xff", maxAnswerError) + "\"}\n"))
	f.Add([]byte(`{"class":"retry","after":"NaN"}`))
	f.Add([]byte(``))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseAnswer(text)
		if got != nil && err != nil {
			t.Fatal("an answer and an error")
		}
		if err != nil && (strings.ContainsAny(err.Error(), "\n\x1b") || len(err.Error()) > 400) {
			t.Fatalf("an error that can't be shown: %q", err)
		}
		if got == nil {
			return
		}
		if got.After < 0 || len(got.Error) > maxAnswerError {
			t.Fatalf("out of bounds: %+v", got)
		}
		switch got.Class {
		case jobs.ClassDone, jobs.ClassRetry, jobs.ClassPermanent, jobs.ClassDefer:
		default:
			t.Fatalf("no class: %+v", got)
		}
		// Written as we understand it, it is understood as the same.
		line, err := json.Marshal(map[string]any{"class": got.Class, "after": got.After.String(), "error": got.Error})
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseAnswer(append(line, '\n')); err != nil || *again != *got {
			t.Fatalf("%s is read as %+v, %v; want %+v", line, again, err, got)
		}
	})
}

func TestRun_Answer(t *testing.T) {
	for command, want := range map[string]struct {
		answer *jobs.Answer
		err    string
	}{
		`exit 1`: {nil, ""},
		`echo '{"class":"done"}' >"$BATCHQ_RESULT"; exit 1`:                             {&jobs.Answer{Class: jobs.ClassDone}, ""},
		`echo '{"class":"defer","after":"2m"}' >x && mv x "$BATCHQ_RESULT"; exit 1`:     {&jobs.Answer{Class: jobs.ClassDefer, After: 2 * time.Minute}, ""},
		`: >"$BATCHQ_RESULT"; exit 1`:                                                   {nil, ""},
		`echo oops >"$BATCHQ_RESULT"; exit 1`:                                           {nil, `$BATCHQ_RESULT: "oops" is no JSON object`},
		`head -c 65537 /dev/zero >"$BATCHQ_RESULT"; exit 1`:                             {nil, "$BATCHQ_RESULT: longer than 65536 bytes"},
		`mkfifo "$BATCHQ_RESULT"; exit 1`:                                               {nil, "$BATCHQ_RESULT: no regular file (p---------)"},
		`ln -s /dev/zero "$BATCHQ_RESULT"; exit 1`:                                      {nil, "$BATCHQ_RESULT: a symbolic link and no file"},
		`mkdir -p "$BATCHQ_RESULT/sub"; : >"$BATCHQ_RESULT/sub/x"; exit 1`:              {nil, "$BATCHQ_RESULT: no regular file (d---------)"},
		`test ! -e "$BATCHQ_RESULT" && test -d "${BATCHQ_RESULT%/*}" || exit 9; exit 1`: {nil, ""},
	} {
		r := newRunner(t)
		result, _ := r.Run(t.Context(), context.Background(), attempt(jobs.Handler{Shell: command, Dir: t.TempDir()}))
		wantExit(t, result, 1)
		if result.AnswerError != want.err || (result.Answer == nil) != (want.answer == nil) || want.answer != nil && *result.Answer != *want.answer {
			t.Errorf("%s: got %+v %q", command, result.Answer, result.AnswerError)
		}
		if left, err := os.ReadDir(r.temp.path); err != nil || len(left) != 0 {
			t.Errorf("%s: left in the private directory: %v %v", command, left, err)
		}
	}
}

func TestRunner_PrivateDirectory(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, err := NewRunner("tok")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(os.TempDir(), "batchq-tok")
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || r.temp.path != dir {
		t.Fatalf("%s: %v %v", r.temp.path, info, err)
	}
	// A cleaner takes it away under a long run: the next attempt has another.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	answer := shell(`echo '{"class":"permanent"}' >"$BATCHQ_RESULT"`)
	if result, _ := r.Run(t.Context(), context.Background(), answer); result.Answer == nil {
		t.Errorf("got %+v", result)
	}
	// And if somebody else has put something at the name, it is not used.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	script(t, os.TempDir(), "batchq-tok", "", 0o644)
	if result, _ := r.Run(t.Context(), context.Background(), answer); result.Answer == nil || r.temp.path == dir {
		t.Errorf("got %+v in %s", result, r.temp.path)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if names, err := filepath.Glob(os.TempDir() + "/*"); err != nil || len(names) != 1 {
		t.Errorf("left after Close: %v %v", names, err)
	}
}

func TestClean(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, err := NewRunner("dead")
	if err != nil {
		t.Fatal(err)
	}
	script(t, r.temp.path, "result-1", "{}", 0o600)
	for _, token := range []string{"", ".", "..", "other", "../batchq-dead", "dead"} {
		if !exists(r.temp.path) {
			t.Errorf("it is gone before Clean(%q)", token)
		}
		if err := Clean(token); err != nil {
			t.Errorf("Clean(%q): %v", token, err)
		}
	}
	if exists(r.temp.path) {
		t.Error("it is still there")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
