package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// older makes the file of a batchq whose schema was 1, with items in every
// state and a run that it ended, one that died and one that goes on.
func older(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "batchq.db")
	db, err := Open(t.Context(), path, Options{Create: true, Now: noon})
	noError(t, err)
	add(t, db, "done", "dead", "crashed", "running", "claimed", "ready", "dropped")
	ended, died, lives := register(t, db, "ended"), register(t, db, "died"), register(t, db, "lives")
	started := start(t, db, ended, claim(t, db, ended, 2))
	_, err = db.Advance(t.Context(), store.Advance{Run: ended, Settle: []store.Settlement{settlement(started[0], done),
		settlement(started[1], jobs.Verdict{To: jobs.Dead, Class: jobs.ClassPermanent, Charge: jobs.ChargeFailure, Reason: "exit 65"})}})
	noError(t, err)
	noError(t, db.EndRun(t.Context(), ended, store.RunEnd{Outcome: "finished"}))
	start(t, db, died, claim(t, db, died, 1))
	takeOver(t, db, died, lives)
	orphans, err := db.Orphans(t.Context(), lives)
	noError(t, err)
	noError(t, db.SettleOrphan(t.Context(), lives, orphans[0], jobs.Verdict{To: jobs.Delayed, Class: jobs.ClassCrash, Charge: jobs.ChargeCrash, Delay: time.Hour, Reason: "its run died"}))
	start(t, db, lives, claim(t, db, lives, 1))
	claim(t, db, lives, 1)
	_, err = db.Drop(t.Context(), []int64{7})
	noError(t, err)
	noError(t, db.Close())
	t.Run("lay", func(t *testing.T) {
		execute(t, raw(t, path), "DROP TABLE throttle", "ALTER TABLE daily DROP COLUMN throttled", "DROP INDEX attempt_crash", "DROP TABLE squeeze", "DROP TABLE pace", "DROP TABLE streak", "DROP TABLE breaker", "DROP TABLE pause",
			"ALTER TABLE run DROP COLUMN file", "ALTER TABLE run DROP COLUMN session", "ALTER TABLE book DROP COLUMN swept",
			"UPDATE run SET schema = 1", "PRAGMA user_version = 1", "VACUUM")
	})
	// That is what the first migration alone makes.
	t.Run("compare", func(t *testing.T) {
		first := raw(t, filepath.Join(t.TempDir(), "first.db"))
		execute(t, first, migrations()[0].sql)
		const schema = "SELECT coalesce(group_concat(sql, char(10) ORDER BY name), '') FROM sqlite_schema"
		var want, got string
		noError(t, first.QueryRowContext(t.Context(), schema).Scan(&want))
		noError(t, raw(t, path).QueryRowContext(t.Context(), schema).Scan(&got))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the schema is not that of the first migration (-want +got):\n%s", diff)
		}
	})
	return path
}

func noon() time.Time { return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC) }

// versionOf is a file's schema.
func versionOf(t *testing.T, path string) (version int) {
	t.Helper()
	t.Run("version", func(t *testing.T) { // closes its connection at once
		noError(t, raw(t, path).QueryRowContext(t.Context(), "PRAGMA user_version").Scan(&version))
	})
	return version
}

// shown is all that reports show of a database.
type shown struct {
	Stats  store.Stats
	Items  []store.ItemRow
	Dead   []store.ItemRow
	Runs   []store.RunRow
	Counts store.Counts
	InHand store.InHand
	Lanes  []string
	Names  []string
	Ready  []*jobs.Item
	ID     string
}

func show(t *testing.T, db *DB) (s shown) {
	t.Helper()
	ctx := t.Context()
	var errs [10]error
	s.Stats, errs[0] = db.Stats(ctx)
	s.Items, errs[1] = db.Items(ctx, store.Selection{})
	s.Dead, errs[2] = db.DeadLetters(ctx, store.Selection{})
	s.Runs, errs[3] = db.Runs(ctx, store.RunSelection{})
	s.Counts, errs[4] = db.Counts(ctx, nil, nil)
	s.InHand, errs[5] = db.InHand(ctx, store.Target{})
	s.Lanes, errs[6] = db.LaneNames(ctx)
	s.Names, errs[7] = db.JobNames(ctx)
	s.Ready, errs[8] = db.Peek(ctx, "pos", nil, 9)
	s.ID, errs[9] = db.Identity(ctx)
	noError(t, errors.Join(errs[:]...))
	return s
}

