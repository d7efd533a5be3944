package input_test

import (
	"fmt"
	"strings"
	"testing"

	"batchq/jobs/input"
)

func keyed(fields ...string) input.Options { return input.Options{Key: fields} }

func headless(columns string, key ...string) input.Options {
	return input.Options{Key: key, Columns: strings.Split(columns, ",")}
}

func TestReader_CSV(t *testing.T) {
	const notClosed = "the quote that opens here is never closed: the rest of the input, to line %d, belongs to it"
	long := strings.Repeat("x", 300_000)
	runCases(t, input.CSV, []readerCase{
		{name: "Empty", in: "", opts: keyed("id")},
		{name: "BlankOnly", in: "\n\r\n", opts: keyed("id")},
		{name: "HeaderOnly", in: "id,n\n", opts: keyed("id")},
		{name: "Rows", in: "id,n\n1,a\n2,b\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, `3 "2" {"id":"2","n":"b"}`}},
		{name: "ColumnOrder", in: "z,a,m\n1,2,3\n", opts: keyed("a"), wants: []string{`2 "2" {"z":"1","a":"2","m":"3"}`}},
		{name: "CRLF", in: "id,n\r\n1,a\r\n\r\n2,\"b\"\r\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, `4 "2" {"id":"2","n":"b"}`}},
		{name: "CRAtEnd", in: "id,n\r\n1,a\r\n2,\"b\"\r", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, `3 "2" {"id":"2","n":"b"}`}},
		{name: "BOM", in: "\xef\xbb\xbfid,n\n1,a\n", opts: keyed("id"), wants: []string{`2 "1" {"id":"1","n":"a"}`}},
		{name: "BOMQuotedHeader", in: "\xef\xbb\xbf\"id\"\n1\n", opts: keyed("id"), wants: []string{`2 "1" {"id":"1"}`}},
		{name: "NoLastNewline", in: "id,n\n1,", opts: keyed("id"), wants: []string{`2 "1" {"id":"1","n":""}`}},
		{name: "QuotedComma", in: "id,n\n1,\"a,b\"\n", opts: keyed("id"), wants: []string{`2 "1" {"id":"1","n":"a,b"}`}},
		{name: "QuotedQuote", in: "id,n\n\"1\"\"x\",\"\"\"\"\n", opts: keyed("id"), wants: []string{`2 "1\"x" {"id":"1\"x","n":"\""}`}},
		{name: "QuotedNewline", in: "id,n\n1,\"a\nb\n\n\"\n2,c\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a\nb\n\n"}`, `6 "2" {"id":"2","n":"c"}`}},
		{name: "QuotedCRLFKept", in: "id,n\r\n1,\"a\r\nb\"\r\n2,c\r\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a\r\nb"}`, `4 "2" {"id":"2","n":"c"}`}},
		{name: "QuotedNewlineInHeader", in: "id,\"a\nb\"\n1,2\n", opts: keyed("a\nb"), wants: []string{`3 "2" {"id":"1","a\nb":"2"}`}},
		{name: "SpacesKept", in: "id, n\n 1 ,  \n", opts: keyed("id"), wants: []string{`2 " 1 " {"id":" 1 "," n":"  "}`}},
		{name: "JSONEscapes", in: "id,n\n1,\"\\\t\x01\x7f<&>\u2028\u00e9\"\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"\\\t\u0001` + "\x7f<&>\u2028\u00e9" + `"}`}},
		{name: "LeadingZeros", in: "id\n007\n7\n", opts: keyed("id"), wants: []string{`2 "007" {"id":"007"}`, `3 "7" {"id":"7"}`}},

		{name: "TooFew", in: "id,n\n1\n2,b\n", opts: keyed("id"), wants: []string{
			"2 ! got 1 field, want 2", `3 "2" {"id":"2","n":"b"}`}},
		{name: "TooMany", in: "id,n\n\"1\n\",a,b\n2,b\n", opts: keyed("id"), wants: []string{
			"2 ! got 3 fields, want 2: a value that holds a comma must be quoted", `4 "2" {"id":"2","n":"b"}`}},
		{name: "BareQuote", in: "id,n\n1,a\"b\n2,b\n", opts: keyed("id"), wants: []string{
			"2 ! a quote inside a field that is not quoted", `3 "2" {"id":"2","n":"b"}`}},
		{name: "TextAfterQuote", in: "id,n\n1,\"a\"b\n2,\"c\"\rd\n3,e\n", opts: keyed("id"), wants: []string{
			"2 ! text after the quote that ends a field", "3 ! text after the quote that ends a field", `4 "3" {"id":"3","n":"e"}`}},
		{name: "MisplacedQuoteLater", in: "id,n\n1,\"a\n2,\"b\"\n3,c\n", opts: keyed("id"), wants: []string{
			"2 ! text after the quote that ends a field, on line 3: lines 2 to 3 are left out", `4 "3" {"id":"3","n":"c"}`}},
		{name: "Unclosed", in: "id,n\n1,a\n2,\"b\n3,c\n4,d\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, "3 ! " + fmt.Sprintf(notClosed, 6)}},
		{name: "UnclosedInLaterLine", in: "id,n\n\"1\n\",\"b\n", opts: keyed("id"), wants: []string{"3 ! " + fmt.Sprintf(notClosed, 4)}},
		{name: "UnclosedTooLong", in: "id,n\n1,\"" + long, opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"2 ! " + fmt.Sprintf(notClosed, 2)}},
		{name: "TooLong", in: "id,n\n1,\"" + long + "\n\"\n2,b\n", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"2 ! the record is 300005 bytes long: at most 1000 are taken", `4 "2" {"id":"2","n":"b"}`}},
		{name: "TooLongWhereQuoteOpened", in: "id,n\n\"1\n\n\",\"" + long + "\"\n2,b\n", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"4 ! the record is 300008 bytes long: at most 1000 are taken", `5 "2" {"id":"2","n":"b"}`}},
		{name: "TooLongUnquoted", in: "id,n\n1," + long + "\r\n2,b\n", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"2 ! the record is 300003 bytes long: at most 1000 are taken", `3 "2" {"id":"2","n":"b"}`}},
		{name: "ExactlyMax", in: "i\nabc\nabcd\nabc", opts: input.Options{Key: []string{"i"}, MaxRecord: 3}, wants: []string{
			`2 "abc" {"i":"abc"}`, "3 ! the record is 4 bytes long: at most 3 are taken", `4 "abc" {"i":"abc"}`}},
		{name: "Long", in: "id,n\n1," + long + "\n2,b\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"` + long + `"}`, `3 "2" {"id":"2","n":"b"}`}},
		{name: "NotUTF8", in: "id,n\n1,caf\xe9\n\xff,x\n2,b\n", opts: keyed("id"), wants: []string{
			`2 ! column "n" is not UTF-8 (byte 4 of it): convert the input with iconv`,
			`3 ! column "id" is not UTF-8 (byte 1 of it): convert the input with iconv`, `4 "2" {"id":"2","n":"b"}`}},
		{name: "EmptyKey", in: "id,n\n,a\n\"\",a\n2,b\n", opts: keyed("id"), wants: []string{
			`2 ! the key field "id" is empty`, `3 ! the key field "id" is empty`, `4 "2" {"id":"2","n":"b"}`}},
		{name: "EmptyKeyOneColumn", in: "id\n\"\"\n\n1\n", opts: keyed("id"), wants: []string{
			`2 ! the key field "id" is empty`, `4 "1" {"id":"1"}`}},
		{name: "NULInKey", in: "id,n\n1\x00,a\n2,\x00\n", opts: keyed("id"), wants: []string{
			`2 ! the key field "id" holds a NUL, which no command can be given`, `3 "2" {"id":"2","n":"\u0000"}`}},

		{name: "Columns", in: "1,a\n2,b\n", opts: headless("id,n", "id"), wants: []string{
			`1 "1" {"id":"1","n":"a"}`, `2 "2" {"id":"2","n":"b"}`}},
		{name: "ColumnsWrongNumber", in: "1\n2,b\n", opts: headless("id,n", "id"), wants: []string{
			"1 ! got 1 field, want 2", `2 "2" {"id":"2","n":"b"}`}},
		{name: "SeveralKeys", in: "a,b,c\nx,y,z\nx/y,z,\nx,y/z,\n,y,\nx%2Fy,z,\n,,z\n", opts: keyed("a", "b"), wants: []string{
			`2 "x/y" {"a":"x","b":"y","c":"z"}`, `3 "x%2Fy/z" {"a":"x/y","b":"z","c":""}`,
			`4 "x/y%2Fz" {"a":"x","b":"y/z","c":""}`, `5 "/y" {"a":"","b":"y","c":""}`,
			`6 "x%252Fy/z" {"a":"x%2Fy","b":"z","c":""}`, "7 ! every key field is empty"}},
		{name: "KeyOrder", in: "a,b\nx,y\n", opts: keyed("b", "a"), wants: []string{`2 "y/x" {"a":"x","b":"y"}`}},
		{name: "OneKeyVerbatim", in: "a\nx/%2F y\n", opts: keyed("a"), wants: []string{`2 "x/%2F y" {"a":"x/%2F y"}`}},
	})
}

