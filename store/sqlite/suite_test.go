package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"batchq/store"
	"batchq/store/storetest"
)

func TestStore(t *testing.T) { storetest.Run(t, freshStore) }

// freshStore makes a new file for the suite; each handle is a DB of its own.
func freshStore(tb storetest.TB) storetest.Open {
	tb.Helper()
	dir, err := os.MkdirTemp("", "batchq-test-")
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("%v", err)
		}
	})
	return func(tb storetest.TB, path string, now func() time.Time) store.Store {
		tb.Helper()
		create := path == ""
		if create {
			path = filepath.Join(dir, "batchq.db")
		}
		db, err := Open(context.Background(), path, Options{Create: create, Now: now})
		if err != nil {
			tb.Fatalf("%v", err)
		}
		tb.Cleanup(func() {
			if err := db.Close(); err != nil {
				tb.Errorf("closing: %v", err)
			}
		})
		return db
	}
}
