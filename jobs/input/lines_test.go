package input_test

import (
	"fmt"
	"strings"
	"testing"

	"batchq/jobs/input"
)

const noNUL = "the line holds a NUL, which no command can be given; a NUL-separated list is read with -0"

func TestReader_Lines(t *testing.T) {
	long, longer := strings.Repeat("x", 100_000), strings.Repeat("y", 300_000)
	runCases(t, input.Lines, []readerCase{
		{name: "Empty", in: ""},
		{name: "LF", in: "a\nb\n", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "CRLF", in: "a\r\nb\r\n", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "OneCROnly", in: "a\r\r\n", wants: []string{`1 "a\r"`}},
		{name: "CRInside", in: "a\rb\n", wants: []string{`1 "a\rb"`}},
		{name: "NoLastNewline", in: "a\nb", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "CRAtEnd", in: "a\nb\r", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "BOM", in: "\xef\xbb\xbfa\nb\n", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "BOMOnly", in: "\xef\xbb\xbf"},
		{name: "BOMLater", in: "a\n\xef\xbb\xbfb\n", wants: []string{`1 "a"`, `2 "\ufeffb"`}},
		{name: "HalfBOM", in: "\xef\xbba\n", wants: []string{`1 "\xef\xbba"`}},
		{name: "Blank", in: "\na\n\n\nb\n\n", wants: []string{`2 "a"`, `5 "b"`}},
		{name: "BlankCR", in: "a\r\n\r\nb\r\n", wants: []string{`1 "a"`, `3 "b"`}},
		{name: "BlankSpaces", in: "a\n  \t \nb\n \t", wants: []string{`1 "a"`, `3 "b"`}},
		{name: "SpacesKept", in: " two  spaces \n\ttab\t\n", wants: []string{`1 " two  spaces "`, `2 "\ttab\t"`}},
		{name: "AnyBytes", in: "caf\xe9\n\xff\xff\n\x01\n", wants: []string{`1 "caf\xe9"`, `2 "\xff\xff"`, `3 "\x01"`}},
		{name: "Quotes", in: "a'b\"c\\ $x `y` *\n", wants: []string{"1 \"a'b\\\"c\\\\ $x `y` *\""}},
		{name: "NULRejected", in: "a\nb\x00c\nd\n", wants: []string{`1 "a"`, "2 ! " + noNUL, `3 "d"`}},
		{name: "Long", in: long + "\n" + longer + "\nz\n", wants: []string{
			fmt.Sprintf("1 %q", long), fmt.Sprintf("2 %q", longer), `3 "z"`}},
		{name: "LongWithoutNewline", in: longer, wants: []string{fmt.Sprintf("1 %q", longer)}},
		{name: "LongCRLF", in: longer + "\r\nz", wants: []string{fmt.Sprintf("1 %q", longer), `2 "z"`}},
		{name: "TooLong", in: "a\n" + longer + "\nb\n" + longer, opts: input.Options{MaxRecord: 100_000}, wants: []string{
			`1 "a"`, "2 ! the record is 300000 bytes long: at most 100000 are taken",
			`3 "b"`, "4 ! the record is 300000 bytes long: at most 100000 are taken"}},
		{name: "TooLongShort", in: "abcd\nabc\nabcd", opts: input.Options{MaxRecord: 3}, wants: []string{
			"1 ! the record is 4 bytes long: at most 3 are taken", `2 "abc"`,
			"3 ! the record is 4 bytes long: at most 3 are taken"}},
		{name: "ExactlyMax", in: long + "\n" + long + "x\n" + long, opts: input.Options{MaxRecord: 100_000}, wants: []string{
			fmt.Sprintf("1 %q", long), "2 ! the record is 100001 bytes long: at most 100000 are taken", fmt.Sprintf("3 %q", long)}},
	})
}

func TestReader_NUL(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	runCases(t, input.NUL, []readerCase{
		{name: "Empty", in: ""},
		{name: "Separated", in: "a\x00b\x00", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "NoLastNUL", in: "a\x00b", wants: []string{`1 "a"`, `2 "b"`}},
		{name: "NewlinesKept", in: "a\nb\r\n\x00\n\x00c", wants: []string{`1 "a\nb\r\n"`, `2 "\n"`, `3 "c"`}},
		{name: "SpacesKept", in: " \x00\t\x00", wants: []string{`1 " "`, `2 "\t"`}},
		{name: "EmptySkipped", in: "\x00a\x00\x00b\x00\x00", wants: []string{`2 "a"`, `4 "b"`}},
		{name: "MarksKept", in: "\xef\xbb\xbfa\x00", wants: []string{`1 "\ufeffa"`}},
		{name: "UTF16MarkKept", in: "\xff\xfea\x00", wants: []string{`1 "\xff\xfea"`}},
		{name: "AnyBytes", in: "caf\xe9\x00", wants: []string{`1 "caf\xe9"`}},
		{name: "Long", in: long + "\x00b", wants: []string{fmt.Sprintf("1 %q", long), `2 "b"`}},
		{name: "TooLong", in: "a\x00" + long + "\x00b", opts: input.Options{MaxRecord: 1000}, wants: []string{
			`1 "a"`, "2 ! the record is 300000 bytes long: at most 1000 are taken", `3 "b"`}},
	})
}
