package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if large.dir != "" {
		_ = os.RemoveAll(large.dir) // a temporary file that stays harms nobody
	}
	os.Exit(code)
}

// openFresh makes a new database that is closed with the test.
func openFresh(tb testing.TB) *DB {
	tb.Helper()
	return openWith(tb, filepath.Join(tb.TempDir(), "batchq.db"), Options{Create: true})
}

// openAt opens an existing database.
func openAt(tb testing.TB, path string) *DB {
	tb.Helper()
	return openWith(tb, path, Options{})
}

func openWith(tb testing.TB, path string, o Options) *DB {
	tb.Helper()
	db, err := Open(context.Background(), path, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

func spec(name string) *jobs.Spec {
	return &jobs.Spec{Name: name, Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}
}

func register(tb testing.TB, db *DB, token string) int64 {
	tb.Helper()
	id, err := db.Register(context.Background(), store.RunInfo{Token: token, PID: os.Getpid(), Host: "here"})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

func heldOf(c store.Claim) (held []store.Held) {
	for _, it := range c.Items {
		held = append(held, store.Held{Item: it.ID, Claim: c.ID})
	}
	return held
}

var _ = time.Second
