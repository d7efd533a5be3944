// Package report is what people and programs read: one file a screen, the
// structs of the JSON contract, and how a duration, a time or a key from
// outside is written. It renders values of store and jobs. It never asks the
// store for anything, never decides anything, and writes only to the writers
// that it is given.
//
// # The JSON contract
//
// Every document begins with schema_version. Fields are only ever added; one
// that changes its meaning gets another name. Times are RFC 3339 in UTC with
// milliseconds, "" where there is none; durations are numbers of seconds, and
// say so in their names. A key that is not UTF-8 is given twice: in "key" each
// byte that fits nowhere is written \xff (which a backslash in another key may
// look like), and "key_base64", which is there only then, holds the bytes
// themselves. The same goes for "scope", "reason" and "path", without the
// second form.
//
// What `dlq export` writes is no document but JSON Lines, which `enqueue` takes
// back: without schema_version, and of a key, scope or payload that is not UTF-8
// the base64 form alone. Fields are only ever added there, too.
package report
