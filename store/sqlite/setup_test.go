package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// helperEnv names what a test binary that was started by a test does instead
// of testing: real processes, for what only processes show.
const helperEnv = "BATCHQ_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperEnv); name != "" {
		if err := helpers[name](os.Args[1:]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n") // nobody else to tell
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if large.dir != "" {
		_ = os.RemoveAll(large.dir) // a temporary file that stays harms nobody
	}
	os.Exit(code)
}

// process is a helper in a process of its own, not started yet. Its output is
// in the buffer when it has ended.
func process(t *testing.T, helper string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	// By this path a binary can be executed also by who may not reach it.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), helperEnv+"="+helper)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// runHelper waits for a helper that has to succeed.
func runHelper(t *testing.T, helper string, args ...string) string {
	t.Helper()
	cmd, out := process(t, helper, args...)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", helper, args, err, out)
	}
	return out.String()
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
	tb.Cleanup(func() { noError(tb, db.Close()) })
	return db
}

// raw is a connection of another program, for what ours would not do.
func raw(tb testing.TB, path string) *sql.Conn {
	tb.Helper()
	pool, err := sql.Open("sqlite", "file:"+path)
	noError(tb, err)
	conn, err := pool.Conn(context.Background())
	noError(tb, err)
	tb.Cleanup(func() { noError(tb, conn.Close()); noError(tb, pool.Close()) })
	return conn
}

func execute(tb testing.TB, conn *sql.Conn, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := conn.ExecContext(context.Background(), s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
}

func noError(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func spec(name string) *jobs.Spec {
	return &jobs.Spec{Name: name, Lane: jobs.Serial, Policy: jobs.DefaultPolicy()}
}

func register(tb testing.TB, db *DB, token string) int64 {
	tb.Helper()
	id, err := db.Register(context.Background(), store.RunInfo{Token: token, PID: os.Getpid(), Host: "here"})
	noError(tb, err)
	return id
}

func add(tb testing.TB, db *DB, keys ...string) []store.Outcome {
	tb.Helper()
	e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip}
	for _, k := range keys {
		e.Items = append(e.Items, store.NewItem{Key: []byte(k)})
	}
	out, err := db.Enqueue(context.Background(), e)
	noError(tb, err)
	return out.Outcomes
}

func claim(tb testing.TB, db *DB, run int64, n int) store.Claim {
	tb.Helper()
	c, err := db.Claim(context.Background(), store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{spec("pos")}, Max: n, Lease: time.Minute})
	noError(tb, err)
	return c
}

// start starts everything of a claim.
func start(tb testing.TB, db *DB, run int64, c store.Claim) []store.Started {
	tb.Helper()
	s := store.Start{Lane: c.Lane, Want: len(c.Items)}
	for _, h := range heldOf(c) {
		s.Items = append(s.Items, store.StartItem{Held: h, Spec: spec("pos")})
	}
	out, err := db.Advance(context.Background(), store.Advance{Run: run, Start: []store.Start{s}})
	noError(tb, err)
	return out.Started
}

func settlement(s store.Started, v jobs.Verdict) store.Settlement {
	return store.Settlement{Held: s.Held, Attempt: s.Attempt, Result: jobs.Result{Duration: time.Millisecond}, Verdict: v}
}

var done = jobs.Verdict{To: jobs.Done, Class: jobs.ClassDone}

func heldOf(c store.Claim) (held []store.Held) {
	for _, it := range c.Items {
		held = append(held, store.Held{Item: it.ID, Claim: c.ID})
	}
	return held
}

// sound wants books that balance, without even a note.
func sound(tb testing.TB, db *DB) {
	tb.Helper()
	h, err := db.Check(context.Background())
	noError(tb, err)
	if !h.Sound() || len(h.Notes) > 0 {
		tb.Errorf("the books: %q %q %q", h.Integrity, h.Faults, h.Notes)
	}
}

// leaksNothing fails when an error lets a word of the engine out.
func leaksNothing(tb testing.TB, err error) {
	tb.Helper()
	for _, word := range []string{"sqlite", "wal", "malformed", "pragma"} {
		if strings.Contains(strings.ToLower(strings.ReplaceAll(err.Error(), tb.Name(), "")), word) {
			tb.Errorf("the error speaks of %q: %v", word, err)
		}
	}
}
