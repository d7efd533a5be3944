package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"batchq/jobs"
	"batchq/store"
)

// A backup is a database like any other, as the original was at one moment.
var backupCases = []testCase{
	{"TheSame", func(w *world) {
		w.furnished()
		out := w.backup("copy")
		equal(w, out.Items, int64(len(w.items(store.Selection{}))), "items")
		equal(w, out.Bytes > 0, true, "%d bytes", out.Bytes)
		copied := w.copied(out)
		if diff := cmp.Diff(w.picture(w.db), w.picture(copied)); diff != "" {
			w.t.Errorf("the copy (-original +copy):\n%s", diff)
		}
		h := must(copied.Check(w.ctx))(w)
		if !h.Sound() || len(h.Notes) > 0 {
			w.t.Errorf("the copy: %q %q %q", h.Integrity, h.Faults, h.Notes)
		}
		// Each goes its own way from here.
		before := w.picture(copied)
		w.add("pos", "later")
		must(w.db.Resume(w.ctx, nil))(w)
		if diff := cmp.Diff(before, w.picture(copied)); diff != "" {
			w.t.Errorf("the copy changes with the original (-before +after):\n%s", diff)
		}
	}},
	{"OfNothing", func(w *world) {
		out := w.backup("copy")
		equal(w, out.Items, 0, "items")
		equal(w, len(out.Runs), 0, "runs")
		equal(w, must(w.copied(out).Counts(w.ctx, nil, nil))(w), store.Counts{}, "counts")
	}},
	{"RunsThatLive", func(w *world) {
		w.add("pos", "a")
		ended, dead, lives := w.register("ended"), w.register("dead"), w.register("lives")
		w.noError(w.db.EndRun(w.ctx, ended, store.RunEnd{}))
		w.claim(dead, 1, "pos")
		w.takeOver(dead, lives)
		w.claim(lives, 1, "pos")
		out := w.backup("copy")
		if len(out.Runs) != 1 || out.Runs[0].ID != lives || out.Runs[0].Token != "lives" || out.Runs[0].PID != 4711 {
			w.t.Errorf("runs: %+v", out.Runs)
		}
	}},
	{"NeverOverwrites", func(w *world) {
		w.add("pos", "a")
		out := w.backup("copy")
		w.add("pos", "b")
		for _, path := range []string{out.Path, must(w.db.Stats(w.ctx))(w).Path} {
			if _, err := w.db.Backup(w.ctx, path, nil); !errors.Is(err, store.ErrReadOnly) {
				w.t.Errorf("a backup to %s: %v", path, err)
			}
		}
		equal(w, must(w.copied(out).Counts(w.ctx, nil, nil))(w).Ready, 1, "ready in the first copy")
		equal(w, w.counts().Ready, 2, "ready in the original")
	}},
	{"Cancelled", func(w *world) {
		w.add("pos", "a")
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		if _, err := w.db.Backup(ctx, w.beside("copy"), nil); !errors.Is(err, context.Canceled) {
			w.t.Errorf("a cancelled backup: %v", err)
		}
		w.backup("copy") // nothing is in the way
	}},
	{"Told", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("a"), Payload: make([]byte, 20<<20)})
		var at, whole int64
		must(w.db.Backup(w.ctx, w.beside("copy"), func(pages, of int64) {
			if pages <= at || pages > of || whole != 0 && of != whole {
				w.t.Errorf("%d of %d after %d of %d", pages, of, at, whole)
			}
			at, whole = pages, of
		}))(w)
		equal(w, at, whole, "pages at the end")
	}},
	{"OfAnOtherHandle", func(w *world) {
		// What another process has committed is in it at once.
		other := w.other()
		w.add("pos", "a")
		out := must(other.Backup(w.ctx, w.beside("copy"), nil))(w)
		equal(w, out.Items, 1, "items")
		// And a copy can be copied.
		again := must(w.copied(out).Backup(w.ctx, w.beside("copy of it"), nil))(w)
		if diff := cmp.Diff(w.picture(w.db), w.picture(w.copied(again))); diff != "" {
			w.t.Errorf("the copy of the copy (-original +copy):\n%s", diff)
		}
	}},
	{"ClaimsAreLater", func(w *world) {
		// The fencing token grows over a restored backup, too: a service that
		// remembers the last one must not refuse those of the restored list.
		w.add("pos", numbered(50)...)
		run := w.register("r")
		w.claim(run, 1, "pos")
		out := w.backup("copy")
		var last store.Claim
		for range 40 { // more than milliseconds have passed
			last = w.claim(run, 1, "pos")
		}
		w.clock.Move(time.Second)
		copied := w.copied(out)
		r2 := must(copied.Register(w.ctx, store.RunInfo{Token: "of the copy"}))(w)
		c := must(copied.Claim(w.ctx, w.request(r2, 1, "pos")))(w)
		equal(w, len(c.Items), 1, "claimed of the copy")
		equal(w, c.ID > last.ID, true, "claim %d of the copy after claim %d of the original", c.ID, last.ID)
	}},
	{"BesideWriters", func(w *world) {
		// Each transaction is in it or is not: never a part, and never less than
		// what was there when it began.
		const portion = 7
		w.addItems("ballast", ballast()...) // or a copy would be made in one step
		stop := make(chan struct{})
		var added atomic.Int64
		var wg sync.WaitGroup
		run := w.register("works")
		adds, works := w.other(), w.other()
		wg.Go(func() {
			for i := 0; ; i++ {
				e := store.Enqueue{Job: "pos", OnDuplicate: store.Skip}
				for k := range portion {
					e.Items = append(e.Items, store.NewItem{Key: fmt.Append(nil, i, " ", k), Payload: fmt.Append(nil, i)})
				}
				if _, err := adds.Enqueue(w.ctx, e); err != nil {
					w.t.Errorf("%v", err)
					return
				}
				added.Add(portion)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		r := w.request(run, 10, "pos")
		r.Limits.Lanes = map[string]int{jobs.Serial: 3}
		wg.Go(func() {
			for {
				w.work(works, r, func(store.Started) {}, func() {})
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for i := range 3 {
			before := added.Load()
			out := w.backup(fmt.Sprint("copy ", i))
			after := added.Load() + portion // one may be committed and not yet counted
			copied := w.copied(out)
			c := must(copied.Counts(w.ctx, []string{"pos"}, nil))(w)
			if c.Enqueued%portion != 0 || c.Enqueued < before || c.Enqueued > after {
				w.t.Errorf("%d items in a copy that was made while %d to %d were there", c.Enqueued, before, after)
			}
			equal(w, c.Claimed+c.Running+c.Ready+c.Done, c.Enqueued, "the books of the copy")
			if h := must(copied.Check(w.ctx))(w); !h.Sound() {
				w.t.Errorf("the copy: %q %q", h.Integrity, h.Faults)
			}
		}
		close(stop)
		wg.Wait()
	}},
}

// ballast is more than is copied at once: 12 MB.
func ballast() []store.NewItem {
	items := make([]store.NewItem, 12)
	for i := range items {
		items[i] = store.NewItem{Key: fmt.Append(nil, "ballast ", i), Payload: bytes.Repeat([]byte{byte(i), 0, 0xff, '\n'}, 1<<18), Delay: time.Hour}
	}
	return items
}

// beside is a path beside the database, where nothing is yet.
func (w *world) beside(name string) string {
	w.t.Helper()
	return must(w.db.Stats(w.ctx))(w).Path + "." + name
}

func (w *world) backup(name string) store.Copied {
	w.t.Helper()
	return must(w.db.Backup(w.ctx, w.beside(name), nil))(w)
}

// copied opens what Backup has written.
func (w *world) copied(c store.Copied) store.Store {
	w.t.Helper()
	return w.open(w.t, c.Path, w.clock.Now)
}

// furnished has a bit of everything.
func (w *world) furnished() {
	w.t.Helper()
	for _, s := range jobs.States() {
		w.putIn(s, s.String(), store.NewItem{Key: []byte(s.String()), Payload: []byte("payload of " + s.String())})
	}
	w.done("pruned", "mon", "x")
	equal(w, w.prune(store.Prune{Keep: map[string]time.Duration{"pruned": 0}}), pruned{done: 1}, "pruned")
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	w.enqueue(store.Enqueue{Job: "bytes", Scope: "tue", Items: []store.NewItem{
		{Key: []byte("none")}, {Key: []byte("empty"), Payload: []byte{}}, {Key: all[1:], Payload: bytes.Repeat(all, 64), Priority: 3}}})
	w.enqueue(store.Enqueue{Job: "bytes", Scope: "tue", OnDuplicate: store.Skip, Items: []store.NewItem{{Key: []byte("none")}, {Key: []byte("empty")}}})
	run := w.broken("broken", 1, "a", "b")
	w.end(run, "broken", retry(time.Hour), w.startNext(run, "broken", "a")...)
	w.pause(store.Target{Job: "bytes"}, store.Target{Lane: "parallel"})
	w.clock.Move(time.Minute)
}

// picture is everything that can be read of a database, its path apart.
type picture struct {
	Identity string
	Stats    store.Stats
	Items    []store.ItemRow
	Dead     []store.ItemRow
	Payloads []*jobs.Item // of what is ready
	Runs     []store.RunRow
	Others   []store.OtherRun
	Lanes    []string
}

func (w *world) picture(db store.Store) picture {
	w.t.Helper()
	p := picture{Identity: must(db.Identity(w.ctx))(w), Stats: must(db.Stats(w.ctx))(w), Items: must(db.Items(w.ctx, store.Selection{}))(w),
		Dead: must(db.DeadLetters(w.ctx, store.Selection{}))(w), Runs: must(db.Runs(w.ctx, store.RunSelection{}))(w),
		Others: must(db.OtherRuns(w.ctx, 0))(w), Lanes: must(db.LaneNames(w.ctx))(w)}
	for _, job := range must(db.JobNames(w.ctx))(w) {
		p.Payloads = append(p.Payloads, must(db.Peek(w.ctx, job, nil, 100))(w)...)
	}
	p.Stats.Path = ""
	// That is what differs; see foreignCases.
	for i := range p.Others {
		p.Others[i].Foreign = false
	}
	for i := range p.Runs {
		p.Runs[i].Foreign = false
	}
	for i := range p.Stats.Runs {
		p.Stats.Runs[i].Foreign = false
	}
	return p
}

// A run belongs to the file that it had open. What the book of a copy says of
// it must touch nothing that is its.
var foreignCases = []testCase{
	{"OtherRuns", func(w *world) {
		w.add("pos", "a", "b")
		r1 := w.registerIn(w.db, "r1", 77)
		w.start(r1, w.claim(r1, 1, "pos"))
		copied := w.copied(w.backup("copy"))
		r2, own := w.registerIn(copied, "r2", 78), w.registerIn(w.db, "own", 79)
		r3 := w.registerIn(copied, "r3", 80)
		foreign := func(db store.Store, run int64) map[int64]store.RunInfo {
			w.t.Helper()
			seen, listed, counted, checked := map[int64]store.RunInfo{}, map[int64]store.RunInfo{}, map[int64]store.RunInfo{}, map[int64]store.RunInfo{}
			note := func(in map[int64]store.RunInfo, r store.RunInfo) {
				if r.ID != run {
					in[r.ID] = store.RunInfo{Token: r.Token, Session: r.Session, Foreign: r.Foreign}
				}
			}
			for _, r := range must(db.OtherRuns(w.ctx, run))(w) {
				note(seen, r.RunInfo)
			}
			for _, r := range must(db.Runs(w.ctx, store.RunSelection{}))(w) {
				note(listed, r.RunInfo)
			}
			for _, r := range must(db.Stats(w.ctx))(w).Runs {
				note(counted, r)
			}
			for _, r := range must(db.Check(w.ctx))(w).Runs {
				note(checked, r.RunInfo)
			}
			for what, got := range map[string]map[int64]store.RunInfo{"Runs": listed, "Stats": counted, "Check": checked} {
				if diff := cmp.Diff(seen, got); diff != "" {
					w.t.Errorf("%s tells other runs than OtherRuns (-OtherRuns +%s):\n%s", what, what, diff)
				}
			}
			return seen
		}
		if diff := cmp.Diff(map[int64]store.RunInfo{r1: {Token: "r1", Session: 77, Foreign: true}, r2: {Token: "r2", Session: 78}}, foreign(copied, r3)); diff != "" {
			w.t.Errorf("runs in the copy (-want +got):\n%s", diff)
		}
		for _, db := range []store.Store{w.db, w.other()} {
			if diff := cmp.Diff(map[int64]store.RunInfo{r1: {Token: "r1", Session: 77}}, foreign(db, own)); diff != "" {
				w.t.Errorf("runs in the original (-want +got):\n%s", diff)
			}
		}
	}},
	{"Orphans", func(w *world) {
		w.add("pos", "a", "b")
		r1, r2 := w.registerIn(w.db, "r1", 77), w.registerIn(w.db, "r2", 78)
		w.start(r1, w.claim(r1, 1, "pos"))
		copied := w.copied(w.backup("copy"))
		r3, r4 := w.registerIn(copied, "r3", 79), w.registerIn(copied, "r4", 80)
		c := must(copied.Claim(w.ctx, w.request(r3, 1, "pos")))(w)
		out := must(copied.Advance(w.ctx, store.Advance{Run: r3, Start: []store.Start{w.startOf(c)}}))(w)
		equal(w, len(out.Started), 1, "started in the copy")
		owners := func(db store.Store, by int64, dead ...int64) map[string]store.RunInfo {
			w.t.Helper()
			for _, d := range dead {
				must(db.TakeOver(w.ctx, d, by, store.DeathLock, lease))(w)
			}
			seen := map[string]store.RunInfo{}
			for _, o := range must(db.Orphans(w.ctx, by))(w) {
				seen[string(o.It.Key)] = store.RunInfo{ID: o.Owner.ID, Token: o.Owner.Token, Session: o.Owner.Session, Foreign: o.Owner.Foreign}
			}
			return seen
		}
		want := map[string]store.RunInfo{"a": {ID: r1, Token: "r1", Session: 77, Foreign: true}, "b": {ID: r3, Token: "r3", Session: 79}}
		if diff := cmp.Diff(want, owners(copied, r4, r1, r3)); diff != "" {
			w.t.Errorf("owners in the copy (-want +got):\n%s", diff)
		}
		want = map[string]store.RunInfo{"a": {ID: r1, Token: "r1", Session: 77}}
		if diff := cmp.Diff(want, owners(w.db, r2, r1)); diff != "" {
			w.t.Errorf("owners in the original (-want +got):\n%s", diff)
		}
	}},
	{"WhoTheyAre", func(w *world) {
		// All that tells a run from every other process comes back as it was.
		want := store.RunInfo{Token: "r1", PID: 1 << 22, PIDStart: 1<<63 - 1, BootID: "boot", PIDNS: "ns", Session: 1<<22 - 1, Host: "host",
			Command: []string{"batchq", "work", "-j", "3"}}
		want.ID = must(w.db.Register(w.ctx, want))(w)
		other := must(w.db.OtherRuns(w.ctx, 0))(w)
		if diff := cmp.Diff([]store.RunInfo{want}, []store.RunInfo{other[0].RunInfo}, cmpopts.IgnoreFields(store.RunInfo{}, "Started")); diff != "" {
			w.t.Errorf("the run (-registered +read):\n%s", diff)
		}
	}},
}

// registerIn registers a run with a session in one of several databases.
func (w *world) registerIn(db store.Store, token string, session int) int64 {
	w.t.Helper()
	return must(db.Register(w.ctx, store.RunInfo{Token: token, PID: 4711, PIDStart: 99, BootID: "boot", PIDNS: "ns", Session: session, Host: "host"}))(w)
}
