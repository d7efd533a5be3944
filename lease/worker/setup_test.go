package worker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"batchq/jobs"
	"batchq/jobs/handler"
	"batchq/lease"
	"batchq/lease/worker"
	"batchq/store"
	"batchq/store/sqlite"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		play(role) // a process of a test; it does not come back
	}
	dir, err := os.MkdirTemp("", "workertest")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("TMPDIR", dir); err != nil { // of result files, of killed runs as well
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// patience bounds what must happen soon, on however slow a machine.
const patience = 20 * time.Second

// bundle is what a test of this package works with: a database, a handle that
// looks at it, and a file to which the items' command appends "key start|end pid".
type bundle struct {
	*testing.T
	dir  string
	path string // of the database
	db   *sqlite.DB
	// clock is what is added to the wall clock of all handles of this process.
	clock atomic.Int64
}

// setup makes an empty database. When the test ends its books must balance.
func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{T: t, dir: t.TempDir()}
	b.path = filepath.Join(b.dir, "batchq.db")
	b.db = b.open(sqlite.Options{})
	t.Cleanup(func() { // before the handle is closed: last in, first out
		h, err := b.db.Check(context.Background())
		b.check(err)
		for _, fault := range append(h.Integrity, h.Faults...) {
			t.Errorf("doctor: %s", fault)
		}
	})
	return b
}

// slow skips what takes a while, or does it beside others: most of it waits.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow")
	}
	t.Parallel()
}

func (b *bundle) open(o sqlite.Options) *sqlite.DB {
	b.Helper()
	o.Create, o.Now = true, func() time.Time { return time.Now().Add(time.Duration(b.clock.Load())) }
	db, err := sqlite.Open(context.Background(), b.path, o)
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
			b.Fatalf("never: %s\nlog:\n%s", what, b.file("log"))
		}
	}
}

// job is a job in the lane that runs text for each item. The text may call
// say start|end, wait_for FILE, mark FILE, and guard N, which says "over" when
// more than N commands that call it run at once, in whatever process: each
// takes one of N locks, which the kernel gives back at any death.
func (b *bundle) job(name, lane, text string) *jobs.Spec {
	p := jobs.DefaultPolicy()
	p.KillAfter = 200 * time.Millisecond
	p.BackoffBase, p.BackoffCap = 10*time.Millisecond, 50*time.Millisecond
	return &jobs.Spec{Name: name, Lane: lane, Policy: p, Source: "the test", Handler: jobs.Handler{
		Dir: b.dir,
		Shell: `key=$1; say() { echo "$key $1 $$" >> log; }; mark() { : > "$1"; }
			wait_for() { until [ -e "$1" ]; do sleep 0.01; done; }
			guard() { i=0; while [ $i -lt $1 ]; do exec 9> "guard$i"; flock -n 9 && return; i=$((i+1)); done; say over; }
			` + text}}
}

const (
	quick = `say start; say end`
	holds = `say start; wait_for go; say end`
)

// serial is the lane serial with the jobs given; parallel one with n slots.
func serial(specs ...*jobs.Spec) worker.Lane { return lane(jobs.Serial, 1, specs...) }

func lane(name string, n int, specs ...*jobs.Spec) worker.Lane {
	return worker.Lane{Name: name, Slots: n, Jobs: specs}
}

func plan(lanes ...worker.Lane) worker.Plan {
	return worker.Plan{Lanes: lanes, Batch: 100, Lease: time.Minute, Grace: patience}
}

func (b *bundle) enqueue(job string, keys ...string) {
	b.Helper()
	b.enqueueAs(job, store.NewItem{}, keys...)
}

// enqueueAs adds items like the one given.
func (b *bundle) enqueueAs(job string, like store.NewItem, keys ...string) {
	b.Helper()
	for part := range slices.Chunk(keys, store.MaxRows) {
		e := store.Enqueue{Job: job}
		for _, k := range part {
			like.Key = []byte(k)
			e.Items = append(e.Items, like)
		}
		_, err := b.db.Enqueue(context.Background(), e)
		b.must(err)
	}
}

