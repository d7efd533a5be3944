package input_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"batchq/jobs/input"
)

// walk reads data to its end and checks what holds for every format. It
// returns what became of each record.
func walk(t *testing.T, data []byte, o input.Options, check func(input.Record)) (fates []fate) {
	t.Helper()
	r, err := input.NewReader(bytes.NewReader(data), o)
	if err != nil {
		t.Fatal(err)
	}
	slow, err := input.NewReader(iotest.OneByteReader(bytes.NewReader(data)), o)
	if err != nil {
		t.Fatal(err)
	}
	var line int64
	// Every call but the last takes at least one byte.
	for calls := 0; calls <= len(data)+1; calls++ {
		rec, err := r.Next()
		// How the bytes arrive makes no difference.
		if again, slowErr := slow.Next(); fmt.Sprint(err) != fmt.Sprint(slowErr) || !reflect.DeepEqual(rec, again) {
			t.Fatalf("at once: %+v, %v; byte by byte: %+v, %v", rec, err, again, slowErr)
		}
		if bad, rejected := errors.AsType[*input.Rejected](err); rejected {
			if bad.Line < line || bad.Reason == "" {
				t.Fatalf("after line %d: %v", line, bad)
			}
			line = bad.Line
			fates = append(fates, fate{line: line})
			continue
		}
		if _, unusable := errors.AsType[*input.Unusable](err); unusable || err == io.EOF {
			if again, _ := r.Next(); again.Key != nil {
				t.Fatalf("after the end: %+v", again)
			}
			if unusable {
				return append(fates, fate{unusable: true})
			}
			return fates
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Line < line || len(rec.Key) == 0 || bytes.IndexByte(rec.Key, 0) >= 0 {
			t.Fatalf("after line %d: line %d, key %q", line, rec.Line, rec.Key)
		}
		// Escapes make six bytes of one, in names and values; names and quotes come with each row.
		if len(rec.Key) > 3*o.MaxRecord+len(o.Key) || len(rec.Payload) > 18*o.MaxRecord+64 {
			t.Fatalf("records of at most %d bytes, and a key of %d with a payload of %d", o.MaxRecord, len(rec.Key), len(rec.Payload))
		}
		line = rec.Line
		check(rec)
		fates = append(fates, fate{line: line, key: string(rec.Key), payload: string(rec.Payload)})
	}
	t.Fatalf("%d bytes and no end", len(data))
	return nil
}

// fate is what became of one record; without a key it was rejected.
type fate struct {
	line         int64
	key, payload string
	unusable     bool // the input as a whole
}

// text is data without its byte order mark, and false where it is refused as
// a whole before any record.
func text(data []byte, fates []fate) (string, bool) {
	if len(fates) > 0 && fates[0].unusable {
		return "", false
	}
	return strings.TrimPrefix(string(data), "\xef\xbb\xbf"), true
}

// everyLine checks that each line that is not blank has exactly one fate, in
// order, under its own number: none is lost, and none comes twice. wanted says
// what key a line must have; "": it is to be rejected, or that is not known.
func everyLine(t *testing.T, whole, end string, fates []fate, blank func(string) bool, wanted func(string) (key string, known bool)) {
	t.Helper()
	lines := strings.Split(whole, end)
	for i, line := range lines {
		if blank(line) {
			continue
		}
		if len(fates) == 0 {
			t.Fatalf("line %d, %q, is lost", i+1, line)
		}
		if fates[0].line != int64(i+1) {
			t.Fatalf("line %d, %q, comes as line %d", i+1, line, fates[0].line)
		}
		if key, known := wanted(line); known && key != fates[0].key {
			t.Fatalf("line %d, %q: key %q, want %q", i+1, line, fates[0].key, key)
		}
		fates = fates[1:]
	}
	if len(fates) > 0 {
		t.Fatalf("%d too many: %+v", len(fates), fates)
	}
}

func unknown(string) (string, bool) { return "", false }

// spaceOnly: a line of nothing but space is no record. One beyond the limit is
// told of all the same: what is in it is not kept, so nobody knows.
func spaceOnly(line string) bool {
	return len(line) <= fuzzMax && strings.Trim(line, " \t\r") == ""
}

// fuzzMax is small enough for the fuzzer to exceed.
const fuzzMax = 300

var fuzzKeys = []string{"a", "b"}

func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a\nb", "a\r\n\r\n \t\nb\r", "\xef\xbb\xbfa\n", "a\x00b\nc\x00", "\xff\xfea\x00", "\x1f\x8b", strings.Repeat("x", 400) + "\ny"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fates := walk(t, data, input.Options{MaxRecord: fuzzMax}, func(rec input.Record) {
			if rec.Payload != nil || bytes.IndexByte(rec.Key, '\n') >= 0 || !bytes.Contains(data, rec.Key) {
				t.Fatalf("key %q, payload %q", rec.Key, rec.Payload)
			}
		})
		if whole, usable := text(data, fates); usable {
			everyLine(t, whole, "\n", fates, spaceOnly, func(line string) (string, bool) {
				if key := strings.TrimSuffix(line, "\r"); !strings.Contains(key, "\x00") && len(line) <= fuzzMax {
					return key, true
				}
				return "", true
			})
		}
		fates = walk(t, data, input.Options{Format: input.NUL, MaxRecord: fuzzMax}, func(rec input.Record) {
			if rec.Payload != nil || !bytes.Contains(data, rec.Key) {
				t.Fatalf("key %q, payload %q", rec.Key, rec.Payload)
			}
		})
		if len(fates) > 0 && fates[0].unusable {
			return
		}
		everyLine(t, string(data), "\x00", fates, func(s string) bool { return s == "" }, func(s string) (string, bool) {
			if len(s) > fuzzMax {
				return "", true
			}
			return s, true
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
			fates := walk(t, data, o, func(rec input.Record) {
				var row map[string]string
				if err := json.Unmarshal(rec.Payload, &row); err != nil {
					t.Fatalf("%q: %v", rec.Payload, err)
				}
				if want := expectedKey(o.Key, row); want != string(rec.Key) {
					t.Fatalf("%q: key %q, want %q", rec.Payload, rec.Key, want)
				}
				again(t, o, rec, row)
			})
			whole, usable := text(data, fates)
			if !usable || slices.ContainsFunc(fates, func(f fate) bool { return f.unusable }) {
				continue
			}
			if format == input.TSV {
				if o.Columns == nil {
					whole = blankHeader(whole)
				}
				everyLine(t, whole, "\n", fates, func(line string) bool { return strings.TrimSuffix(line, "\r") == "" }, unknown)
			}
		}
	})
}

