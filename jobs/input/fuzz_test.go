package input_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"batchq/jobs/input"
)

// walk reads data to its end and checks what holds for every format.
func walk(t *testing.T, data []byte, o input.Options, check func(input.Record)) {
	t.Helper()
	r, err := input.NewReader(bytes.NewReader(data), o)
	if err != nil {
		t.Fatal(err)
	}
	var line int64
	// Every call but the last takes at least one byte.
	for calls := 0; calls <= len(data)+1; calls++ {
		rec, err := r.Next()
		if bad, rejected := errors.AsType[*input.Rejected](err); rejected {
			if bad.Line < line || bad.Reason == "" {
				t.Fatalf("after line %d: %v", line, bad)
			}
			line = bad.Line
			continue
		}
		if _, unusable := errors.AsType[*input.Unusable](err); unusable || err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Line < line || len(rec.Key) == 0 || bytes.IndexByte(rec.Key, 0) >= 0 {
			t.Fatalf("after line %d: line %d, key %q", line, rec.Line, rec.Key)
		}
		line = rec.Line
		check(rec)
	}
	t.Fatalf("%d bytes and no end", len(data))
}

// fuzzMax is small enough for the fuzzer to exceed.
const fuzzMax = 300

var fuzzKeys = []string{"a", "b"}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a\nb", "a\r\n\r\n \t\nb\r", "\xef\xbb\xbfa\n", "a\x00b\nc\x00", "\xff\xfea\x00", "\x1f\x8b", strings.Repeat("x", 400) + "\ny"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		walk(t, data, input.Options{MaxRecord: fuzzMax}, func(rec input.Record) {
			if rec.Payload != nil || bytes.IndexByte(rec.Key, '\n') >= 0 || !bytes.Contains(data, rec.Key) {
				t.Fatalf("key %q, payload %q", rec.Key, rec.Payload)
			}
		})
		walk(t, data, input.Options{Format: input.NUL, MaxRecord: fuzzMax}, func(rec input.Record) {
			if rec.Payload != nil || !bytes.Contains(data, rec.Key) {
				t.Fatalf("key %q, payload %q", rec.Key, rec.Payload)
			}
		})
	})
}

func fuzzTable(f *testing.F, format input.Format, comma string) {
	for _, s := range []string{
		"", "a,b\n1,2\n", "\xef\xbb\xbfa,b\r\n1,\"2\r\n\"\"\"\r\n\r\n", "b,c,a\n,,\nx\n\"", "a,b\n\"x\ny\"z\n1,2", "a,b\n1\x00,caf\xe9\n",
		"a,b\n" + strings.Repeat("x", 400) + ",1\n2,3", "a,b\n1,\"" + strings.Repeat("\n", 400), "a,a\n", "a,b\n/,%\n",
	} {
		f.Add([]byte(strings.ReplaceAll(s, ",", comma)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range []input.Options{{Key: fuzzKeys}, {Key: fuzzKeys[:1], Columns: fuzzKeys}} {
			o.Format, o.MaxRecord = format, fuzzMax
			walk(t, data, o, func(rec input.Record) {
				var row map[string]string
				if err := json.Unmarshal(rec.Payload, &row); err != nil {
					t.Fatalf("%q: %v", rec.Payload, err)
				}
				if want := expectedKey(o.Key, row); want != string(rec.Key) {
					t.Fatalf("%q: key %q, want %q", rec.Payload, rec.Key, want)
				}
			})
		}
	})
}

// expectedKey makes a key of what a payload says its fields are.
func expectedKey(fields []string, row map[string]string) string {
	if len(fields) == 1 {
		return row[fields[0]]
	}
	var parts []string
	for _, field := range fields {
		parts = append(parts, strings.NewReplacer("%", "%25", "/", "%2F").Replace(row[field]))
	}
	return strings.Join(parts, "/")
}

func FuzzCSV(f *testing.F) { fuzzTable(f, input.CSV, ",") }

func FuzzTSV(f *testing.F) { fuzzTable(f, input.TSV, "\t") }

func FuzzJSONL(f *testing.F) {
	for _, s := range []string{
		"", `{"a":"1","b":2}`, "{\"a\":1e3,\"b\":true}\r\n\n{\"a\":null}\n[]\n7", `{"b":"\ud83d\ude00\ud800","a":"\u0000"}`,
		`{"a":"x\/y%","c":[{"a":"}"},"\\"],"b":-0.5}`, `{"\u0061":1,"a":2}`, ` { "a" : "" , "b" : "" } `, "{\"a\":\"\xe9\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, key := range [][]string{fuzzKeys, fuzzKeys[:1]} {
			walk(t, data, input.Options{Format: input.JSONL, Key: key, MaxRecord: fuzzMax}, func(rec input.Record) {
				var object map[string]json.RawMessage
				if err := json.Unmarshal(rec.Payload, &object); err != nil || !bytes.Contains(data, rec.Payload) {
					t.Fatalf("%q: %v", rec.Payload, err)
				}
				// encoding/json has to find the same members with the same values.
				row := map[string]string{}
				for _, field := range key {
					row[field] = string(object[field])
					if object[field][0] == '"' {
						var s string
						if err := json.Unmarshal(object[field], &s); err != nil {
							t.Fatal(err)
						}
						row[field] = s
					}
				}
				if want := expectedKey(key, row); want != string(rec.Key) {
					t.Fatalf("%q: key %q, want %q", rec.Payload, rec.Key, want)
				}
			})
		}
	})
}
