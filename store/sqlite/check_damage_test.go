package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"batchq/store"
)

// hundreds makes a database of some hundred items, closed, and says where it is.
func hundreds(t *testing.T) (path string) {
	t.Helper()
	path = t.TempDir() + "/batchq.db"
	db, err := Open(context.Background(), path, Options{Create: true})
	noError(t, err)
	var keys []string
	for i := range 400 {
		keys = append(keys, fmt.Sprint("a key of some length, number ", i))
	}
	doneItems(t, db, keys[:200]...)
	add(t, db, keys[200:]...)
	noError(t, db.Close())
	return path
}

// Whatever page is damaged: what is wrong is said, a line each, and what else
// can be found; nobody is told that the file is sound, and no copy is made.
func TestCheck_DamagedPages(t *testing.T) {
	path := hundreds(t)
	whole, err := os.ReadFile(path)
	noError(t, err)
	const page = 4096
	found, opened, named := 0, 0, false
	step, least := 1, 20
	if testing.Short() {
		step, least = 4, 5
	}
	for n := 0; n < len(whole)/page-1; n += step {
		for name, fill := range map[string]byte{"zero": 0, "garbage": 0xa5} {
			bytes := []byte(string(whole))
			for i := range page {
				bytes[(n+1)*page+i] = fill
			}
			noError(t, os.WriteFile(path, bytes, 0o600))
			db, err := Open(context.Background(), path, Options{})
			if errors.Is(err, store.ErrDamaged) {
				continue
			}
			noError(t, err)
			opened++
			h, err := db.Check(context.Background())
			noError(t, err)
			if h.Sound() {
				t.Errorf("%s in page %d: it is said to be sound", name, n+2)
			}
			if len(h.Integrity) > 0 {
				found++
			}
			if len(h.Integrity) > 2*integrityLines {
				t.Errorf("%d lines", len(h.Integrity))
			}
			for _, line := range append(h.Integrity, h.Faults...) {
				named = named || strings.HasPrefix(line, "item: Tree ")
				if strings.ContainsAny(line, "\n") || len(line) > 200 || strings.HasPrefix(line, "***") {
					t.Errorf("%s in page %d: %q", name, n+2, line)
				}
			}
			_, err = db.Backup(context.Background(), t.TempDir()+"/copy", nil)
			if fe, ok := errors.AsType[*store.FileError](err); !ok || fe.Path != path || strings.Contains(fe.Error(), ".new") {
				t.Errorf("%s in page %d: backup: %v", name, n+2, err)
			}
			noError(t, db.Close())
		}
	}
	if !named {
		t.Error("nowhere the table of the damaged page was named")
	}
	if opened < least || found < opened/2 {
		t.Errorf("%d of them could be opened, and in %d the engine found damage", opened, found)
	}
}

// An index in which rows are missing: a line each, and no more than a person can
// read.
func TestCheck_DamagedIndex(t *testing.T) {
	path := hundreds(t)
	conn := raw(t, path)
	var text, root string
	noError(t, conn.QueryRowContext(context.Background(), "SELECT sql, rootpage FROM sqlite_schema WHERE name = 'item_ready'").Scan(&text, &root))
	execute(t, conn, "PRAGMA writable_schema = 1", "DELETE FROM sqlite_schema WHERE name = 'item_ready'", "PRAGMA writable_schema = RESET",
		"UPDATE item SET rank = rank + 1 WHERE state = 0",
		"PRAGMA writable_schema = 1", "INSERT INTO sqlite_schema VALUES ('index', 'item_ready', 'item', "+root+", '"+text+"')", "PRAGMA writable_schema = RESET")
	h := examine(t, openAt(t, path))
	if len(h.Integrity) != integrityLines+1 || h.Integrity[integrityLines] != "there may be more: the engine's check ended here" {
		t.Errorf("%d lines: %q", len(h.Integrity), h.Integrity)
	}
	for _, line := range h.Integrity {
		if strings.Contains(line, "\n") {
			t.Errorf("%q", line)
		}
	}
	if len(h.Faults) > 0 {
		t.Errorf("faults: %q", h.Faults)
	}
}
