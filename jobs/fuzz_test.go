package jobs

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// FuzzParseRate: what is accepted prints as something that is read as the
// same, and its pace never exceeds it.
func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"20/s", "3/10s", "1000000/s", "1/365d", "-1/s", "1/8760h", "999999999999999999999/s", "1/0s", "7/ms", "", "1/s\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if r != (Rate{}) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("%+v, %q", r, err)
			}
			return
		}
		if r.Count < 1 || r.Per <= 0 || r.Per > maxPer {
			t.Fatalf("%q is %+v", s, r)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("%q is %v, which is read as %v, %v", s, r, again, err)
		}
		if r.Interval() < time.Microsecond || r.Interval()*time.Duration(r.Count) < r.Per {
			t.Fatalf("%v starts every %s", r, r.Interval())
		}
		if n := r.Within(r.Per); n < 1 || n > r.Count {
			t.Fatalf("%v within its own time: %d", r, n)
		}
	})
}

// FuzzBackoff: a delay is never 0, never negative and never above the cap,
// whatever the number of the failure.
func FuzzBackoff(f *testing.F) {
	f.Add(int64(10*time.Second), int64(15*time.Minute), 400, 0.999)
	f.Add(int64(time.Millisecond), int64(math.MaxInt64), math.MaxInt, 1-1e-16)
	f.Add(int64(1), int64(1), math.MinInt, 0.0)
	f.Fuzz(func(t *testing.T, base, ceiling int64, failures int, random float64) {
		p := DefaultPolicy()
		p.BackoffBase, p.BackoffCap = time.Duration(base), time.Duration(ceiling)
		if p.Validate() != nil || !(random >= 0 && random < 1) || p.BackoffCap < time.Millisecond {
			return
		}
		if d := p.Backoff(failures, func() float64 { return random }); d <= 0 || d > p.BackoffCap {
			t.Fatalf("base %s, cap %s, failure %d: %s", p.BackoffBase, p.BackoffCap, failures, d)
		}
	})
}

// FuzzSpecJSON: a job that is kept in the database comes out as it went in,
// also where a word of its command is no UTF-8.
func FuzzSpecJSON(f *testing.F) {
	f.Add("j", "./settle.sh", "{key}", "", "/srv", "TOKEN", "s", int64(time.Hour), 8, 5, int64(time.Second))
	f.Add("j", "caf\xe9", "\xff\xfe", "echo \x80", "/tmp/\xff", "A", "\xff", int64(-1), 0, 0, int64(0))
	f.Add("\u2028<>&", "a\x00b", "\\xff", "\ufffd", "", "", "", int64(math.MaxInt64), math.MaxInt, 1, int64(1))
	f.Fuzz(func(t *testing.T, name, program, arg, shell, dir, variable, value string, timeout int64, attempts, count int, per int64) {
		s := Spec{Name: strings.ToValidUTF8(name, ""), Lane: Serial, Policy: DefaultPolicy(), Source: "the command line",
			Handler: Handler{Command: []string{program, arg}, Shell: shell, Dir: dir, Env: map[string]string{strings.ToValidUTF8(variable, ""): strings.ToValidUTF8(value, "")}}}
		s.Policy.Timeout, s.Policy.MaxAttempts = time.Duration(timeout), attempts
		if r, err := ParseRate((Rate{count, time.Duration(per)}).String()); err == nil {
			s.Rate = r
		}
		text, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var back Spec
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(s, back) {
			t.Fatalf("%+v\nis kept as %s\nand comes back as %+v", s, text, back)
		}
	})
}

// FuzzSpecFromJSON: no text that stands in a database in place of a job makes
// it panic; what is read is written as something that is read as the same.
func FuzzSpecFromJSON(f *testing.F) {
	if text, err := json.Marshal(&Spec{Name: "j", Policy: DefaultPolicy(), Rate: Rate{20, time.Second}}); err == nil {
		f.Add(text)
	}
	f.Add([]byte(`{"name":"j","handler":{"command":["a"],"bytes":{"command":["/w=="],"dir":"/w=="}},"rate":"1/s"}`))
	f.Add([]byte(`{"handler":{"bytes":{"command":"x"}},"policy":{"exit_codes":{"done":[1,null]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s, back Spec
		if json.Unmarshal(text, &s) != nil {
			return
		}
		// Who kept it wrote it like this.
		first, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := first, json.Unmarshal(first, &back)
		if err == nil {
			again, err = json.Marshal(&back)
		}
		if err != nil || string(again) != string(first) {
			t.Fatalf("%s\nis read again as %s, %v", first, again, err)
		}
	})
}
