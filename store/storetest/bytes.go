package storetest

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"

	"batchq/jobs"
	"batchq/store"
)

// Keys and payloads survive as they came.
var byteCases = []testCase{
	{"Keys", func(w *world) {
		var keys []string
		for b := range 256 {
			keys = append(keys, string([]byte{byte(b)}))
		}
		keys = append(keys, "a\x00", "a\x00b", "a\x00\x00", "A", "ä", "a\u0308", "\xff\xfe", "a\n", "a ", " a", "'; DROP TABLE item; --",
			string(bytes.Repeat([]byte("long"), 50_000)))
		keys = dedupe(keys)
		w.add("pos", keys...)
		for i, it := range w.items(store.Selection{}) {
			equal(w, string(it.Key), keys[i], "key %d", i)
		}
		for _, k := range keys {
			equal(w, string(w.item(k).Key), k, "the key, looked up")
			out := w.enqueue(store.Enqueue{Job: "pos", Items: []store.NewItem{{Key: []byte(k)}}})
			equal(w, out[0], store.Duplicate, "key %q once more", k)
		}
		equal(w, len(keysOf(w.claim(w.register("r"), 1000, "pos"))), len(keys), "claimed")
	}},
	{"Payloads", func(w *world) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		payloads := [][]byte{nil, {}, {0}, {0, 0}, []byte("text"), all, {0xff, 0xfe}, bytes.Repeat(all, 1024)}
		for i, p := range payloads {
			w.addItems("pos", store.NewItem{Key: fmt.Append(nil, i), Payload: p})
		}
		run := w.register("r")
		for i, s := range w.start(run, w.claim(run, 100, "pos")) {
			if !bytes.Equal(s.Payload, payloads[i]) || (s.Payload == nil) != (payloads[i] == nil) {
				w.t.Errorf("payload %d: got %d bytes, nil %v; want %d, nil %v", i, len(s.Payload), s.Payload == nil, len(payloads[i]), payloads[i] == nil)
			}
			if diff := cmp.Diff(payloads[i], must(w.db.Payload(w.ctx, s.Item))(w)); diff != "" {
				w.t.Errorf("payload %d, by the item's id (-want +got):\n%s", i, diff)
			}
		}
		equal(w, must(w.db.Payload(w.ctx, 999))(w) == nil, true, "no payload of no item")
	}},
	{"EmptyPayloadIsNotNone", func(w *world) {
		w.addItems("pos", store.NewItem{Key: []byte("none")}, store.NewItem{Key: []byte("empty"), Payload: []byte{}})
		for _, x := range []struct {
			key     string
			payload []byte
			want    store.Outcome
		}{{"none", nil, store.Duplicate}, {"none", []byte{}, store.Conflict}, {"empty", []byte{}, store.Duplicate}, {"empty", nil, store.Conflict}} {
			for _, dry := range []bool{true, false} {
				out := w.enqueue(store.Enqueue{Job: "pos", DryRun: dry, Items: []store.NewItem{{Key: []byte(x.key), Payload: x.payload}}})
				equal(w, out[0], x.want, "%s met by %v, dry run %v", x.key, x.payload, dry)
			}
		}
	}},
	{"Names", func(w *world) {
		// Jobs and scopes are text; a quote in one must not be syntax anywhere.
		for _, name := range []string{`o'clock`, `"quoted"`, `a%b_c`, `back\slash`, "zwölf", "line\nbreak"} {
			w.enqueue(store.Enqueue{Job: name, Scope: name, Items: []store.NewItem{{Key: []byte("k")}}})
			s := store.Selection{Jobs: []string{name}, Scope: &name}
			equal(w, len(w.items(s)), 1, "items of %q", name)
			equal(w, must(w.db.Counts(w.ctx, []string{name}, &name))(w).Ready, 1, "counted of %q", name)
			c := w.claim(w.register(name), 10, name)
			equal(w, len(c.Items), 1, "claimed of %q", name)
			equal(w, c.Items[0].Scope, name, "scope")
		}
	}},
	{"Output", func(w *world) {
		// What a command printed is kept as bytes, too.
		w.add("pos", "a")
		run := w.register("r")
		s := settlement(w.start(run, w.claim(run, 1, "pos"))[0], dead)
		s.Result.Output = jobs.Output{Head: []byte("\x00\xff head"), Tail: []byte("tail \xfe\n"), Omitted: 12345}
		w.advance(store.Advance{Run: run, Settle: []store.Settlement{s}})
		got := must(w.db.DeadLetters(w.ctx, store.Selection{}))(w)[0].Last
		if diff := cmp.Diff(s.Result.Output, got.Output); diff != "" {
			w.t.Errorf("output (-want +got):\n%s", diff)
		}
	}},
}

func dedupe(keys []string) (unique []string) {
	seen := map[string]bool{}
	for _, k := range keys {
		if !seen[k] {
			unique = append(unique, k)
		}
		seen[k] = true
	}
	return unique
}

// blamesFile says whether an error is about the database file.
func blamesFile(err error) bool {
	var fe *store.FileError
	return errors.As(err, &fe)
}
