package lease

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/store"
	"batchq/store/sqlite"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role) // a process of a test; it does not come back
	}
	dir, err := os.MkdirTemp("", "leasetest")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil { // of result files, of the dead as well
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if left, _ := filepath.Glob(filepath.Join(dir, "batchq-*")); len(left) > 0 && code == 0 {
			fmt.Println("private directories of dead runs are left:", left)
			code = 1
		}
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// patience bounds what must happen soon, on however slow a machine.
const patience = 60 * time.Second

// bundle is what a test of this package works with: a database and a file to
// which the items' command appends "key start|end pid".
type bundle struct {
	*testing.T
	dir   string
	path  string // of the database
	clock *clock // what the handles of this process take for now
	db    *sqlite.DB
}

// clock is the wall clock as a test may set it.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) step(by time.Duration) { c.offset.Add(int64(by)) }

// setup makes an empty database. When the test ends its books must balance.
func setup(t *testing.T) *bundle {
	t.Helper()
	dir := t.TempDir()
	b := &bundle{T: t, dir: dir, path: filepath.Join(dir, "batchq.db"), clock: &clock{}}
	b.db = b.open()
	t.Cleanup(func() { // before the handle is closed: last in, first out
		h, err := b.db.Check(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, fault := range append(h.Integrity, h.Faults...) {
			t.Errorf("doctor: %s", fault)
		}
	})
	return b
}

// open returns a handle of its own.
func (b *bundle) open() *sqlite.DB {
	b.Helper()
	db, err := sqlite.Open(context.Background(), b.path, sqlite.Options{Create: true, Now: b.clock.now})
	b.must(err)
	b.Cleanup(func() { b.check(db.Close()) })
	return db
}

func (b *bundle) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bundle) check(err error) {
	b.Helper()
	if err != nil {
		b.Error(err)
	}
}

// until polls for a condition and fails the test when it never comes.
func (b *bundle) until(what string, ok func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(3 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("never: %s\nlog:\n%s", what, b.log())
		}
	}
}

// spec is the job "j" that runs text for each item. The text may call
// say start|end, wait NAME (for a file) and mark NAME (make one).
func (b *bundle) spec(text string) *jobs.Spec {
	p := jobs.DefaultPolicy()
	p.KillAfter = 100 * time.Millisecond
	return &jobs.Spec{Name: "j", Lane: jobs.Serial, Policy: p, Handler: jobs.Handler{
		Dir: b.dir,
		Shell: `key=$1; say() { echo "$key $1 $$" >> log; }; mark() { : > "$1"; }
			wait_for() { until [ -e "$1" ]; do sleep 0.01; done; }
			` + text}}
}

// holds is the text of an item that goes on until it is ended.
const holds = `say start; wait_for never; say end`

func (b *bundle) enqueue(keys ...string) {
	b.Helper()
	e := store.Enqueue{Job: "j"}
	for _, k := range keys {
		e.Items = append(e.Items, store.NewItem{Key: []byte(k)})
	}
	_, err := b.db.Enqueue(b.Context(), e)
	b.must(err)
}

// item is an item as reports show it.
func (b *bundle) item(key string) store.ItemRow {
	b.Helper()
	rows, err := b.db.Items(context.Background(), store.Selection{Key: []byte(key)})
	b.must(err)
	if len(rows) != 1 {
		b.Fatalf("%d items have the key %s", len(rows), key)
	}
	return rows[0]
}

// info is a run as the book has it.
func (b *bundle) info(id int64) (found store.RunInfo) {
	b.Helper()
	st, err := b.db.Stats(context.Background())
	b.must(err)
	for _, run := range st.Runs {
		if run.ID == id {
			return run
		}
	}
	b.Fatalf("run %d is not in the book", id)
	return found
}

// want checks states by key: "a ready, b dead".
func (b *bundle) want(states string) {
	b.Helper()
	var got []string
	for _, s := range strings.Split(states, ", ") {
		key, _, _ := strings.Cut(s, " ")
		got = append(got, key+" "+b.item(key).State.String())
	}
	if g := strings.Join(got, ", "); g != states {
		b.Errorf("got %s; want %s", g, states)
	}
}

// becomes waits for a state.
func (b *bundle) becomes(key string, s jobs.State) {
	b.Helper()
	b.until(key+" becomes "+s.String(), func() bool { return b.item(key).State == s })
}

