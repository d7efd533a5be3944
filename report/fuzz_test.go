package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
)

// unsafeIn says whether text holds what must not reach a terminal, apart from
// its line ends and, where tabs are told, those.
func unsafeIn(text string, allowed string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune(allowed, r) && unsafe(r, utf8.RuneLen(r))
	})
}

// FuzzScreens: whatever keys, scopes, reasons and command lines hold, each row
// of a list stays one line of so many cells, no screen carries a control
// character, and JSON gives the key back byte for byte.
func FuzzScreens(f *testing.F) {
	f.Add([]byte("a\tb\nc"), "s\x1b]0;t\a", "why\r\n\x9b2J\u202e", "work\x1b[8m", 80)
	f.Add([]byte("\xff\xfe\x00"), "\u2028", "\\x1b", "\u0085", 1)
	f.Add([]byte(strings.Repeat("日", 300)), "", strings.Repeat("\x7f", 500), "", 20)
	now := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, key []byte, scope, reason, word string, width int) {
		it := jobs.Item{ID: 7, Job: "j", Scope: scope, Key: key, State: jobs.Dead}
		row := store.ItemRow{Item: it, Reason: reason, Class: jobs.ClassPermanent}
		slot := store.SlotRow{Run: 1, Job: "j", Lane: jobs.Serial, Item: 7, Key: key, Scope: scope, Since: now}
		info := store.RunInfo{ID: 1, Host: word, Command: []string{"work", word}, Started: now, Ended: now}
		pause := store.Pause{Target: store.Target{Job: "j"}, Since: now, By: word, Reason: reason}
		stats := store.Stats{Path: word, Now: now, Slots: []store.SlotRow{slot}, Runs: []store.RunInfo{info}, Pauses: []store.Pause{pause},
			Jobs: []store.JobStats{{Name: "j", Breaker: &store.Breaker{Opened: now, Until: now, Reason: reason}}}}
		crashed := store.RunRow{RunInfo: info, Outcome: reason, Crashed: []store.CrashedItem{{Item: 7, Job: "j", Scope: scope, Key: key}}}

		listed := NewItems([]store.ItemRow{row, row}, 0, now)
		shown := NewShow(&store.Story{Path: word, Now: now, Item: row}, Around{Self: "batchq"}, now)
		call := &handler.Call{Argv: []string{word, string(key)}, Vars: []string{"A=" + reason}, Dir: scope}
		again := NewDeadItem(shown, Repetition{From: FromFile, Source: word, Call: call, Shell: string(key), Otherwise: reason, OtherwiseBy: word}, nil)
		never := NewDeadItem(shown, Repetition{Missing: reason}, []Hint{{To: "look", Command: Safe(word)}})
		dead := NewDeadLetters([]store.ItemRow{row, row}, now)
		alike := NewDeadGroups(ByError, now)
		alike.Add([]store.ItemRow{row, row})
		alike.Sort(0)
		runs := NewRuns([]store.RunRow{crashed, crashed}, nil, nil, false, now)
		screen := NewStats(stats, Lanes{}, nil, now)
		health := NewHealth(store.Health{Path: word, Integrity: []string{reason}, Faults: []string{scope}, Notes: []string{string(key)}}, nil, now)
		planned := NewPlanned([]PlannedJob{{Job: "j", Source: word, Command: word, First: []string{word, string(key)}}})
		worked := NewWorked(Work{Broken: map[string]string{"j": reason}, Halted: map[string]string{"j": reason}, Holds: []store.Hold{{Job: "j", Pause: &pause}}})
		moved := NewMoved(Moving{}, store.Moved{Refused: []store.Refusal{{ID: 7, Reason: reason}}})
		named := store.Named{Where: store.Where{Name: word, Line: 1}, Key: key}
		enqueued := NewEnqueued(&store.Feed{Job: "j", Scope: scope}, store.Fed{Conflicts: []store.Named{named}, Stop: &named,
			Rejects: []store.Rejected{{Where: named.Where, Reason: reason}}})
		width %= 200

		for _, list := range []struct {
			write func(*bytes.Buffer) error
			cells int
		}{
			{func(b *bytes.Buffer) error { return listed.WriteTabs(b) }, 8},
			{func(b *bytes.Buffer) error { return DeadLettersTabs{}.Items(b, []store.ItemRow{row, row}) }, 8},
			{func(b *bytes.Buffer) error { return runs.WriteTabs(b) }, 9},
			{func(b *bytes.Buffer) error { return errors.Join(alike.WriteTabs(b), alike.WriteTabs(b)) }, 6},
		} {
			var b bytes.Buffer
			if err := list.write(&b); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if strings.Count(text, "\n") != 2 || strings.Count(text, "\t") != 2*(list.cells-1) || unsafeIn(text, "\t\n") {
				t.Fatalf("two rows of %d cells: %q", list.cells, text)
			}
		}
		for _, screen := range []struct {
			write func(*bytes.Buffer) error
			lines int // 0: any number
		}{
			{func(b *bytes.Buffer) error { return dead.WriteTable(b, width) }, 3},
			{func(b *bytes.Buffer) error { return listed.WriteTable(b, width) }, 3},
			{func(b *bytes.Buffer) error { return again.WriteText(b, width) }, 0},
			{func(b *bytes.Buffer) error { return never.WriteText(b, width) }, 0},
			{func(b *bytes.Buffer) error { return alike.WriteTable(b, width) }, 2},
			{func(b *bytes.Buffer) error { return runs.WriteTable(b, width) }, 0},
			{func(b *bytes.Buffer) error { return screen.WriteText(b, width) }, 0},
			{func(b *bytes.Buffer) error { return health.WriteText(b) }, 0},
		} {
			var b bytes.Buffer
			if err := screen.write(&b); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if unsafeIn(text, "\n") || screen.lines > 0 && strings.Count(text, "\n") != screen.lines {
				t.Fatalf("%d lines wanted: %q", screen.lines, text)
			}
		}
		for _, document := range []any{alike, NewExported(&row), deadLetter(&row), listed.Document(), shown, again, never, runs, screen, health, planned, worked, moved, enqueued} {
			var b bytes.Buffer
			if err := WriteJSON(&b, document); err != nil {
				t.Fatal(err)
			}
			if unsafeIn(b.String(), "\n") || !json.Valid(b.Bytes()) {
				t.Fatalf("%q", b.String())
			}
			// A byte that is no UTF-8 is escaped; U+FFFD would hide which it was.
			hidden := strings.Count(string(key)+scope+reason+word, "\ufffd") == 0
			if hidden && strings.Contains(b.String(), "\ufffd") || strings.Contains(b.String(), `\ufffd`) {
				t.Fatalf("a byte is lost: %s", b.String())
			}
		}
	})
}
