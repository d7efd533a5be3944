package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"batchq/store"
	"batchq/store/sqlite"
)

// A hundred thousand scopes (a scope for each customer, by mistake or not) are
// counted, listed and worked as one is; stats stays one screen.
func TestExtremes_Scopes(t *testing.T) {
	t.Parallel()
	s := setup(t)
	scopes := 100_000
	if testing.Short() {
		scopes = 2_000
	}
	s.manyScopes(scopes)

	began := time.Now()
	document := s.want(0, "stats", "--json").stdout
	took := time.Since(began)
	text := s.want(0, "stats").stdout
	t.Logf("%d scopes: stats takes %s, %d bytes of JSON, %d lines of text; database %d bytes", scopes, took, len(document), strings.Count(text, "\n"), s.size())
	if n := strings.Count(text, "\n"); n > 20 {
		t.Errorf("stats has %d lines", n)
	}
	if len(document) > 10_000 {
		t.Errorf("stats --json has %d bytes", len(document))
	}
	s.wantTotals(map[string]int{"ready": scopes})

	middle := scopeName(scopes / 2)
	r := s.want(0, "work", "j", "--scope", middle, "--wait", "--", "sh", "-c", `printf "%s " "$BATCHQ_SCOPE" >> seen`)
	if r.stdout != "done 1, left 0\n" || s.file("seen") != middle+" " {
		t.Errorf("work --scope %s: %s, it worked %q", middle, r, s.file("seen"))
	}
	s.want(75, "work", "j", "--limit", "3", "--", "sh", "-c", "exit 1")
	s.want(3, "work", "j", "--limit", "50", "--", "sh", "-c", "exit 65")
	if n := strings.Count(s.want(0, "dlq", "list").stdout, "\n"); n != 50 {
		t.Errorf("dlq list has %d lines, want 50", n)
	}
	if r := s.want(0, "requeue", "--scope", scopeName(3)); r.stdout != "requeued 1\n" {
		t.Error(r)
	}
	if r := s.want(0, "drop", "--job", "j"); r.stdout != fmt.Sprintf("dropped %d\n", scopes-1) {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"done": 1, "dropped": scopes - 1})
	s.tidy()
}

func scopeName(i int) string { return fmt.Sprintf("customer-%06d", i) }

func (s *site) size() int64 {
	s.Helper()
	info, err := os.Stat(s.db)
	s.must(err)
	return info.Size()
}

// manyScopes adds one item to each of so many scopes. A transaction for each,
// every one of them synced, would take a disk minutes; memory has no disk to
// wait for, and the file is put in its place afterwards.
func (s *site) manyScopes(n int) {
	s.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "batchq-scopes-")
	if err != nil {
		dir = s.dir // slower, and right all the same
	} else {
		defer os.RemoveAll(dir)
	}
	path := filepath.Join(dir, "draft.db")
	db, err := sqlite.Open(s.Context(), path, sqlite.Options{Create: true})
	s.must(err)
	for i := range n {
		e := store.Enqueue{Job: "j", Scope: scopeName(i), Items: []store.NewItem{{Key: []byte("k")}}}
		if _, err := db.Enqueue(s.Context(), e); err != nil {
			s.must(errors.Join(err, db.Close()))
		}
	}
	s.must(db.Close())
	data, err := os.ReadFile(path)
	s.must(err)
	s.must(os.WriteFile(s.db, data, 0o600))
	var doc struct{ Totals struct{ Ready int } }
	s.must(json.Unmarshal([]byte(s.want(0, "stats", "--json").stdout), &doc))
	if doc.Totals.Ready != n {
		s.Fatalf("%d items are there, want %d", doc.Totals.Ready, n)
	}
}