func (b *bundle) counters() store.Counters {
	b.Helper()
	st, err := b.db.Stats(context.Background())
	b.must(err)
	for _, j := range st.Jobs {
		if j.Name == "j" {
			return j.Counters
		}
	}
	return store.Counters{}
}

// wantCrashes checks that the item was charged so often, and that every place
// where that is counted agrees.
func (b *bundle) wantCrashes(key string, n int) {
	b.Helper()
	if it := b.item(key); it.Crashes != n || it.Failures != 0 {
		b.Errorf("%s: %d crashes, %d failures; want %d and 0", key, it.Crashes, it.Failures, n)
	}
	if c := b.counters(); c.Crashes != int64(n) {
		b.Errorf("%d crashes are counted; want %d", c.Crashes, n)
	}
	var rows int
	b.sqlRow(&rows, `SELECT count(*) FROM attempt WHERE class = 'crash'`)
	if rows != n {
		b.Errorf("%d attempts are on record as crashes; want %d", rows, n)
	}
}

// exec changes the database behind the store's back, foreign keys unchecked:
// what a hand or a fault may do.
func (b *bundle) exec(query string, args ...any) {
	b.Helper()
	b.withSQL(func(db *sql.DB) error { _, err := db.Exec(query, args...); return err })
}

func (b *bundle) sqlRow(dest any, query string, args ...any) {
	b.Helper()
	b.withSQL(func(db *sql.DB) error { return db.QueryRow(query, args...).Scan(dest) })
}

func (b *bundle) withSQL(f func(*sql.DB) error) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=foreign_keys(0)&_pragma=busy_timeout(30000)")
	b.must(err)
	defer func() { b.check(db.Close()) }()
	b.must(f(db))
}

// log is what the items' commands have written.
func (b *bundle) log() string {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		return ""
	}
	return string(text)
}

// touch makes a file for which an item waits.
func (b *bundle) touch(name string) {
	b.Helper()
	b.write(name, "")
}

func (b *bundle) write(name, text string) {
	b.Helper()
	b.must(os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600))
}

// pid reads the number that a command has written into a file.
func (b *bundle) pid(name string) (pid int) {
	b.Helper()
	b.until(name+" holds a pid", func() bool {
		text, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil || !strings.HasSuffix(string(text), "\n") {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

// alive says whether a process runs (a zombie does not).
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z") && !strings.HasPrefix(after, "X")
}

// rescuer is a registered run of this process, which Rescue is called on.
type rescuer struct {
	*Run
	b     *bundle
	mu    sync.Mutex
	notes []jobs.Note
}

// rescuer registers a run with a lease of a minute. It is closed with the test.
func (b *bundle) rescuer() *rescuer {
	b.Helper()
	r := b.register()
	b.Cleanup(func() { b.check(r.Close(context.Background(), store.RunEnd{Outcome: "finished"})) })
	return r
}

func (b *bundle) register() *rescuer {
	b.Helper()
	r := &rescuer{b: b}
	run, err := Register(context.Background(), b.open(), Options{Database: b.path, Lease: time.Minute, Note: func(n jobs.Note) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, n)
	}})
	b.must(err)
	r.Run = run
	return r
}

// rescue looks for the dead once and waits until what can be ended has been.
func (r *rescuer) rescue() {
	r.b.Helper()
	r.b.must(r.Rescue(context.Background()))
	r.settled()
}

func (r *rescuer) settled() {
	r.b.Helper()
	r.b.until("the orphans are settled, or are stuck", func() bool {
		orphans, stuck := r.Pending()
		return orphans == 0 || stuck
	})
}

// said returns the notes that contain text.
func (r *rescuer) said(text string) (found []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.notes {
		if strings.Contains(n.Text, text) {
			found = append(found, n.Text)
		}
	}
	return found
}

// claims returns the keys that a run would take next.
func (r *rescuer) claims(spec *jobs.Spec) (keys []string) {
	r.b.Helper()
	c, err := r.b.db.Claim(context.Background(), store.ClaimRequest{Run: r.Info.ID, Lane: spec.Lane, Jobs: []*jobs.Spec{spec}, Max: 100, Lease: time.Minute})
	r.b.must(err)
	for _, it := range c.Items {
		keys = append(keys, string(it.Key))
	}
	return keys
}

// endMarked kills whatever bears a mark that begins so.
func endMarked(token string) {
	_, _ = handler.End(context.Background(), []handler.Orphan{{Mark: token, Prefix: true}}, 0)
}

func (b *bundle) file(name string) string {
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func kill(pid int, sig syscall.Signal) { _ = syscall.Kill(pid, sig) }
