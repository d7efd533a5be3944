package cmd

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"batchq/jobs"
	"batchq/store"
	"batchq/store/sqlite"
)

// strangeItems are items of all kinds of bytes: in keys, payloads and scopes.
func strangeItems() (items []store.NewItem) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	payloads := [][]byte{nil, {}, {0}, []byte("a\x00b"), all, []byte("\xff\xfe"), []byte("line\nbreak\r\n\ttab \"quotes\" \\"), []byte("\u2028\u202e\U0001f600\ufffd"),
		bytes.Repeat([]byte("\"\x01日\n"), 200_000), bytes.Repeat(all, 4096)}
	scopes := []string{"", "2026-11-29", "\x1b[31ms\tcope\n\xff", "日"}
	for i, key := range strangeKeys() {
		items = append(items, store.NewItem{Key: []byte(key), Payload: payloads[i%8], Scope: &scopes[i%len(scopes)], Priority: i - 100})
	}
	for i, giant := range payloads[8:] {
		items = append(items, store.NewItem{Key: []byte{'g', '0' + byte(i)}, Payload: giant, Scope: &scopes[i]})
	}
	return items
}

// What is exported and taken back, into another database or into its own, is
// what it was: every byte of keys, payloads and scopes, and the priorities.
func TestDLQExport_Back(t *testing.T) {
	t.Parallel()
	s := setup(t)
	items := strangeItems()
	add(s, s.db, items)
	setAside(s, s.db, len(items))
	before := contents(s, s.db, jobs.Dead)
	if len(before) != len(items) {
		t.Fatalf("%d items are dead, want %d", len(before), len(items))
	}

	exported := s.want(0, "dlq", "export").stdout
	if n := strings.Count(exported, "\n"); n != len(items) {
		t.Errorf("%d lines, want %d", n, len(items))
	}
	harmless(t, "the export", exported)
	other := filepath.Join(s.dir, "other.db")
	s.expect(s.batchq(exported, "--db", other, "enqueue", "j", "--format", "export"), 0, "enqueue --format export")
	same(t, "in another database", before, contents(s, other, jobs.Ready))

	for _, mode := range []string{"requeue", "replace"} {
		s.expect(s.batchq(exported, "enqueue", "j", "--format", "export"), 3, "enqueue --format export")
		s.expect(s.batchq(exported, "enqueue", "j", "--format", "export", "--on-duplicate", mode), 0, "enqueue --on-duplicate", mode)
		same(t, "by "+mode, before, contents(s, s.db, jobs.Ready))
		setAside(s, s.db, len(items))
		if again := s.want(0, "dlq", "export").stdout; len(again) != len(exported) {
			t.Errorf("after %s, the export has %d bytes, and had %d", mode, len(again), len(exported))
		}
	}
}

// A reader that has gone ends the writing of a list quietly: nothing says that
// items were written which nobody got.
func TestDLQ_NobodyReads(t *testing.T) {
	t.Parallel()
	s := setup(t)
	add(s, s.db, []store.NewItem{{Key: []byte("a")}})
	setAside(s, s.db, 1)
	for _, args := range [][]string{{"dlq", "export"}, {"dlq", "list"}, {"dlq", "list", "--json"}, {"dlq", "list", "--limit", "1"}} {
		r, w, err := os.Pipe()
		s.must(err)
		s.must(r.Close())
		c := s.command(args...)
		var stderr strings.Builder
		c.Stdout, c.Stderr = w, &stderr
		if err := c.Run(); err != nil || stderr.Len() > 0 {
			t.Errorf("%s: %v, %s", strings.Join(args, " "), err, stderr.String())
		}
		s.must(w.Close())
	}
}

// add puts items of the job j into a database.
func add(s *site, path string, items []store.NewItem) {
	s.Helper()
	db, err := sqlite.Open(s.Context(), path, sqlite.Options{Create: true})
	s.must(err)
	_, err = db.Enqueue(s.Context(), store.Enqueue{Job: "j", OnDuplicate: store.Skip, Items: items})
	s.must(err)
	s.must(db.Close())
}

// setAside makes all n ready items of the job j dead, as a run would.
func setAside(s *site, path string, n int) {
	s.Helper()
	db, err := sqlite.Open(s.Context(), path, sqlite.Options{})
	s.must(err)
	defer func() { s.must(db.Close()) }()
	run, err := db.Register(s.Context(), store.RunInfo{Token: strings.ToLower(rand.Text()), PID: 1 << 30, BootID: "another boot", PIDNS: "pid:[1]", Host: "host"})
	s.must(err)
	spec := &jobs.Spec{Name: "j", Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}
	for n > 0 {
		// A transaction starts and settles, each of which is a row.
		c, err := db.Claim(s.Context(), store.ClaimRequest{Run: run, Lane: spec.Lane, Jobs: []*jobs.Spec{spec}, Max: min(n, store.MaxRows/2), Lease: time.Minute})
		s.must(err)
		start := store.Start{Lane: spec.Lane, Want: len(c.Items)}
		for _, it := range c.Items {
			start.Items = append(start.Items, store.StartItem{Held: store.Held{Item: it.ID, Claim: c.ID}, Spec: spec})
		}
		began, err := db.Advance(s.Context(), store.Advance{Run: run, Start: []store.Start{start}})
		s.must(err)
		if len(began.Started) == 0 {
			s.Fatalf("nothing starts, and %d items are to be set aside", n)
		}
		end := store.Advance{Run: run, Close: []int64{c.ID}}
		for _, it := range began.Started {
			end.Settle = append(end.Settle, store.Settlement{Held: it.Held, Attempt: it.Attempt, Result: jobs.Result{ExitCode: 65},
				Verdict: jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: "exit 65"}})
		}
		_, err = db.Advance(s.Context(), end)
		s.must(err)
		n -= len(began.Started)
	}
	s.must(db.EndRun(s.Context(), run, store.RunEnd{Outcome: "finished"}))
}

// content is what an export has to carry of an item.
type content struct {
	scope, key, payload string
	paid                bool
	priority            int
}

// contents lists all items of the job j, which have to be in one state.
func contents(s *site, path string, state jobs.State) (list []content) {
	s.Helper()
	db, err := sqlite.Open(s.Context(), path, sqlite.Options{})
	s.must(err)
	defer func() { s.must(db.Close()) }()
	note := func(it *jobs.Item) {
		list = append(list, content{it.Scope, string(it.Key), string(it.Payload), it.Payload != nil, it.Priority})
	}
	if state == jobs.Ready {
		ready, err := db.Peek(s.Context(), "j", nil, 1<<20)
		s.must(err)
		for _, it := range ready {
			note(it)
		}
		return list
	}
	for page, err := range store.DeadPages(s.Context(), db, store.Selection{}, true) {
		s.must(err)
		for i := range page {
			note(&page[i].Item)
		}
	}
	return list
}

func same(t *testing.T, where string, want, got []content) {
	t.Helper()
	less := func(a, b content) bool { return a.scope+"\x00"+a.key < b.scope+"\x00"+b.key }
	if d := cmp.Diff(want, got, cmp.AllowUnexported(content{}), cmpopts.SortSlices(less)); d != "" {
		t.Errorf("%s (-want +got):\n%.2000s", where, d)
	}
}