// Who only reads an older file leaves it as it is, and who changes it brings
// it up to date and loses nothing.
func TestMigrate_Older(t *testing.T) {
	path := older(t)
	var before shown
	t.Run("Read", func(t *testing.T) {
		db := openWith(t, path, Options{Now: noon})
		before = show(t, db)
		if want := (store.Counts{Enqueued: 7, Ready: 1, Delayed: 1, Claimed: 1, Running: 1, Done: 1, Dead: 1, Dropped: 1}); before.Counts != want {
			t.Errorf("counts %+v, want %+v", before.Counts, want)
		}
		if r := before.Runs; len(r) != 3 || len(r[1].Crashed) != 1 || r[1].Schema != 1 {
			t.Errorf("runs %+v", r)
		}
		h, err := db.Check(t.Context())
		noError(t, err)
		if !h.Sound() || h.Schema != 1 {
			t.Errorf("health %+v", h)
		}
	})
	if v := versionOf(t, path); v != 1 {
		t.Fatalf("schema %d after reading, want 1", v)
	}
	t.Run("Migrate", func(t *testing.T) {
		db := openWith(t, path, Options{Migrate: true, Now: noon, Lives: func(string, store.RunInfo) bool { return false }})
		if diff := cmp.Diff(before, show(t, db)); diff != "" {
			t.Errorf("shown (-before +after):\n%s", diff)
		}
		sound(t, db)
		noError(t, db.Pause(t.Context(), []store.Target{{Job: "other"}}, "ann", ""))
		run := register(t, db, "new")
		if c := claim(t, db, run, 9); len(start(t, db, run, c)) != 1 {
			t.Errorf("claimed %+v", c)
		}
	})
	if v := versionOf(t, path); v != schemaVersion {
		t.Errorf("schema %d, want %d", v, schemaVersion)
	}
}

// While a run of the older batchq lives, the file stays as that one knows it.
func TestMigrate_OlderRunLives(t *testing.T) {
	path := older(t)
	before := picture(t, filepath.Dir(path))
	var asked []store.RunInfo
	lives := func(at string, r store.RunInfo) bool {
		if at != path {
			t.Errorf("asked about %s, want %s", at, path)
		}
		asked = append(asked, r)
		return true
	}
	for name, o := range map[string]Options{"Migrate": {Migrate: true, Lives: lives}, "Create": {Create: true, Lives: lives}, "NobodyToAsk": {Migrate: true}} {
		asked = nil
		db, err := Open(t.Context(), path, o)
		if err == nil {
			t.Fatal(name, db.Close(), "it was opened")
		}
		var fe *store.FileError
		if !errors.Is(err, store.ErrOlderRun) || !errors.As(err, &fe) || fe.Path != path || fe.Hint == "" || !strings.Contains(err.Error(), "run 3, pid ") {
			t.Errorf("%s: %v: want %v, naming run 3", name, err, store.ErrOlderRun)
		}
		leaksNothing(t, err)
		if diff := cmp.Diff(before, picture(t, filepath.Dir(path))); diff != "" {
			t.Errorf("%s: the directory changed (-before +after):\n%s", name, diff)
		}
		// Those that have ended are not asked for.
		if o.Lives != nil && (len(asked) != 1 || asked[0].Token != "lives" || asked[0].PID == 0 || asked[0].Host != "here") {
			t.Errorf("%s: asked about %+v", name, asked)
		}
	}
	t.Run("Read", func(t *testing.T) { show(t, openAt(t, path)) })
	if v := versionOf(t, path); v != 1 {
		t.Errorf("schema %d, want 1", v)
	}
	// When it has written its end, nobody is in the way.
	t.Run("end", func(t *testing.T) {
		noError(t, openAt(t, path).EndRun(t.Context(), 3, store.RunEnd{}))
		openWith(t, path, Options{Migrate: true})
	})
	if v := versionOf(t, path); v != schemaVersion {
		t.Errorf("schema %d, want %d", v, schemaVersion)
	}
}

// A run of this batchq is in nobody's way.
func TestMigrate_RunsOfThisSchema(t *testing.T) {
	db := openFresh(t)
	register(t, db, "lives")
	openWith(t, db.Path(), Options{Migrate: true, Lives: func(string, store.RunInfo) bool { return true }})
}

// Who finds an older file races to bring it up to date: it is done once, in
// one process or several.
func TestMigrate_Race(t *testing.T) {
	t.Run("Processes", func(t *testing.T) {
		for _, version := range []int{0, 1} {
			path := raced(t, version)
			var cmds []*exec.Cmd
			for range 8 {
				cmd, out := process(t, "open", path)
				noError(t, cmd.Start())
				cmds = append(cmds, cmd)
				defer func() {
					if t.Failed() {
						t.Log(out)
					}
				}()
			}
			for _, cmd := range cmds {
				if err := cmd.Wait(); err != nil {
					t.Error(err)
				}
			}
			migratedOnce(t, path)
		}
	})
	t.Run("Handles", func(t *testing.T) {
		path := raced(t, 1)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := openAndClose(path); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		migratedOnce(t, path)
	})
}

// raced lays a file of an older schema: 0 is one that has only our mark.
func raced(t *testing.T, version int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "batchq.db")
	t.Run("lay", func(t *testing.T) {
		conn := raw(t, path)
		execute(t, conn, fmt.Sprintf("PRAGMA application_id = %d", applicationID), "PRAGMA journal_mode = WAL")
		for _, m := range migrations()[:version] {
			execute(t, conn, m.sql, fmt.Sprintf("PRAGMA user_version = %d", m.version))
		}
	})
	return path
}

func migratedOnce(t *testing.T, path string) {
	t.Helper()
	if v := versionOf(t, path); v != schemaVersion {
		t.Errorf("schema %d, want %d", v, schemaVersion)
	}
	var tables int
	noError(t, raw(t, path).QueryRowContext(context.Background(), "SELECT count(*) FROM sqlite_schema WHERE name IN ('item', 'pause')").Scan(&tables))
	if tables != 2 {
		t.Errorf("%d of 2 tables", tables)
	}
}
