package input_test

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"batchq/jobs/input"
)

// endless is as long a text as is asked for, made of copies of one piece, and
// kept nowhere.
func endless(head, piece string, size int64) io.Reader {
	block := strings.Repeat(piece, 1+4096/len(piece))
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&repeated{piece: block}, size))
}

type repeated struct {
	piece string
	at    int
}

func (r *repeated) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		copied := copy(p[n:], r.piece[r.at:])
		n += copied
		r.at = (r.at + copied) % len(r.piece)
	}
	return n, nil
}

// A record that is too long is passed over without being held.
func TestReader_TooLongIsNotHeld(t *testing.T) {
	const size, limit = 16 << 20, 4 << 20
	key := []string{"id"}
	for _, c := range []struct {
		name, head, piece string
		opts              input.Options
	}{
		{"Lines", "", "x", input.Options{}},
		{"NUL", "", "x\n", input.Options{Format: input.NUL}},
		{"CSVUnquoted", "id\n", "x", input.Options{Format: input.CSV, Key: key}},
		{"CSVUnclosedQuote", "id\n\"", "x\n", input.Options{Format: input.CSV, Key: key}},
		{"CSVCommas", "id\n", ",", input.Options{Format: input.CSV, Key: key}},
		{"CSVHeader", "", ",", input.Options{Format: input.CSV, Key: key}},
		{"TSV", "id\n", "\t", input.Options{Format: input.TSV, Key: key}},
		{"JSONL", `{"id":"`, "x", input.Options{Format: input.JSONL, Key: key}},
		{"Export", `{"key":"`, "x", input.Options{Format: input.Export, Job: "j"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.MaxRecord = 256 << 10
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := input.NewReader(endless(c.head, c.piece, size), c.opts)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Next(); err == nil || err == io.EOF {
				t.Errorf("got %v, want a rejection", err)
			}
			if _, err := r.Next(); err == nil {
				t.Error("there is more, want an end")
			}
			runtime.ReadMemStats(&after)
			// Growing a buffer to MaxRecord allocates a few times as much in all.
			if used := after.TotalAlloc - before.TotalAlloc; used > limit {
				t.Errorf("allocated %d bytes for a record of %d", used, size)
			}
		})
	}
}

func TestReader_NoAllocationPerRecord(t *testing.T) {
	const records = 10_000
	key := []string{"id", "n"}
	for _, c := range []struct {
		name, head, piece string
		opts              input.Options
	}{
		{"Lines", "", "some/short line\r\n", input.Options{}},
		{"NUL", "", "some/short\nline\x00", input.Options{Format: input.NUL}},
		{"CSV", "id,n\n", "1234,\"a\nb\"\n", input.Options{Format: input.CSV, Key: key}},
		{"TSV", "id\tn\n", "1234\ta\n", input.Options{Format: input.TSV, Key: key}},
		{"JSONL", "", `{"id":1234,"n":"a\n\u00e9","x":[1,2,{}]}` + "\n", input.Options{Format: input.JSONL, Key: key}},
		{"Export", "", `{"job":"j","scope":"\n","key_base64":"/w==","payload":"{\"n\":1}","priority":3}` + "\n", input.Options{Format: input.Export, Job: "j"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			allocs := testing.AllocsPerRun(1, func() {
				read(t, endless(c.head, c.piece, int64(records*len(c.piece))), c.opts, records)
			})
			// encoding/json borrows from a pool, which under -race forgets on purpose.
			borrowed := 0.0
			if c.opts.Format == input.JSONL || c.opts.Format == input.Export {
				borrowed = testing.AllocsPerRun(1, func() {
					for range records {
						json.Valid([]byte(c.piece))
					}
				})
			}
			if allocs > 200+1.2*borrowed {
				t.Errorf("%.0f allocations for %d records", allocs, records)
			}
		})
	}
}

// read expects so many records and nothing else.
func read(t testing.TB, from io.Reader, o input.Options, records int) {
	t.Helper()
	r, err := input.NewReader(from, o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		if _, err := r.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != records {
		t.Fatalf("got %d records, want %d", n, records)
	}
}

// After a giant the small ones come out as before, from buffers of their size.
func TestReader_SmallAfterGiant(t *testing.T) {
	giant := strings.Repeat("x", 3<<20)
	key := []string{"id"}
	for _, c := range []struct {
		in   string
		opts input.Options
	}{
		{giant + "\n" + giant[:1<<18] + "\nb\n", input.Options{}},
		{"id\n\"" + giant + "\"\na\nb\n", input.Options{Format: input.CSV, Key: key}},
		{"id\n" + giant + "\na\nb\n", input.Options{Format: input.TSV, Key: key}},
		{`{"job":"j","key":"a","payload":"\n` + giant + "\"}\n{\"job\":\"j\",\"key\":\"a\"}\n{\"job\":\"j\",\"key\":\"b\"}", input.Options{Format: input.Export, Job: "j"}},
		{"{\"id\":\"\\n" + giant + "\"}\n{\"id\":\"\\n\"}\n{\"id\":\"b\"}", input.Options{Format: input.JSONL, Key: key}},
	} {
		r, err := input.NewReader(strings.NewReader(c.in), c.opts)
		if err != nil {
			t.Fatal(err)
		}
		var last string
		for n := 1; ; n++ {
			rec, err := r.Next()
			if err == io.EOF && n == 4 {
				break
			}
			if err != nil {
				t.Fatalf("%s: record %d: %v", c.opts.Format, n, err)
			}
			last = string(rec.Key)
		}
		if last != "b" {
			t.Errorf("%s: the last key is %q, want %q", c.opts.Format, last, "b")
		}
	}
}
