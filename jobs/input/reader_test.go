package input_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs/input"
)

// readerCase is an input and what must come out of it: a record as
// `LINE "KEY"` or `LINE "KEY" PAYLOAD`, a rejected one as `LINE ! REASON`,
// and an end other than io.EOF as `final: ERROR`.
type readerCase struct {
	name  string
	in    string
	opts  input.Options // Format is set by the test
	wants []string
}

func runCases(t *testing.T, format input.Format, cases []readerCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Format = format
			// However the bytes arrive, the records are the same.
			for how, r := range map[string]io.Reader{
				"at once":        strings.NewReader(c.in),
				"byte by byte":   iotest.OneByteReader(strings.NewReader(c.in)),
				"with their end": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				if diff := cmp.Diff(c.wants, outcomes(t, r, c.opts)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func outcomes(t *testing.T, r io.Reader, o input.Options) []string {
	t.Helper()
	reader, err := input.NewReader(r, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for {
		rec, err := reader.Next()
		bad, rejected := errors.AsType[*input.Rejected](err)
		switch {
		case err == io.EOF:
			return all
		case rejected:
			all = append(all, fmt.Sprintf("%d ! %s", bad.Line, bad.Reason))
		case err != nil:
			if _, again := reader.Next(); again != err {
				t.Errorf("after %v came %v: a final error must stay", err, again)
			}
			return append(all, "final: "+err.Error())
		case rec.Payload == nil:
			all = append(all, fmt.Sprintf("%d %q", rec.Line, rec.Key))
		default:
			all = append(all, fmt.Sprintf("%d %q %s", rec.Line, rec.Key, rec.Payload))
		}
	}
}

func TestNewReader_Options(t *testing.T) {
	id := []string{"id"}
	for _, c := range []struct {
		name string
		opts input.Options
		want string // part of the error; "": none
	}{
		{"Nothing", input.Options{}, ""},
		{"UnknownFormat", input.Options{Format: "xml"}, `no format "xml"`},
		{"CSVWithoutKey", input.Options{Format: input.CSV}, "csv needs --key"},
		{"TSVWithoutKey", input.Options{Format: input.TSV}, "tsv needs --key"},
		{"JSONLWithoutKey", input.Options{Format: input.JSONL}, "jsonl needs --key"},
		{"LinesWithKey", input.Options{Format: input.Lines, Key: id}, "--key goes with csv, tsv or jsonl"},
		{"NULWithKey", input.Options{Format: input.NUL, Key: id}, "--key goes with csv, tsv or jsonl"},
		{"LinesWithColumns", input.Options{Format: input.Lines, Columns: id}, "--columns goes with csv or tsv"},
		{"JSONLWithColumns", input.Options{Format: input.JSONL, Key: id, Columns: id}, "--columns goes with csv or tsv"},
		{"KeyTwice", input.Options{Format: input.JSONL, Key: []string{"a", "a"}}, `--key: "a" is there twice`},
		{"KeyEmpty", input.Options{Format: input.JSONL, Key: []string{"a", ""}}, "--key: name 2 of 2 is empty"},
		{"ColumnTwice", input.Options{Format: input.CSV, Key: id, Columns: []string{"id", "id"}}, `--columns: "id" is there twice`},
		{"ColumnNotUTF8", input.Options{Format: input.CSV, Key: id, Columns: []string{"id", "\xe9"}}, "is not UTF-8"},
		{"TooManyColumns", input.Options{Format: input.CSV, Key: id, Columns: make([]string, 70000)}, "70000 names"},
		{"KeyNotAmongColumns", input.Options{Format: input.TSV, Key: id, Columns: []string{"ID"}}, `no column "id"; there is "ID"; did you mean "ID"?`},
		{"Export", input.Options{Format: input.Export, Job: "j"}, ""},
		{"ExportWithoutJob", input.Options{Format: input.Export}, "an export needs a job"},
		{"ExportWithKey", input.Options{Format: input.Export, Job: "j", Key: id}, "each record of an export brings its own key"},
		{"ExportWithColumns", input.Options{Format: input.Export, Job: "j", Columns: id}, "each record of an export brings its own key"},
		{"NegativeMaxRecord", input.Options{MaxRecord: -1}, "-1 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := input.NewReader(strings.NewReader(""), c.opts)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestParseFormat(t *testing.T) {
	for _, f := range input.Formats() {
		if got, err := input.ParseFormat(string(f)); got != f || err != nil {
			t.Errorf("%q: got %q, %v", f, got, err)
		}
	}
	for _, name := range []string{"", "CSV", "json"} {
		if _, err := input.ParseFormat(name); err == nil || !strings.Contains(err.Error(), "want one of [lines nul csv tsv jsonl export]") {
			t.Errorf("%q: got %v, want an error that lists the formats", name, err)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]input.Format{
		"orders.csv": input.CSV, "ORDERS.CSV": input.CSV, "a.b/c.tsv": input.TSV,
		"x.jsonl": input.JSONL, "x.ndjson": input.JSONL,
		"dead.export": input.Lines, "dead.export.jsonl": input.JSONL,
		"x.txt": input.Lines, "csv": input.Lines, "": input.Lines, "x.csv.gz": input.Lines,
	} {
		if got := input.FormatOf(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
}

// What is no text must be refused whole, whatever it was taken for.
func TestReader_Unusable(t *testing.T) {
	key := []string{"id"}
	for _, c := range []struct {
		name, in, want string
	}{
		{"Gzip", "\x1f\x8b\x08\x00\n", "in: looks gzip-compressed: use zcat FILE | batchq enqueue"},
		{"XZ", "\xfd7zXZ\x00\n", "in: looks xz-compressed: use xzcat FILE | batchq enqueue"},
		{"Zstd", "\x28\xb5\x2f\xfd\n", "in: looks zstd-compressed: use zstdcat FILE | batchq enqueue"},
		{"UTF16LE", "\xff\xfea\x00\n\x00", "in: looks like UTF-16: use iconv -f UTF-16 -t UTF-8 FILE | batchq enqueue"},
		{"UTF16BE", "\xfe\xff\x00a\x00\n", "in: looks like UTF-16: use iconv -f UTF-16 -t UTF-8 FILE | batchq enqueue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range []input.Options{
				{Format: input.Lines}, {Format: input.CSV, Key: key}, {Format: input.TSV, Key: key},
				{Format: input.JSONL, Key: key}, {Format: input.NUL}, {Format: input.Export, Job: "j"},
			} {
				if o.Format == input.NUL && strings.HasPrefix(c.name, "UTF16") {
					continue // a file name may begin with these bytes
				}
				o.Name = "in"
				got := outcomes(t, iotest.OneByteReader(strings.NewReader(c.in)), o)
				if diff := cmp.Diff([]string{"final: " + c.want}, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", o.Format, diff)
				}
			}
		})
	}
}

// A record that an I/O error cut short is never taken for a whole one.
func TestReader_IOError(t *testing.T) {
	broken := errors.New("the disk is gone")
	key := []string{"id"}
	long := strings.Repeat("x", 200_000)
	for _, c := range []struct {
		name, in string
		opts     input.Options
		before   []string
	}{
		{"AtOnce", "", input.Options{}, nil},
		{"InMark", "\xef", input.Options{}, nil},
		{"InLine", "a\nb", input.Options{}, []string{`1 "a"`}},
		{"InLongLine", "a\n" + long, input.Options{}, []string{`1 "a"`}},
		{"InTooLongLine", "a\n" + long, input.Options{MaxRecord: 100_000}, []string{`1 "a"`}},
		{"InNUL", "a\x00b", input.Options{Format: input.NUL}, []string{`1 "a"`}},
		{"InHeader", "id", input.Options{Format: input.CSV, Key: key}, nil},
		{"InRow", "id\n1\n2", input.Options{Format: input.CSV, Key: key}, []string{`2 "1" {"id":"1"}`}},
		{"InQuotes", "id\n1\n\"2\n", input.Options{Format: input.CSV, Key: key}, []string{`2 "1" {"id":"1"}`}},
		{"InTSV", "id\n1\n2", input.Options{Format: input.TSV, Key: key}, []string{`2 "1" {"id":"1"}`}},
		{"InObject", "{\"id\":1}\n{\"id\":2}", input.Options{Format: input.JSONL, Key: key}, []string{`1 "1" {"id":1}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := io.MultiReader(strings.NewReader(c.in), iotest.ErrReader(broken))
			if diff := cmp.Diff(append(c.before, "final: "+broken.Error()), outcomes(t, r, c.opts)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A producer that has written one line and goes on living is not waited for.
func TestReader_DoesNotWait(t *testing.T) {
	for _, c := range []struct {
		opts  input.Options
		write string
	}{
		{input.Options{}, "a\n"},
		{input.Options{Format: input.NUL}, "a\x00"},
		{input.Options{Format: input.CSV, Key: []string{"i"}}, "i\na\n"},
		{input.Options{Format: input.TSV, Key: []string{"i"}}, "i\na\n"},
		{input.Options{Format: input.JSONL, Key: []string{"i"}}, "{\"i\":\"a\"}\n"},
	} {
		pr, pw := io.Pipe()
		go func() { _, _ = pw.Write([]byte(c.write)) }()
		r, err := input.NewReader(pr, c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := r.Next(); string(rec.Key) != "a" || err != nil {
			t.Errorf("%q: got %q, %v", c.write, rec.Key, err)
		}
		_ = pw.Close()
	}
}

func TestErrors_Text(t *testing.T) {
	for want, err := range map[string]error{
		`orders.csv:17: no`: &input.Rejected{Name: "orders.csv", Line: 17, Reason: "no"},
		`orders.csv:1: no`:  &input.Unusable{Name: "orders.csv", Line: 1, Reason: "no"},
		`orders.csv: no`:    &input.Unusable{Name: "orders.csv", Reason: "no"},
	} {
		if err.Error() != want {
			t.Errorf("got %q, want %q", err.Error(), want)
		}
	}
}
