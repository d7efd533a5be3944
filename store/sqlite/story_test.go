package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// told are the stories of all items, by id, from one handle.
func told(t *testing.T, db *DB) (stories []*store.Story) {
	t.Helper()
	items, err := db.Items(t.Context(), store.Selection{})
	noError(t, err)
	for _, it := range items {
		got, err := db.Story(t.Context(), store.Naming{ID: it.ID})
		noError(t, err)
		if got.Story == nil {
			t.Fatalf("item %d has no story", it.ID)
		}
		stories = append(stories, got.Story)
	}
	return stories
}

// nobodyLives lets a file be migrated that has a run of an older batchq in it.
func nobodyLives(string, store.RunInfo) bool { return false }

// The story of one item among a million costs what hangs on that item: each
// search goes by an index, in one snapshot.
func TestStory_Plans(t *testing.T) {
	db := openWith(t, older(t), Options{Now: noon, Migrate: true, Lives: nobodyLives}) // an item in each state
	execute(t, raw(t, db.Path()), "UPDATE item SET crashes = 1", "UPDATE slot SET orphan = 1")
	names := []store.Naming{{Job: "pos", Key: []byte("ready")}, {Job: "pos", Key: []byte("ready"), Scope: new("")}, {Job: "pos", Key: []byte("none")}, {ID: 1 << 40, Key: []byte("ready")}}
	for _, s := range told(t, db) {
		names = append(names, store.Naming{ID: s.Item.ID})
	}
	asked := map[string]bool{}
	db.reader = recorder{db.reader, asked} // the report's connection is open by now
	for _, n := range names {
		_, err := db.Story(t.Context(), n)
		noError(t, err)
	}
	// Those that only run with an orphan are asked too, or this shows nothing.
	for _, part := range []string{"FROM slot s JOIN item i ON i.id = s.item JOIN job j", "i.crashes > 0", "state <> 6", "FROM tally t", "FROM job j WHERE EXISTS", "JOIN policy p"} {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(asked)), func(s string) bool { return strings.Contains(s, part) }) {
			t.Fatalf("no statement has %q: the walk has lost its way", part)
		}
	}
	for s := range asked {
		if strings.HasPrefix(s, "PRAGMA") {
			continue
		}
		for _, step := range plansOf(t, db, s) {
			if wholeTable.MatchString(step) || strings.Contains(step, "AUTOMATIC") {
				t.Errorf("%q\nin %s", step, s)
			}
		}
	}
	for part, want := range map[string]string{
		"FROM tally t":            "SEARCH i USING COVERING INDEX item_key (job=? AND scope=? AND key=?)",
		"(rank, id) < ":           "SEARCH item USING COVERING INDEX item_ready (job=? AND rank<?)",
		"FROM attempt":            "SEARCH attempt USING PRIMARY KEY (item=?)",
		"length(body)":            "SEARCH payload USING INTEGER PRIMARY KEY (rowid=?)",
		"SELECT id FROM item IND": "SEARCH item USING COVERING INDEX item_key (job=? AND scope=? AND key=?)",
	} {
		found := false
		for s := range asked {
			if strings.Contains(s, part) {
				found = true
				if steps := plansOf(t, db, s); !slices.ContainsFunc(steps, func(step string) bool {
					return strings.Contains(strings.ReplaceAll(step, "COVERING ", ""), strings.ReplaceAll(want, "COVERING ", ""))
				}) {
					t.Errorf("want %q in\n%s\nof %s", want, strings.Join(steps, "\n"), s)
				}
			}
		}
		if !found {
			t.Errorf("no statement has %q", part)
		}
	}
}

// snapshots counts how often a report begins to read.
type snapshots struct {
	connection
	n *int
}

func (s snapshots) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.HasPrefix(query, "BEGIN") {
		*s.n++
	}
	return s.connection.ExecContext(ctx, query, args...)
}

func TestStory_OneSnapshot(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	told(t, db)
	n := 0
	db.reader = snapshots{db.reader, &n}
	_, err := db.Story(t.Context(), store.Naming{Job: "pos", Key: []byte("a")})
	noError(t, err)
	if n != 1 {
		t.Errorf("it took %d snapshots", n)
	}
}

// Who only reads an older file tells the same story, and leaves it as it is.
func TestStory_Older(t *testing.T) {
	path := older(t)
	tell := func(o Options) (lines []string) {
		t.Helper()
		o.Now = noon
		t.Run("open", func(t *testing.T) {
			for _, s := range told(t, openWith(t, path, o)) {
				state := s.Item.State
				if (s.Grip != nil) != (state == jobs.Claimed || state == jobs.Running) || s.IdempotencyKey == "" || state == jobs.Running && (s.Grip.Run.Token != "lives" || s.Grip.Slot == nil) {
					t.Errorf("item %d: %+v", s.Item.ID, s)
				}
				lines = append(lines, fmt.Sprintf("%d %s %s %d %v", s.Item.ID, state, s.IdempotencyKey, len(s.Attempts), s.Grip != nil))
			}
		})
		return lines
	}
	before := tell(Options{})
	if v := versionOf(t, path); v != 1 {
		t.Fatalf("it was migrated to %d", v)
	}
	after := tell(Options{Migrate: true, Lives: nobodyLives})
	if v := versionOf(t, path); v == 1 {
		t.Fatal("it was not migrated")
	}
	if !slices.Equal(before, after) {
		t.Errorf("before: %q\nafter: %q", before, after)
	}
}

