package input_test

import (
	"strings"
	"testing"

	"batchq/jobs/input"
)

func TestReader_JSONL(t *testing.T) {
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	long := strings.Repeat("x", 300_000)
	runCases(t, input.JSONL, []readerCase{
		{name: "Empty", in: "", opts: keyed("id")},
		{name: "Lines", in: "{\"id\":\"a\"}\n{\"id\":\"b\",\"n\":[1,{}]}\n", opts: keyed("id"), wants: []string{
			`1 "a" {"id":"a"}`, `2 "b" {"id":"b","n":[1,{}]}`}},
		{name: "Blank", in: "\n \t\r\n{\"id\":\"a\"}\n\n{\"id\":\"b\"}", opts: keyed("id"), wants: []string{
			`3 "a" {"id":"a"}`, `5 "b" {"id":"b"}`}},
		{name: "BOM", in: "\xef\xbb\xbf{\"id\":\"a\"}\r\n", opts: keyed("id"), wants: []string{`1 "a" {"id":"a"}`}},
		{name: "PayloadAsItCame", in: " \t{ \"n\" : 1.50 ,\"id\":\t\"a\" } \r\n", opts: keyed("id"), wants: []string{
			"1 \"a\" { \"n\" : 1.50 ,\"id\":\t\"a\" }"}},
		{name: "Numbers", in: "{\"id\":12345678901234567890}\n{\"id\":1e3}\n{\"id\":-0.10 }\n{\"id\":1000}\n", opts: keyed("id"), wants: []string{
			`1 "12345678901234567890" {"id":12345678901234567890}`, `2 "1e3" {"id":1e3}`, `3 "-0.10" {"id":-0.10 }`, `4 "1000" {"id":1000}`}},
		{name: "Booleans", in: "{\"id\":true}\n{\"id\" : false}\n", opts: keyed("id"), wants: []string{
			`1 "true" {"id":true}`, `2 "false" {"id" : false}`}},
		{name: "Escapes", in: `{"id":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, opts: keyed("id"), wants: []string{
			`1 "a\"\\/\b\f\n\r\té😀" {"id":"a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`}},
		{name: "EscapedName", in: `{"\u0069d":"a"}`, opts: keyed("id"), wants: []string{`1 "a" {"\u0069d":"a"}`}},
		{name: "NameIsExact", in: `{"ID":"a"}`, opts: keyed("id"), wants: []string{`1 ! field "id" is missing`}},
		{name: "TopLevelOnly", in: `{"a":{"id":"x"},"b":[{"id":"y"}],"c":"{\"id\":\"z\"}","id":"k"}`, opts: keyed("id"), wants: []string{
			`1 "k" {"a":{"id":"x"},"b":[{"id":"y"}],"c":"{\"id\":\"z\"}","id":"k"}`}},
		{name: "ValueLikeName", in: `{"a":"id","id":"k"}`, opts: keyed("id"), wants: []string{`1 "k" {"a":"id","id":"k"}`}},
		{name: "OtherMemberTwice", in: `{"a":1,"a":2,"id":"k"}`, opts: keyed("id"), wants: []string{`1 "k" {"a":1,"a":2,"id":"k"}`}},
		{name: "SeveralKeys", in: "{\"b\":\"x/y\",\"a\":7}\n{\"b\":\"\",\"a\":\"\"}\n{\"b\":\"\\u00e9\",\"a\":\"\\u00e8\"}\n", opts: keyed("a", "b"), wants: []string{
			`1 "7/x%2Fy" {"b":"x/y","a":7}`, "2 ! every key field is empty", `3 "è/é" {"b":"\u00e9","a":"\u00e8"}`}},
		{name: "Deep", in: `{"a":` + deep + `,"id":1}`, opts: keyed("id"), wants: []string{`1 "1" {"a":` + deep + `,"id":1}`}},

		{name: "Missing", in: "{}\n{\"a\":1}\n{\"id\":1}\n", opts: keyed("id"), wants: []string{
			`1 ! field "id" is missing`, `2 ! field "id" is missing`, `3 "1" {"id":1}`}},
		{name: "Null", in: `{"id":null}`, opts: keyed("id"), wants: []string{`1 ! field "id" is null`}},
		{name: "Object", in: `{"id":{}}`, opts: keyed("id"), wants: []string{`1 ! field "id" is an object: a key is text, a number, true or false`}},
		{name: "Array", in: `{"id":[1]}`, opts: keyed("id"), wants: []string{`1 ! field "id" is an array: a key is text, a number, true or false`}},
		{name: "EmptyKey", in: `{"id":""}`, opts: keyed("id"), wants: []string{`1 ! the key field "id" is empty`}},
		{name: "NULInKey", in: `{"id":"a\u0000"}`, opts: keyed("id"), wants: []string{`1 ! the key field "id" holds a NUL, which no command can be given`}},
		{name: "Twice", in: `{"id":1,"\u0069d":1}`, opts: keyed("id"), wants: []string{`1 ! field "id" is there twice`}},
		{name: "HalfSurrogate", in: "{\"id\":\"\\ud800\"}\n{\"id\":\"\\udc00\\ud800\"}\n{\"id\":\"\\ud800x\"}\n{\"\\ud800\":1,\"id\":1}\n", opts: keyed("id"), wants: []string{
			`1 ! field "id" holds half of a surrogate pair, which is no text`, `2 ! field "id" holds half of a surrogate pair, which is no text`,
			`3 ! field "id" holds half of a surrogate pair, which is no text`, `4 "1" {"\ud800":1,"id":1}`}},
		{name: "NotObject", in: "7\n\"id\"\nnull\n[{\"id\":1}]\n{\"id\":1}\n", opts: keyed("id"), wants: []string{
			"1 ! not a JSON object", "2 ! not a JSON object", "3 ! not a JSON object",
			"4 ! an array, not an object: jq -c '.[]' makes a line of each of its elements", `5 "1" {"id":1}`}},
		{name: "Invalid", in: "{\"id\":1\n{id:1}\n{\"id\":01}\n{\"id\":1}\n", opts: keyed("id"), wants: []string{
			"1 ! not JSON: unexpected end of JSON input (byte 7 of the line)",
			"2 ! not JSON: invalid character 'i' looking for beginning of object key string (byte 2 of the line)",
			"3 ! not JSON: invalid character '1' after object key:value pair (byte 8 of the line)", `4 "1" {"id":1}`}},
		{name: "TrailingData", in: "{\"id\":1} {\"id\":2}\n", opts: keyed("id"), wants: []string{
			"1 ! not JSON: invalid character '{' after top-level value (byte 10 of the line)"}},
		{name: "NotUTF8", in: "{\"id\":\"caf\xe9\"}\n", opts: keyed("id"), wants: []string{"1 ! not UTF-8 (byte 11 of the line)"}},
		{name: "TooDeep", in: strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), opts: keyed("id"), wants: []string{
			"1 ! not JSON: invalid character '{' exceeded max depth (byte 50001 of the line)"}},
		{name: "Long", in: `{"id":"` + long + `"}`, opts: keyed("id"), wants: []string{`1 "` + long + `" {"id":"` + long + `"}`}},
		{name: "TooLong", in: `{"id":"` + long + "\"}\n{\"id\":1}", opts: input.Options{Key: []string{"id"}, MaxRecord: 1000}, wants: []string{
			"1 ! the record is 300009 bytes long: at most 1000 are taken", `2 "1" {"id":1}`}},
	})
}
