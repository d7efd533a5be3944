package storetest

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// The dead-letter list in pages.
var deadCases = []testCase{
	{"Empty", func(w *world) {
		w.add("pos", "a")
		equal(w, len(w.deadPages(store.Selection{}, true)), 0, "pages")
	}},
	{"EachOnce", func(w *world) {
		// Many die in the same millisecond, across the end of a page as well.
		w.add("pos", numbered(2300)...)
		run := w.register("r")
		for {
			c := w.claim(run, 350, "pos")
			if len(c.Items) == 0 {
				break
			}
			w.settle(run, dead, w.start(run, c)...)
			if len(c.Items)%2 == 0 {
				w.clock.Move(time.Millisecond)
			}
		}
		pages := w.deadPages(store.Selection{}, false)
		equal(w, len(pages), 3, "pages")
		var got []store.ItemRow
		for _, p := range pages {
			if len(p) > store.MaxRows {
				w.t.Errorf("a page of %d items", len(p))
			}
			got = append(got, p...)
		}
		want := must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)
		for i := range want {
			want[i].Last.Output = jobs.Output{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.t.Errorf("all pages (-list +pages):\n%s", diff)
		}
	}},
	{"Selected", func(w *world) {
		ids := w.assorted()
		for _, c := range []struct {
			s    store.Selection
			want string
		}{
			{store.Selection{}, "b c"},
			{store.Selection{States: []jobs.State{jobs.Ready}}, "b c"},
			{store.Selection{Class: jobs.ClassTimeout}, "c"},
			{store.Selection{Jobs: []string{"other"}}, ""},
			{store.Selection{Key: []byte("b")}, "b"},
			{store.Selection{Since: 90 * time.Second}, "c"},
			{store.Selection{IDs: []int64{ids["a"], ids["b"], 999}}, "b"},
			{store.Selection{Error: "EXIT"}, "b"},
		} {
			equal(w, w.deadKeys(c.s), c.want, "%+v", c.s)
		}
	}},
	{"Limit", func(w *world) {
		w.kill("pos", numbered(1200)...)
		for _, limit := range []int{1, store.MaxRows - 1, store.MaxRows, store.MaxRows + 1, 5000} {
			n := 0
			for _, p := range w.deadPages(store.Selection{Limit: limit}, false) {
				n += len(p)
			}
			equal(w, n, min(limit, 1200), "items of at most %d", limit)
		}
	}},
	{"Payloads", func(w *world) {
		payloads := [][]byte{nil, {}, {0}, []byte("text"), {0xff, 0xfe}, bytes.Repeat([]byte{0, 1, 0xff}, 1000)}
		for i, p := range payloads {
			w.addItems("pos", store.NewItem{Key: fmt.Append(nil, i), Payload: p})
		}
		w.kill("pos")
		for i, it := range w.deadPages(store.Selection{}, true)[0] {
			if !bytes.Equal(it.Payload, payloads[i]) || (it.Payload == nil) != (payloads[i] == nil) {
				w.t.Errorf("payload %d: got %q, nil %v", i, it.Payload, it.Payload == nil)
			}
		}
		for i, it := range w.deadPages(store.Selection{}, false)[0] {
			equal(w, it.Payload == nil, true, "no payload was asked for, of item %d", i)
		}
	}},
	{"Bytes", func(w *world) {
		// A page ends where it has become large; one giant is a page of its own.
		for i := range 6 {
			size := store.PageBytes / 2
			if i == 3 {
				size = 3 * store.PageBytes
			}
			w.addItems("pos", store.NewItem{Key: fmt.Append(nil, i), Payload: bytes.Repeat([]byte{'x'}, size)})
		}
		w.kill("pos")
		var sizes []int
		for _, p := range w.deadPages(store.Selection{}, true) {
			sizes = append(sizes, len(p))
		}
		if diff := cmp.Diff([]int{2, 2, 2}, sizes); diff != "" {
			w.t.Errorf("items a page (-want +got):\n%s", diff)
		}
	}},
	{"WhatDiesMeanwhile", func(w *world) {
		// It ends beside a run that goes on setting items aside, and what has
		// been moved before its page came is passed over.
		w.kill("pos", numbered(1500)...)
		last := w.item("k1499").ID
		n := 0
		for page, err := range store.DeadPages(w.ctx, w.db, store.Selection{}, false) {
			w.noError(err)
			if n += len(page); n == store.MaxRows {
				w.clock.Move(time.Millisecond)
				w.kill("pos", "new")
				w.requeue([]int64{last}, jobs.Dead)
				w.kill("pos") // dead again, and a new one now
			}
		}
		equal(w, n, 1499, "items")
	}},
	{"ClockSetBack", func(w *world) {
		// What died while the clock was wrong is in the list all the same.
		w.kill("pos", "a")
		w.clock.Move(-time.Hour)
		w.kill("pos", "b")
		equal(w, w.deadKeys(store.Selection{}), "b a", "keys")
	}},
}

// deadPages reads the dead-letter list to its end.
func (w *world) deadPages(s store.Selection, payloads bool) (pages [][]store.ItemRow) {
	w.t.Helper()
	for page, err := range store.DeadPages(w.ctx, w.db, s, payloads) {
		w.noError(err)
		pages = append(pages, page)
	}
	return pages
}

func (w *world) deadKeys(s store.Selection) string {
	w.t.Helper()
	var keys []string
	for _, page := range w.deadPages(s, false) {
		for _, it := range page {
			keys = append(keys, string(it.Key))
		}
	}
	return strings.Join(keys, " ")
}

// kill adds keys and sets aside everything of the job that is ready.
func (w *world) kill(job string, keys ...string) {
	w.t.Helper()
	w.add(job, keys...)
	run := w.register("killer " + rand.Text())
	for {
		c := w.claim(run, store.MaxRows, job)
		if len(c.Items) == 0 {
			return
		}
		for s := w.start(run, c); len(s) > 0; {
			n := min(len(s), store.MaxRows/2)
			w.settle(run, dead, s[:n]...)
			s = s[n:]
		}
	}
}