// keys are prefix1 … prefixN.
func keys(prefix string, n int) (all []string) {
	for i := 1; i <= n; i++ {
		all = append(all, prefix+strconv.Itoa(i))
	}
	return all
}

func (b *bundle) counts() store.Counts {
	b.Helper()
	c, err := b.db.Counts(context.Background(), nil, nil)
	b.must(err)
	return c
}

// wantCounts checks that these many items are in these states, and all others in none.
func (b *bundle) wantCounts(want store.Counts) {
	b.Helper()
	want.Enqueued = want.Ready + want.Delayed + want.Claimed + want.Running + want.Done + want.Dead
	if got := b.counts(); got != want {
		b.Errorf("counts are %+v; want %+v", got, want)
	}
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

// want checks one item: its state, and what was charged to it.
func (b *bundle) want(key string, s jobs.State, failures, crashes int) {
	b.Helper()
	if it := b.item(key); it.State != s || it.Failures != failures || it.Crashes != crashes {
		b.Errorf("%s is %s with %d failures and %d crashes (%s); want %s, %d, %d", key, it.State, it.Failures, it.Crashes, it.Reason, s, failures, crashes)
	}
}

func (b *bundle) counters(job string) store.Counters {
	b.Helper()
	st, err := b.db.Stats(context.Background())
	b.must(err)
	for _, j := range st.Jobs {
		if j.Name == job {
			return j.Counters
		}
	}
	return store.Counters{}
}

// begun waits until the command of key has started.
func (b *bundle) begun(key string) {
	b.Helper()
	b.until(key+" runs", func() bool { return b.ran(key, "start") > 0 })
}

// event is a line of the log.
type event struct {
	key, what string
	pid       int
}

func (b *bundle) log() (all []event) {
	b.Helper()
	text := b.file("log")
	for line := range strings.Lines(text[:strings.LastIndexByte(text, '\n')+1]) {
		var e event
		if _, err := fmt.Sscan(line, &e.key, &e.what, &e.pid); err != nil {
			b.Fatalf("line %q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

// ran counts the lines "key what"; "" means any key.
func (b *bundle) ran(key, what string) (n int) {
	b.Helper()
	for _, e := range b.log() {
		if (key == "" || e.key == key) && e.what == what {
			n++
		}
	}
	return n
}

// order lists the keys in the order of their lines.
func (b *bundle) order(what string) (keys []string) {
	b.Helper()
	for _, e := range b.log() {
		if e.what == what {
			keys = append(keys, e.key)
		}
	}
	return keys
}

// once checks that each key has started and ended exactly once, and that no
// guard was overrun.
func (b *bundle) once(keys ...string) {
	b.Helper()
	starts, ends := map[string]int{}, map[string]int{}
	for _, e := range b.log() {
		switch e.what {
		case "start":
			starts[e.key]++
		case "end":
			ends[e.key]++
		case "over":
			b.Errorf("%s ran beside more than were allowed", e.key)
		}
	}
	for _, k := range keys {
		if starts[k] != 1 || ends[k] != 1 {
			b.Errorf("%s started %d times and ended %d times", k, starts[k], ends[k])
		}
	}
}

// most is the largest number of commands that ran at once, by the log.
func (b *bundle) most() (most int) {
	b.Helper()
	now := 0
	for _, e := range b.log() {
		switch e.what {
		case "start":
			now++
		case "end":
			now--
		}
		most = max(most, now)
	}
	return most
}

func (b *bundle) file(name string) string {
	b.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	return string(text)
}

// touch makes a file for which an item waits.
func (b *bundle) touch(name string) { b.Helper(); b.write(name, "") }

func (b *bundle) write(name, text string) {
	b.Helper()
	b.must(os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o600))
}

// exec changes the database behind the store's back.
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
	db, err := sql.Open("sqlite", "file:"+b.path+"?_pragma=foreign_keys(0)&_pragma=busy_timeout(60000)")
	b.must(err)
	defer func() { b.check(db.Close()) }()
	b.must(f(db))
}

// lock takes the write lock of the database, as another program may, until
// the function that it returns is called.
func (b *bundle) lock() (unlock func()) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+b.path+"?_txlock=exclusive&_pragma=busy_timeout(60000)")
	b.must(err)
	tx, err := db.Begin()
	b.must(err)
	var once sync.Once
	unlock = func() {
		once.Do(func() {
			b.check(tx.Rollback())
			b.check(db.Close())
		})
	}
	b.Cleanup(unlock)
	return unlock
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

// run is a run of this process at work.
type run struct {
	b     *bundle
	lease *lease.Run
	own   *sqlite.DB
	soft  context.CancelFunc
	hard  context.CancelFunc
	done  chan struct{}

	sum worker.Summary // when done
	err error

	mu      sync.Mutex
	notes   []jobs.Note
	started func(*jobs.Item) // called in the loop
	verdict map[string][]jobs.Verdict
}

// options of a run that few tests set.
type options struct {
	wait     time.Duration // how long the loop's handle waits for a lock
	started  func(*jobs.Item)
	store    func(worker.Store) worker.Store // put between the loop and the store
	replaced bool                            // look whether the file was replaced
}

// start begins a run in this process.
func (b *bundle) start(p worker.Plan) *run { b.Helper(); return b.startWith(p, options{}) }

func (b *bundle) startWith(p worker.Plan, o options) *run {
	b.Helper()
	r := &run{b: b, done: make(chan struct{}), started: o.started, verdict: map[string][]jobs.Verdict{}}
	queue := b.open(sqlite.Options{Wait: o.wait})
	r.own = b.open(sqlite.Options{})
	ctx := context.Background()
	var err error
	r.lease, err = lease.Register(ctx, r.own, lease.Options{Database: b.path, Lease: p.Lease, Note: r.Note})
	b.must(err)
	runner, err := handler.NewRunner(r.lease.Info.Token)
	b.must(err)
	var s worker.Store = queue
	if o.store != nil {
		s = o.store(s)
	}
	w, err := worker.New(ctx, p, s, r.lease, runner, r)
	b.must(err)
	soft, cancelSoft := context.WithCancel(ctx)
	hard, cancelHard := context.WithCancel(ctx)
	r.soft, r.hard = cancelSoft, func() { cancelSoft(); cancelHard() }
	replaced := func() bool { return false }
	if o.replaced {
		replaced = queue.Replaced
	}
	go func() {
		defer close(r.done)
		r.sum, r.err = w.Run(soft, hard, replaced)
		r.err = errors.Join(r.err, r.lease.Close(ctx, store.RunEnd{Outcome: "finished"}), runner.Close())
	}()
	b.Cleanup(func() { // whatever became of the test
		r.hard()
		<-r.done
	})
	return r
}

// wait returns when the run has ended.
func (r *run) wait() worker.Summary {
	r.b.Helper()
	select {
	case <-r.done:
	case <-time.After(patience):
		r.b.Fatalf("the run does not end; notes: %v\nlog:\n%s", r.notes, r.b.file("log"))
	}
	r.b.must(r.err)
	return r.sum
}

func (r *run) hasEnded() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// work runs a plan to its end.
func (b *bundle) work(p worker.Plan) worker.Summary {
	b.Helper()
	return b.start(p).wait()
}

func (r *run) Started(it *jobs.Item) {
	if r.started != nil {
		r.started(it)
	}
}

func (r *run) Refused(*jobs.Item) {}

func (r *run) Settled(it *jobs.Item, _ jobs.Result, v jobs.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdict[string(it.Key)] = append(r.verdict[string(it.Key)], v)
}

func (r *run) Note(n jobs.Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, n)
}

// said returns the notes that contain text.
func (r *run) said(text string) (found []jobs.Note) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.notes {
		if strings.Contains(n.Text, text) {
			found = append(found, n)
		}
	}
	return found
}
