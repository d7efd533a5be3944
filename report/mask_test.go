package report

import (
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	for _, c := range []struct{ in, text, part string }{
		{"", "", ""},
		{"connection refused", "connection refused", "connection refused"},
		{`order 4711 of "Müller" not found after 3.2s`, `order # of "…" not found after #`, "not found after"},
		{"timed out after 1h0m0s (failure 8 of 8)", "timed out after #", "timed out after"},
		{"timed out after 30s (failure 3 of 8)", "timed out after #", "timed out after"},
		// How often it failed is no part of why, where we have said it.
		{"exit 75: till (failure 2 of 2)", "exit 75: till", "exit 75: till"},
		{"exit 75: till", "exit 75: till", "exit 75: till"},
		{"exit 75: (failure 2 of 2) of till", "exit 75: (failure # of #) of till", "exit 75: (failure"},
		{"exit 75: x (failure 2 of 3) (failure 3 of 3)", "exit 75: x", "exit 75: x"},
		{"(failure 2 of 2)", "(failure # of #)", "failure"},
		// What the error is stays.
		{"exit 65", "exit 65", "exit 65"},
		{"exit 65: no such order: 4711", "exit 65: no such order: #", "exit 65: no such order"},
		{`exit 65: order 7 was not to be found`, "exit 65: order # was not to be found", "exit 65: order"},
		{"HTTP 503 from api-7", "HTTP 503 from api-#", "HTTP 503 from api"},
		{"exit status 2; code: 1045, status=404, errno 13", "exit status 2; code: 1045, status=404, errno 13", "exit status 2; code: 1045, status=404, errno 13"},
		{"exit 123456", "exit #", "exit"},
		{"code 2026-11-29", "code #", "code"},
		{"exit  65", "exit  #", "exit"},
		{"preexit 65", "preexit #", "preexit"},
		// Numbers and what belongs to them.
		{"2026-11-29T12:00:00.000Z 10.0.0.1:5432 12:30 1,234.5 -7 93%", "# # # # -# #%", ""},
		{"3 of 12items, 5-fold, 0xDEADbeef", "# of #, #-fold, #", "fold"},
		{"٣ of ٤", "# of #", ""},
		// Ids.
		{"id 3fa85f64-5717-4562-b3fc-2c963f66afa6 and DEADBEEF-5717-4562-b3fc-2c963f66afa6.", "id # and #.", "and"},
		{"commit a1b2c3d and deadbeef, effaced", "commit # and deadbeef, effaced", "and deadbeef, effaced"},
		{"token a8Fk29xQ, S-1042, host01.example, order4711x", "token #, S-#, host#.example, order#x", "example, order"},
		// Quotations.
		{`"" and "a \"b\" c" and 'd' and 'e f'.`, `"…" and "…" and '…' and '…'.`, "and"},
		{"„Müller“ «x» “y” `z`", "„…“ «…» “…” `…`", ""},
		{`can't open 5'6' of "x`, `can't open #'#' of "x`, "can't open"},
		{"it isn't the dog's, o'clock 7", "it isn't the dog's, o'clock #", "it isn't the dog's, o'clock"},
		{"'it's'", "'…'", ""},
		{strings.Repeat("äb ", 100), strings.Repeat("äb ", 100), strings.TrimSpace(strings.Repeat("äb ", 25))},
		// What was cut off at a length ends alike, however long its key was.
		{"exit 70: CUST-1: " + strings.Repeat("the ledger is closed ", 9) + "for th…", "exit 70: CUST-#: " + strings.TrimSpace(strings.Repeat("the ledger is closed ", 4)) + " the ledger is…", "exit 70: CUST"},
		{"exit 70: CUST-1000: " + strings.Repeat("the ledger is closed ", 9) + "for… (failure 2 of 2)", "exit 70: CUST-#: " + strings.TrimSpace(strings.Repeat("the ledger is closed ", 4)) + " the ledger is…", "exit 70: CUST"},
		{"short and cut…", "short and cut…", "short and cut"},
		// Nothing of it reaches a terminal, and what was escaped finds no reason.
		{"a\nb\tc\x1b[31mred 7 \xff", `a b c\x#b[# # \xff`, ""},
		{"no\nsuch order 7", "no such order #", ""},
	} {
		got := mask(c.in)
		if got.text != c.text || got.part != c.part {
			t.Errorf("%q:\n got %q, part %q\nwant %q, part %q", c.in, got.text, got.part, c.text, c.part)
		}
		if again := mask(got.text); again.text != got.text {
			t.Errorf("%q: masked once %q, twice %q", c.in, got.text, again.text)
		}
	}
}

// FuzzMask: whatever a reason holds, masking it once more changes nothing, no
// control character is left, and the part stands in the reason.
func FuzzMask(f *testing.F) {
	for _, s := range []string{"", "exit 65: x (failure 1 of 2)", "a (failure 1 of 2) (failure # of #)", "(failure \xff of 2)", `"a\"b" '5'6'7 exit5 65 „a“b“ 'a'5'`, "\xff\x1b1a2b-3", "3fa85f64-5717-4562-b3fc-2c963f66afa6", "1.2.x", "status=  7", "'\"'\"\\", "code:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, reason string) {
		m := mask(reason)
		if again := mask(m.text); again.text != m.text {
			t.Fatalf("%q: once %q, twice %q", reason, m.text, again.text)
		}
		if unsafeIn(m.text, "") || !strings.Contains(reason, m.part) || unsafeIn(m.part, "") {
			t.Fatalf("%q: %q, part %q", reason, m.text, m.part)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	reason := `exit 65: order 4711 of "Müller" (3fa85f64-5717-4562-b3fc-2c963f66afa6) not found after 3.2s: connection refused (failure 8 of 8)`
	b.SetBytes(int64(len(reason)))
	for b.Loop() {
		mask(reason)
	}
}