// blankHeader empties the first line that is not blank: it is no record.
func blankHeader(whole string) string {
	lines := strings.Split(whole, "\n")
	for i, line := range lines {
		if strings.TrimSuffix(line, "\r") != "" {
			lines[i] = ""
			break
		}
	}
	return strings.Join(lines, "\n")
}

// again writes a row as its format wants it, and reads it once more: the same
// key and the same payload have to come of it.
func again(t *testing.T, o input.Options, rec input.Record, row map[string]string) {
	t.Helper()
	var names []string
	for name := range row {
		names = append(names, name)
	}
	slices.Sort(names)
	var values []string
	for _, name := range names {
		values = append(values, row[name])
	}
	quote, comma := func(s string) string { return s }, "\t"
	if o.Format == input.CSV {
		quote, comma = func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }, ","
	} else if strings.HasSuffix(values[len(values)-1], "\r") || strings.HasPrefix(values[0], "\ufeff") {
		return // TSV can't say that at the end or beginning of a file
	}
	var line []string
	for _, v := range values {
		line = append(line, quote(v))
	}
	one := o
	one.Columns, one.MaxRecord = names, 0
	text := strings.Join(line, comma) + "\n"
	r, err := input.NewReader(strings.NewReader(text), one)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Next()
	if _, unusable := errors.AsType[*input.Unusable](err); unusable || o.Format == input.TSV && strings.Trim(text, "\t\r\n") == "" {
		return // it begins as compressed data does
	}
	if err != nil || string(got.Key) != string(rec.Key) {
		t.Fatalf("%q: key %q, %v; want %q", text, got.Key, err, rec.Key)
	}
	var same map[string]string
	if err := json.Unmarshal(got.Payload, &same); err != nil || !maps.Equal(row, same) {
		t.Fatalf("%q: payload %q, %v; want %q", text, got.Payload, err, rec.Payload)
	}
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
			fates := walk(t, data, input.Options{Format: input.JSONL, Key: key, MaxRecord: fuzzMax}, func(rec input.Record) {
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
			if whole, usable := text(data, fates); usable {
				everyLine(t, whole, "\n", fates, spaceOnly, unknown)
			}
		}
	})
}

// FuzzOptions: no format, names or columns make a Reader panic; what it
// accepts has the named columns and no others.
func FuzzOptions(f *testing.F) {
	f.Add("csv", "id", "", []byte("id,n\n1,2\n"))
	f.Add("csv", "n|id", "id|n", []byte("1,\"2\"\n,\n"))
	f.Add("tsv", "a/b|c%", "c%|a/b|\x1b", []byte("1\t2/%\t3\n"))
	f.Add("jsonl", "\"|\\", "", []byte(`{"\"":1,"\\":"x"}`))
	f.Add("nul", "", "", []byte("a\x00"))
	f.Add("lines", "a", "b", []byte("a"))
	f.Add("", "\xff", "\xff", []byte("\xff"))
	f.Fuzz(func(t *testing.T, format, key, columns string, data []byte) {
		o := input.Options{Format: input.Format(format), Key: split(key), Columns: split(columns), MaxRecord: fuzzMax, Name: "x"}
		r, err := input.NewReader(bytes.NewReader(data), o)
		if err != nil {
			if err.Error() == "" || strings.Contains(err.Error(), "\x1b") {
				t.Fatalf("%q", err)
			}
			return
		}
		for range len(data) + 2 {
			rec, err := r.Next()
			if _, rejected := errors.AsType[*input.Rejected](err); rejected {
				continue
			}
			if err != nil {
				return
			}
			if len(o.Columns) == 0 {
				continue
			}
			var row map[string]string
			if err := json.Unmarshal(rec.Payload, &row); err != nil {
				t.Fatalf("%q: %v", rec.Payload, err)
			}
			for _, name := range o.Columns {
				if _, there := row[name]; !there {
					t.Fatalf("%q has no %q", rec.Payload, name)
				}
			}
			if len(row) != len(o.Columns) || expectedKey(o.Key, row) != string(rec.Key) {
				t.Fatalf("key %q of %q", rec.Key, rec.Payload)
			}
		}
		t.Fatal("no end")
	})
}

// split cuts what a fuzzer made into names; none of "".
func split(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(names, "|")
}