// An older file's orphan, and a run that it does not know to be of another
// file.
func TestStory_OlderOrphan(t *testing.T) {
	path := older(t)
	t.Run("orphan", func(t *testing.T) {
		execute(t, raw(t, path), "UPDATE slot SET orphan = (SELECT id FROM run WHERE token = 'died')")
	})
	for _, s := range told(t, openWith(t, path, Options{Now: noon})) {
		if s.Item.State != jobs.Running {
			continue
		}
		o := s.Grip.Orphan
		if o == nil || o.Owner.Token != "died" || o.Owner.Foreign || s.Grip.Run.Foreign || o.Policy.Timeout == 0 {
			t.Errorf("%+v", o)
		}
		return
	}
	t.Error("nothing runs")
}

// The count of those before one ends where nobody needs to know it better.
func TestStory_LongLine(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand items take long under the race detector")
	}
	db := openFresh(t)
	add(t, db, "first")
	execute(t, raw(t, db.Path()), fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO item (id, job, scope, key, state, rank, due, created) SELECT i, 1, 1, CAST(i AS BLOB), 0, (SELECT rank FROM item WHERE id = 1), 0, 0 FROM n`, lineCounted+2),
		fmt.Sprintf("UPDATE tally SET enqueued = %[1]d, ready = %[1]d", lineCounted+2))
	for id, want := range map[int64]store.Line{1: {}, 2: {Before: 1}, lineCounted + 1: {Before: lineCounted}, lineCounted + 2: {Before: lineCounted, More: true}} {
		got, err := db.Story(t.Context(), store.Naming{ID: id})
		noError(t, err)
		if *got.Story.Line != want {
			t.Errorf("item %d: %+v, want %+v", id, *got.Story.Line, want)
		}
	}
}

// A spec that can't be read keeps nothing else from who asks.
func TestStory_UnreadableSpec(t *testing.T) {
	db := openFresh(t)
	add(t, db, "a")
	claim(t, db, register(t, db, "r"), 1)
	if s := told(t, db)[0]; s.Spec == nil || s.Spec.Policy.Timeout != time.Hour {
		t.Errorf("%+v", s.Spec)
	}
	execute(t, raw(t, db.Path()), `UPDATE policy SET spec = '{"rate": "7/lightyear"}'`, `UPDATE job SET spec = 'not JSON'`)
	if s := told(t, db)[0]; s.Spec != nil || s.Item.State != jobs.Claimed {
		t.Errorf("%+v", s.Spec)
	}
}

// A file of each schema between is read, too.
func TestStory_BetweenSchemas(t *testing.T) {
	for version := 1; version < schemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := older(t)
			conn := raw(t, path)
			for _, m := range migrations()[1:version] {
				execute(t, conn, m.sql)
			}
			execute(t, conn, fmt.Sprintf("PRAGMA user_version = %d", version), "UPDATE slot SET orphan = 1")
			if n := len(told(t, openWith(t, path, Options{Now: noon}))); n != 7 {
				t.Errorf("%d stories", n)
			}
		})
	}
}

// A pool is kept for one job at a time, the one that has waited longest, and
// only as long as that was noted for.
func TestStory_Kept(t *testing.T) {
	db := openWith(t, older(t), Options{Now: noon, Migrate: true, Lives: nobodyLives})
	now := noon().UnixMilli()
	const minute = 60_000
	conn := raw(t, db.Path())
	execute(t, conn, "INSERT INTO job (id, name) VALUES (2, 'first'), (3, 'second')")
	put := func(job string, since, until, kept, span int64) {
		t.Helper()
		execute(t, conn, fmt.Sprintf(`INSERT OR REPLACE INTO squeeze (job, lane, uses, since, until, kept, span)
			SELECT id, 'serial', '{"db":3}', %d, %d, %d, %d FROM job WHERE name = '%s'`, now+since, now+until, kept, span, job))
	}
	kept := func(want string) {
		t.Helper()
		got := ""
		if k := told(t, db)[0].Kept; k != nil {
			got = fmt.Sprintf("%s %d until %d", k.Job, k.Uses["db"], k.Until.UnixMilli()-now)
		}
		if got != want {
			t.Errorf("kept: %q, want %q", got, want)
		}
	}
	kept("")
	put("second", -5*minute, minute, now-minute, 3*minute)
	kept("second 3 until 120000")
	put("first", -6*minute, minute, now-minute, 4*minute)
	kept("first 3 until 180000")
	put("first", -6*minute, minute, 0, minute) // not yet
	kept("second 3 until 120000")
	put("first", -6*minute, minute, now-2*minute, minute) // not any more
	kept("second 3 until 120000")
	put("second", -5*minute, 0, now-minute, 3*minute) // nobody wants it any more
	kept("")
	put("first", minute, minute, now-minute, 3*minute) // the clock was set back
	kept("")
	put("pos", -6*minute, minute, now-minute, 4*minute) // itself
	kept("")
}
