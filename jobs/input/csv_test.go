package input

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// FuzzCSVRows holds our cutting of rows against the standard library's: the
// same rows on the same lines, and rejections where it has errors.
func FuzzCSVRows(f *testing.F) {
	for _, s := range []string{
		"", "a,b\n1,2", "a\r\n\r\r\n\r", "\"a\r\n\"\"\",b\r\n\"\"\n", "a\"b\n\"a\"b,\"c\nd\"\n", "\"a\"\r", "\"a\"\r\r\n", ",\n,", "\"\n\nx",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		std := csv.NewReader(bytes.NewReader(data))
		std.FieldsPerRecord = -1
		// One byte at a time makes every state a state between two chunks.
		ours := &csvRows{source: &source{in: bufio.NewReader(iotest.OneByteReader(bytes.NewReader(data))), max: len(data) + 1, line: 1}}
		for {
			want, wantErr := std.Read()
			got, count, line, err := ours.next()
			if wantErr == io.EOF || err == io.EOF {
				if wantErr != err {
					t.Fatalf("got %v, want %v", err, wantErr)
				}
				return
			}
			if wantErr != nil {
				if _, rejected := errors.AsType[*Rejected](err); !rejected {
					t.Fatalf("got %q, %v, want %v", got, err, wantErr)
				}
				continue
			}
			if err != nil || len(got) != len(want) || count != len(want) {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
			for i, field := range got {
				// The library turns a CRLF inside quotes into a newline.
				if strings.ReplaceAll(string(field), "\r\n", "\n") != want[i] {
					t.Fatalf("field %d: got %q, want %q", i, field, want[i])
				}
			}
			if at, _ := std.FieldPos(0); int64(at) != line {
				t.Fatalf("%q: line %d, want %d", want, line, at)
			}
		}
	})
}
