package input_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/jobs/input"
)

// exportOutcomes is outcomes with what only an export has: a record is
// `LINE SCOPE "KEY" PRIORITY PAYLOAD`.
func exportOutcomes(t *testing.T, r io.Reader, o input.Options) (all []string) {
	t.Helper()
	reader, err := input.NewReader(r, o)
	if err != nil {
		t.Fatal(err)
	}
	for {
		rec, err := reader.Next()
		bad, rejected := errors.AsType[*input.Rejected](err)
		switch {
		case err == io.EOF:
			return all
		case rejected:
			all = append(all, fmt.Sprintf("%d ! %s", bad.Line, bad.Reason))
		case err != nil:
			t.Fatal(err)
		default:
			payload := "none"
			if rec.Payload != nil {
				payload = fmt.Sprintf("%q", rec.Payload)
			}
			all = append(all, fmt.Sprintf("%d %q %q %d %s", rec.Line, *rec.Scope, rec.Key, rec.Priority, payload))
		}
	}
}

func TestReader_Export(t *testing.T) {
	for _, c := range []struct {
		name, in string
		wants    []string
	}{
		{"Empty", "", nil},
		{"Whole", `{"job":"j","scope":"mon","key":"k","payload":"{\"a\":1}","priority":-3,"id":7,"class":"timeout","reason":"x","attempts":1}`,
			[]string{`1 "mon" "k" -3 "{\"a\":1}"`}},
		{"Least", "{\"key\":\"k\",\"job\":\"j\"}\r\n\n \t\n{\"job\":\"j\",\"key\":\"l\"}", []string{`1 "" "k" 0 none`, `4 "" "l" 0 none`}},
		{"Bytes", `{"job":"j","scope_base64":"/w==","key_base64":"/w==","payload_base64":"AP4="}`, []string{`1 "\xff" "\xff" 0 "\x00\xfe"`}},
		{"EmptyPayloadIsNotNone", "{\"job\":\"j\",\"key\":\"a\",\"payload\":\"\"}\n{\"job\":\"j\",\"key\":\"b\",\"payload_base64\":\"\"}\n{\"job\":\"j\",\"key\":\"c\"}",
			[]string{`1 "" "a" 0 ""`, `2 "" "b" 0 ""`, `3 "" "c" 0 none`}},
		{"Escapes", `{"job":"j","scope":"a\tb","key":"\"\\\n\u00e9\ud83d\ude00","payload":"a\u0000\r\n"}`, []string{`1 "a\tb" "\"\\\né😀" 0 "a\x00\r\n"`}},
		{"ScopesDiffer", "{\"job\":\"j\",\"key\":\"a\",\"scope\":\"x\"}\n{\"job\":\"j\",\"key\":\"a\",\"scope\":\"y\"}\n{\"job\":\"j\",\"key\":\"a\"}",
			[]string{`1 "x" "a" 0 none`, `2 "y" "a" 0 none`, `3 "" "a" 0 none`}},
		{"UnknownFields", `{"job":"j","key":"k","new":{"job":"x","key":[1]},"new":null,"id":"text"}`, []string{`1 "" "k" 0 none`}},

		{"OtherJob", "{\"job\":\"mail\",\"key\":\"k\"}\n{\"job\":\"j\",\"key\":\"k\"}", []string{`1 ! the record is of job "mail", and JOB is "j"`, `2 "" "k" 0 none`}},
		{"NoJob", `{"key":"k"}`, []string{`1 ! field "job" is missing: want what dlq export writes`}},
		{"NoKey", `{"job":"j"}`, []string{`1 ! field "key" is missing`}},
		{"EmptyKey", "{\"job\":\"j\",\"key\":\"\"}\n{\"job\":\"j\",\"key_base64\":\"\"}", []string{`1 ! field "key" is empty: a key never is`, `2 ! field "key_base64" is empty: a key never is`}},
		{"NULInKey", "{\"job\":\"j\",\"key\":\"a\\u0000\"}\n{\"job\":\"j\",\"key_base64\":\"AA==\"}",
			[]string{`1 ! field "key" holds a NUL, which no command can be given`, `2 ! field "key_base64" holds a NUL, which no command can be given`}},
		{"BothForms", "{\"job\":\"j\",\"key\":\"k\",\"key_base64\":\"aw==\"}\n{\"job\":\"j\",\"key\":\"k\",\"payload\":\"\",\"payload_base64\":\"\"}",
			[]string{`1 ! fields "key" and "key_base64" are both there: one of them is meant`, `2 ! fields "payload" and "payload_base64" are both there: one of them is meant`}},
		{"Twice", "{\"job\":\"j\",\"key\":\"k\",\"k\\u0065y\":\"k\"}\n{\"job\":\"j\",\"job\":\"j\",\"key\":\"k\"}", []string{`1 ! field "key" is there twice`, `2 ! field "job" is there twice`}},
		{"NoBase64", "{\"job\":\"j\",\"key_base64\":\"a?==\"}\n{\"job\":\"j\",\"key\":\"k\",\"payload_base64\":\"abc\"}\n{\"job\":\"j\",\"key_base64\":\"ax==\"}",
			[]string{`1 ! field "key_base64" is no base64`, `2 ! field "payload_base64" is no base64`, `3 ! field "key_base64" is no base64`}},
		{"WrongTypes", strings.Join([]string{
			`{"job":1,"key":"k"}`, `{"job":"j","key":7}`, `{"job":"j","key":null}`, `{"job":"j","key":["k"]}`, `{"job":"j","key":"k","payload":{"a":1}}`,
			`{"job":"j","key":"k","payload":null}`, `{"job":"j","key":"k","scope":true}`, `{"job":"j","key":"k","priority":"1"}`, `{"job":"j","key_base64":false}`}, "\n"),
			[]string{`1 ! field "job" is a number: want text`, `2 ! field "key" is a number: want text`, `3 ! field "key" is null: want text, or no such field`,
				`4 ! field "key" is an array: want text`, `5 ! field "payload" is an object: want text`, `6 ! field "payload" is null: want text, or no such field`,
				`7 ! field "scope" is true or false: want text`, `8 ! field "priority" is text: want a whole number`, `9 ! field "key_base64" is true or false: want text`}},
		{"Priority", strings.Join([]string{`{"job":"j","key":"k","priority":1000000}`, `{"job":"j","key":"k","priority":1000001}`, `{"job":"j","key":"k","priority":-1000001}`,
			`{"job":"j","key":"k","priority":1.5}`, `{"job":"j","key":"k","priority":1e3}`, `{"job":"j","key":"k","priority":null}`,
			`{"job":"j","key":"k","priority":` + strings.Repeat("9", 1000) + `}`}, "\n"),
			[]string{`1 "" "k" 1000000 none`, `2 ! field "priority" is 1000001: at most 1000000 either way`, `3 ! field "priority" is -1000001: at most 1000000 either way`,
				`4 ! field "priority" is 1.5: want a whole number`, `5 ! field "priority" is 1e3: want a whole number`, `6 ! field "priority" is null: want a whole number`,
				`7 ! field "priority" is 999999999999999999999999999999…: want a whole number`}},
		{"HalfSurrogate", `{"job":"j","key":"\ud800"}`, []string{`1 ! field "key" holds half of a surrogate pair, which is no text`}},
		{"NoObject", "[]\n7\n{\n\xff\n", []string{"1 ! an array, not an object: jq -c '.[]' makes a line of each of its elements", "2 ! not a JSON object",
			"3 ! not JSON: unexpected end of JSON input (byte 1 of the line)", "4 ! not UTF-8 (byte 1 of the line)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				got := exportOutcomes(t, r, input.Options{Format: input.Export, Job: "j"})
				if diff := cmp.Diff(c.wants, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

// What may be enqueued can be exported, and what was exported must be taken
// back: its line is longer than the record was.
func TestReader_ExportOfALongRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("a record of 64 MB: not under -short")
	}
	quotes := strings.Repeat(`\"`, input.DefaultMaxRecord/2+1) // its text is as long as a record may be
	got := read1(t, `{"job":"j","key":"k","payload":"`+quotes+`"}`)
	if len(got.Payload) != input.DefaultMaxRecord/2+1 {
		t.Errorf("a payload of %d bytes", len(got.Payload))
	}
}

func read1(t *testing.T, text string) input.Record {
	t.Helper()
	r, err := input.NewReader(strings.NewReader(text), input.Options{Format: input.Export, Job: "j"})
	if err != nil {
		t.Fatal(err)
	}
	rec, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// FuzzExport: each line has one fate under its own number, and what is taken
// means what encoding/json reads in it.
func FuzzExport(f *testing.F) {
	for _, s := range []string{
		"", `{"job":"j","scope":"s","key":"k","payload":"p","priority":3}`, `{"job":"j","key_base64":"/w==","payload_base64":"","scope_base64":"/w=="}`,
		`{"job":"x","key":"k"}`, "{\"job\":\"j\",\"key\":\"a\\u0000\"}\n\n[]", `{"job":"j","key":"k","key":"l"}`, `{"\u006aob":"j","key":"\ud800"}`,
		`{"job":"j","key":"k","priority":-1000000}`, `{"job":"j","key":"k","payload_base64":"YQ\n=="}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := input.Options{Format: input.Export, Job: "j", MaxRecord: fuzzMax}
		fates := walk(t, data, o, func(rec input.Record) {
			if rec.Scope == nil || rec.Priority < -jobs.MaxPriority || rec.Priority > jobs.MaxPriority {
				t.Fatalf("%+v", rec)
			}
			lines := strings.Split(strings.TrimPrefix(string(data), "\xef\xbb\xbf"), "\n")
			sameAsJSON(t, lines[rec.Line-1], rec)
		})
		if whole, usable := text(data, fates); usable {
			everyLine(t, whole, "\n", fates, spaceOnly, unknown)
		}
	})
}

// sameAsJSON compares a record with what encoding/json makes of its line.
func sameAsJSON(t *testing.T, line string, rec input.Record) {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	value := func(name string) (text string, there bool) {
		if plain, ok := fields[name]; ok {
			return plain.(string), true
		}
		coded, ok := fields[name+"_base64"]
		if !ok {
			return "", false
		}
		raw, err := base64.StdEncoding.DecodeString(coded.(string))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return string(raw), true
	}
	key, _ := value("key")
	scope, _ := value("scope")
	payload, paid := value("payload")
	priority, _ := fields["priority"].(float64)
	if fields["job"] != "j" || key != string(rec.Key) || scope != *rec.Scope || paid != (rec.Payload != nil) || payload != string(rec.Payload) || int(priority) != rec.Priority {
		t.Fatalf("%q: %+v", line, rec)
	}
}

// FuzzExport_Bytes: any bytes, written in the form that carries them, come back.
func FuzzExport_Bytes(f *testing.F) {
	f.Add([]byte("k"), []byte("\x00\xff\n\t\"\\"), "s\u2028", true)
	f.Add([]byte("\xff"), []byte{}, "\xfe", false)
	f.Fuzz(func(t *testing.T, key, payload []byte, scope string, paid bool) {
		if len(key) == 0 || bytes.IndexByte(key, 0) >= 0 {
			return
		}
		fields := map[string]any{"job": "j"}
		put := func(name string, value []byte) {
			if utf8.Valid(value) {
				fields[name] = string(value)
				return
			}
			fields[name+"_base64"] = value // encoding/json writes []byte so
		}
		put("key", key)
		put("scope", []byte(scope))
		if paid {
			put("payload", payload)
		}
		line, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		rec := read1(t, string(line))
		if !bytes.Equal(rec.Key, key) || *rec.Scope != scope || paid != (rec.Payload != nil) || paid && !bytes.Equal(rec.Payload, payload) {
			t.Fatalf("%s is read as %+v", line, rec)
		}
	})
}