func TestReader_CSVHeader(t *testing.T) {
	many := strings.Repeat("c%d,", 25)
	for i := range 25 {
		many = strings.Replace(many, "%d", fmt.Sprint(i), 1)
	}
	runCases(t, input.CSV, []readerCase{
		{name: "NoKey", in: "orderID,n\n1,a\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: in the header: no column "id"; there is "orderID", "n"`}},
		{name: "NearMiss", in: "\norderID,n\n1,a\n", opts: keyed("order_id"), wants: []string{
			`final: stdin:2: in the header: no column "order_id"; there is "orderID", "n"; did you mean "orderID"?`}},
		{name: "Many", in: many + "z\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: in the header: no column "id"; there is "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", ` +
				`"c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19" and 6 more`}},
		{name: "Twice", in: "id,n,id\n", opts: keyed("id"), wants: []string{`final: stdin:1: in the header: "id" is there twice`}},
		{name: "EmptyName", in: "id,,n\n", opts: keyed("id"), wants: []string{`final: stdin:1: in the header: name 2 of 3 is empty`}},
		{name: "NotUTF8", in: "id,caf\xe9\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: in the header: name 2 of 2, "caf\xe9", is not UTF-8: convert the input with iconv`}},
		{name: "Malformed", in: "id,a\"b\n1,2\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: in the header: a quote inside a field that is not quoted`}},
		{name: "TooWide", in: strings.Repeat(",", 70_000) + "\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: the header has 70001 columns: at most 65536 are taken`}},
		{name: "RowTooWide", in: "id\n" + strings.Repeat(",", 70_000) + "\n1\n", opts: keyed("id"), wants: []string{
			"2 ! got 70001 fields, want 1: a value that holds a comma must be quoted", `3 "1" {"id":"1"}`}},
	})
}

func TestReader_TSV(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	runCases(t, input.TSV, []readerCase{
		{name: "Empty", in: "", opts: keyed("id")},
		{name: "Rows", in: "id\tn\n1\ta\n2\t\n", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, `3 "2" {"id":"2","n":""}`}},
		{name: "CRLF", in: "id\tn\r\n1\ta\r\n\r\n2\tb", opts: keyed("id"), wants: []string{
			`2 "1" {"id":"1","n":"a"}`, `4 "2" {"id":"2","n":"b"}`}},
		{name: "BOM", in: "\xef\xbb\xbfid\n1\n", opts: keyed("id"), wants: []string{`2 "1" {"id":"1"}`}},
		{name: "QuotesAreCharacters", in: "id\tn\n\"1\t5\" disk\n\"\"\t\"\n", opts: keyed("id"), wants: []string{
			`2 "\"1" {"id":"\"1","n":"5\" disk"}`, `3 "\"\"" {"id":"\"\"","n":"\""}`}},
		{name: "BackslashAndComma", in: "id\tn\n1\ta\\tb,c\n", opts: keyed("id"), wants: []string{`2 "1" {"id":"1","n":"a\\tb,c"}`}},
		{name: "TabsOnlyIsARow", in: "id\tn\n\t\n", opts: keyed("id"), wants: []string{`2 ! the key field "id" is empty`}},
		{name: "WrongNumber", in: "id\tn\n1\n1\t2\t3\n2\tb\n", opts: keyed("id"), wants: []string{
			"2 ! got 1 field, want 2", "3 ! got 3 fields, want 2", `4 "2" {"id":"2","n":"b"}`}},
		{name: "Columns", in: "1\ta\n", opts: headless("id,n", "n"), wants: []string{`1 "a" {"id":"1","n":"a"}`}},
		{name: "SeveralKeys", in: "a\tb\nx/y\tz\n", opts: keyed("a", "b"), wants: []string{`2 "x%2Fy/z" {"a":"x/y","b":"z"}`}},
		{name: "NULInKey", in: "id\n1\x00\n2\n", opts: keyed("id"), wants: []string{
			`2 ! the key field "id" holds a NUL, which no command can be given`, `3 "2" {"id":"2"}`}},
		{name: "NotUTF8", in: "id\n\xe9\n2\n", opts: keyed("id"), wants: []string{
			`2 ! column "id" is not UTF-8 (byte 1 of it): convert the input with iconv`, `3 "2" {"id":"2"}`}},
		{name: "NoKey", in: "id,n\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: in the header: no column "id"; there is "id,n"`}},
		{name: "Twice", in: "id\tid\n", opts: keyed("id"), wants: []string{`final: stdin:1: in the header: "id" is there twice`}},
		{name: "EmptyName", in: "id\t\n", opts: keyed("id"), wants: []string{`final: stdin:1: in the header: name 2 of 2 is empty`}},
		{name: "TooWide", in: strings.Repeat("\t", 70_000) + "\n", opts: keyed("id"), wants: []string{
			`final: stdin:1: the header has 70001 columns: at most 65536 are taken`}},
		{name: "RowTooWide", in: "id\n" + strings.Repeat("\t", 70_000) + "\n1\n", opts: keyed("id"), wants: []string{
			"2 ! got 70001 fields, want 1", `3 "1" {"id":"1"}`}},
		{name: "TooLong", in: "id\n" + long + "\n2\n", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"2 ! the record is 300000 bytes long: at most 1000 are taken", `3 "2" {"id":"2"}`}},
		{name: "HeaderTooLong", in: long + "\n2\n", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"final: stdin:1: in the header: the record is 300000 bytes long: at most 1000 are taken"}},
	})
}
