package jobs

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseRate(t *testing.T) {
	for _, c := range []struct {
		text     string
		want     Rate
		again    string // as String writes it
		interval time.Duration
	}{
		{"20/s", Rate{20, time.Second}, "20/s", 50 * time.Millisecond},
		{"20/1s", Rate{20, time.Second}, "20/s", 50 * time.Millisecond},
		{"90/m", Rate{90, time.Minute}, "90/m", 666_667 * time.Microsecond},
		{"90/60s", Rate{90, time.Minute}, "90/m", 666_667 * time.Microsecond},
		{"1000/h", Rate{1000, time.Hour}, "1000/h", 3600 * time.Millisecond},
		{"5/d", Rate{5, 24 * time.Hour}, "5/d", 288 * time.Minute},
		{"5/2d", Rate{5, 48 * time.Hour}, "5/2d", 576 * time.Minute},
		{"3/10s", Rate{3, 10 * time.Second}, "3/10s", 3_333_334 * time.Microsecond},
		{"2/ms", Rate{2, time.Millisecond}, "2/1ms", 500 * time.Microsecond},
		{"7/1500ms", Rate{7, 1500 * time.Millisecond}, "7/1500ms", 214_286 * time.Microsecond},
		{"1000000/s", Rate{1_000_000, time.Second}, "1000000/s", time.Microsecond},
		{"1/365d", Rate{1, 365 * 24 * time.Hour}, "1/365d", 365 * 24 * time.Hour},
	} {
		got, err := ParseRate(c.text)
		if err != nil || got != c.want {
			t.Errorf("%q: %v, %v, want %v", c.text, got, err, c.want)
			continue
		}
		if s := got.String(); s != c.again {
			t.Errorf("%q is written %q, want %q", c.text, s, c.again)
		}
		if again, err := ParseRate(got.String()); err != nil || again != got {
			t.Errorf("%q is written %q, which is read as %v, %v", c.text, got, again, err)
		}
		if i := got.Interval(); i != c.interval {
			t.Errorf("%q: interval %s, want %s", c.text, i, c.interval)
		}
	}
}

func TestParseRate_Rubbish(t *testing.T) {
	for _, text := range []string{
		"", "/", "s", "20", "20/", "/s", "20/x", "x/s", "20/20", "20 /s", "20/ s", " 20/s", "20/s ", "1.5/s", "20s", "20//s", "20/s/s",
		"20/0s", "20/-1s", "20/+1s", "20/1", "1e3/s", "0x10/s", "1_000/s", "20/d1", "20/dd", "20/10dd", "٣/s", "20/s\x00", "+5/s",
		"5/.5s", "5/s5s", "1/1h2d", "5/m30s", "1/1h30m", "1/0.5d", "2/us", "1/ns",
		"1/99999999999999999999s", // no int
	} {
		r, err := ParseRate(text)
		if err == nil || !strings.Contains(err.Error(), "is no rate: write one like") {
			t.Errorf("%q: %v, %v", text, r, err)
		}
		if r != (Rate{}) {
			t.Errorf("%q left %v behind", text, r)
		}
	}
	for text, want := range map[string]string{
		"0/s":                    `rate "0/s": the number must be 1 or more (pause holds a job back altogether)`,
		"-5/s":                   `rate "-5/s": the number must be 1 or more (pause holds a job back altogether)`,
		"1000001/s":              `rate "1000001/s": at most 1000000 a second`,
		"1000001/h":              `rate "1000001/h": at most 1000000 a second`,
		"1001/ms":                `rate "1001/ms": at most 1000000 a second`,
		"1/366d":                 `rate "1/366d": the time must be a year or less`,
		"1/300000d":              `rate "1/300000d": the time must be a year or less`,
		"1/9999999999h":          `rate "1/9999999999h": the time must be a year or less`,
		"99999999999999999999/s": `rate "99999999999999999999/s": at most 1000000 a second`,
		"9223372036854775807/s":  `rate "9223372036854775807/s": at most 1000000 a second`,
	} {
		if r, err := ParseRate(text); err == nil || err.Error() != want || r != (Rate{}) {
			t.Errorf("%q: %v, %v, want %s", text, r, err, want)
		}
	}
}

// Rounded up, the pace never exceeds the rate, by whatever the numbers.
func TestRate_IntervalKeepsTheRate(t *testing.T) {
	for _, per := range []time.Duration{time.Second, time.Minute, 7 * time.Second, 24 * time.Hour} {
		for n := 1; n <= 2000; n++ {
			i := Rate{n, per}.Interval()
			if i%time.Microsecond != 0 || i*time.Duration(n) < per || (i-time.Microsecond)*time.Duration(n) >= per {
				t.Fatalf("%d in %s: interval %s", n, per, i)
			}
		}
	}
}

func TestRate_Within(t *testing.T) {
	for _, c := range []struct {
		rate string
		d    time.Duration
		want int
	}{
		{"", time.Hour, -1},
		{"", 0, -1},
		{"20/s", time.Second, 20},
		{"20/s", RateSlack, 2},
		{"20/s", 99 * time.Millisecond, 1},
		{"3/s", time.Second, 2}, // the third would come a microsecond late
		{"3/s", 1000002 * time.Microsecond, 3},
		{"1/h", time.Second, 1}, // never none: who may start at all may start one
		{"1/h", 0, 1},
		{"1/h", -time.Hour, 1},
		{"1000000/s", time.Second, 1_000_000},
		{"1000/ms", math.MaxInt64, math.MaxInt64 / 1000},
	} {
		var r Rate
		if err := r.UnmarshalText([]byte(c.rate)); err != nil {
			t.Fatal(err)
		}
		if got := r.Within(c.d); got != c.want {
			t.Errorf("%q within %s: %d, want %d", c.rate, c.d, got, c.want)
		}
	}
	if got := (Rate{}).Interval(); got != 0 {
		t.Errorf("no rate has the interval %s", got)
	}
}

// A Spec is kept as JSON under the job's name: a rate is a string in it, and
// no rate leaves no trace, as in what was kept before there were rates.
func TestSpec_RateInJSON(t *testing.T) {
	for _, c := range []struct {
		rate Rate
		want string
	}{
		{Rate{}, ""},
		{Rate{20, time.Second}, `"rate":"20/s"`},
		{Rate{3, 10 * time.Second}, `"rate":"3/10s"`},
		{Rate{5, 36 * time.Hour}, `"rate":"5/36h"`},
	} {
		text, err := json.Marshal(Spec{Name: "a", Rate: c.rate})
		if err != nil {
			t.Fatal(err)
		}
		if c.want == "" && strings.Contains(string(text), `"rate"`) || !strings.Contains(string(text), c.want) {
			t.Errorf("%v: %s", c.rate, text)
		}
		again := Spec{Rate: Rate{9, time.Minute}}
		if c.rate == (Rate{}) {
			again.Rate = Rate{}
		}
		if err := json.Unmarshal(text, &again); err != nil || again.Rate != c.rate {
			t.Errorf("%s is read as %v, %v", text, again.Rate, err)
		}
	}
	r := Rate{9, time.Minute}
	if err := r.UnmarshalText(nil); err != nil || r != (Rate{}) {
		t.Errorf("an empty text is read as %v, %v", r, err)
	}
	var s Spec
	if err := json.Unmarshal([]byte(`{"rate":"x/s"}`), &s); err == nil || s.Rate != (Rate{}) {
		t.Errorf("rubbish is read as %v, %v", s.Rate, err)
	}
}
