package cmd

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// The tests in extremes_* bring the program what nobody brings it in a normal
// week: numbers, sizes, bytes and years at the end of their ranges.

// An item that has failed 399 times is delayed, shown, requeued and run as any
// other: its attempts go on counting, its delay stays within the cap.
func TestExtremes_FourHundredAttempts(t *testing.T) {
	t.Parallel()
	s := setup(t)
	failed := 399
	if testing.Short() {
		failed = 39
	}
	s.enqueue("j", []string{"a"})
	fail := []string{"--", "sh", "-c", "exit 75"}
	s.want(75, append([]string{"work", "j", "--max-attempts", "1000", "--backoff-base", "1ms", "--backoff-cap", "1ms", "--limit", strconv.Itoa(failed), "--wait"}, fail...)...)

	s.until("the item is due", func() bool { return s.items(store.Selection{})[0].Due.Before(time.Now()) })
	before := time.Now()
	s.want(75, append([]string{"work", "j", "--max-attempts", "1000"}, fail...)...)
	it := s.items(store.Selection{})[0]
	policy := jobs.DefaultPolicy()
	if it.State != jobs.Delayed || it.Attempt != failed+1 || it.Failures != failed+1 {
		t.Fatalf("%+v", it)
	}
	// The first bound is what was before the run, the last what is after it.
	if earliest, latest := before.Add(-time.Second), time.Now().Add(policy.BackoffCap); it.Due.Before(earliest) || it.Due.After(latest) {
		t.Errorf("due %s: want it between %s and %s", it.Due, earliest, latest)
	}

	s.want(0, "requeue", "--state", "delayed", "--job", "j")
	s.want(3, "work", "j", "--", "sh", "-c", "exit 65")
	list := s.want(0, "dlq", "list").stdout
	if cells := strings.Split(strings.TrimSuffix(list, "\n"), "\t"); len(cells) != 8 || cells[5] != strconv.Itoa(failed+2) {
		t.Errorf("dlq list: %q", list)
	}
	s.want(0, "requeue", "--all")
	if it := s.items(store.Selection{})[0]; it.State != jobs.Ready || it.Failures != 0 || it.Attempt != failed+2 {
		t.Errorf("requeued: %+v", it)
	}
	r := s.want(0, "work", "j", "--", "sh", "-c", `printf "$BATCHQ_ATTEMPT" > seen`)
	if got := s.file("seen"); got != strconv.Itoa(failed+3) {
		t.Errorf("the command saw attempt %s, %s", got, r)
	}
	s.tidy()
}

// A payload of 50 MB goes through CSV and JSON Lines into the database and out
// to a command's standard input, byte for byte; neither process takes more
// than a few times as much memory.
func TestExtremes_LargePayload(t *testing.T) {
	t.Parallel()
	s := setup(t)
	size := 50_000_000
	if testing.Short() {
		size = 5_000_000
	}
	const base = 64 << 20 // what the program takes for itself, with room
	for _, format := range []string{"jsonl", "csv"} {
		s.largeInput(format, size)
		enqueue := s.command("enqueue", format, "big."+format, "--key", "id")
		r := s.result(enqueue)
		s.expect(r, 0, "enqueue")
		// Measured: 340 MB for JSON Lines and 386 MB for CSV, of 47 MB.
		took := peak(enqueue.ProcessState)
		if most := max(ownPeak(t), int64(base+12*size)); took > most {
			t.Errorf("enqueue of %d bytes of %s takes %d bytes of memory, at most %d wanted", size, format, took, most)
		}
		work := s.command("work", format, "--", "sh", "-c", `[ "$1" = small ] && exec cat >small; exec cmp - want`, "sh")
		r = s.result(work)
		s.expect(r, 0, "work")
		given := peak(work.ProcessState)
		if most := max(ownPeak(t), int64(base+8*size)); given > most { // measured: 186 MB of 47 MB
			t.Errorf("work with %d bytes of %s takes %d bytes of memory, at most %d wanted", size, format, given, most)
		}
		t.Logf("%s, payload of %d bytes: enqueue %d MB, work %d MB", format, size, took>>20, given>>20)
		if r.stdout != "done 2, left 0\n" || s.file("small") != `{"id":"small","x":"1"}` {
			t.Errorf("%s: %s small is %q", format, r, s.file("small"))
		}
		// The same again is known byte for byte, and one byte less is not.
		if r := s.want(0, "enqueue", format, "big."+format, "--key", "id"); !strings.HasPrefix(r.stdout, "added 0, duplicate 2,") {
			t.Error(r)
		}
	}
	// Beyond the limit of a record it is a rejection, and the rest goes in.
	if !testing.Short() {
		s.largeInput("csv", 70_000_000)
		r := s.want(3, "enqueue", "too", "big.csv", "--key", "id")
		if r.stdout != "added 1, duplicate 0, conflict 0, dead 0, rejected 1\n" || !strings.Contains(r.stderr, "rejected: big.csv:2: the record is ") {
			t.Error(r)
		}
	}
	s.tidy()
}

// peak is the most memory that a process, or one that it has waited for, had.
func peak(p *os.ProcessState) int64 {
	return p.SysUsage().(*syscall.Rusage).Maxrss << 10
}

// largeInput writes a list of a large and a small row, and what the large
// one's payload has to be.
func (s *site) largeInput(format string, size int) {
	s.Helper()
	write := func(name string, fill func(io.Writer)) {
		f, err := os.Create(filepath.Join(s.dir, name))
		s.must(err)
		b := bufio.NewWriterSize(f, 1<<20)
		fill(b)
		s.must(b.Flush())
		s.must(f.Close())
	}
	// Never the same block twice, so that one out of place shows.
	text := func(w io.Writer) {
		for n := 0; n < size; n += 16 {
			var block [16]byte
			copy(block[:], "é,;: ............")
			copy(block[6:], strconv.Itoa(n))
			_, _ = w.Write(block[:])
		}
	}
	payload := func(w io.Writer) {
		_, _ = io.WriteString(w, `{"id":"big","x":"`)
		text(w)
		_, _ = io.WriteString(w, `"}`)
	}
	write("want", payload)
	write("big."+format, func(w io.Writer) {
		if format == "jsonl" {
			payload(w)
			_, _ = io.WriteString(w, "\n"+`{"id":"small","x":"1"}`+"\n")
			return
		}
		_, _ = io.WriteString(w, "id,x\nbig,\"")
		text(w)
		_, _ = io.WriteString(w, "\"\nsmall,1\n")
	})
}

// Times at the ends of what can be said: each is refused with a sentence, or
// kept, shown and waited for as it is. Milliseconds are counted, so nothing
// ends with the nanoseconds in 2262.
func TestExtremes_Years(t *testing.T) {
	t.Parallel()
	s := setup(t)
	const year = 365.2425 * 24 * 3600
	type backlog struct {
		OldestWaiting        *string  `json:"oldest_waiting"`
		OldestWaitingSeconds *float64 `json:"oldest_waiting_seconds"`
		Delayed, Ready       int
	}
	stats := func() backlog {
		var doc struct{ Jobs []backlog }
		s.must(json.Unmarshal([]byte(s.want(0, "stats", "--json").stdout), &doc))
		return doc.Jobs[0]
	}
	for at, stored := range map[string]string{
		"2262-04-11T23:47:17Z":           "2262-04-11T23:47:17Z",
		"2262-04-12":                     "2262-04-12T00:00:00Z",
		"2500-01-01 00:00":               "2500-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z":           "9999-12-31T23:59:59Z",
		"9999-12-31T23:59:59.999999999Z": "9999-12-31T23:59:59.999Z",
	} {
		s.want(0, "enqueue", "j", "--item", at, "--at", at)
		if it := s.items(store.Selection{Key: []byte(at)})[0]; it.State != jobs.Delayed || it.Due.Format(time.RFC3339Nano) != stored {
			t.Errorf("--at %s: %s, due %s, want %s", at, it.State, it.Due, stored)
		}
	}
	if b := stats(); b.OldestWaiting != nil || b.OldestWaitingSeconds != nil || b.Delayed != 5 {
		t.Errorf("with items of the future only: %+v", b)
	}
	// They are left, told of, and waited for without spinning or overflow.
	s.want(75, "work", "j", "--", "true")
	s.want(75, "work", "j", "--wait", "--max-runtime", "300ms", "--", "true")

	s.want(0, "enqueue", "j", "--item", "first", "--at", "1970-01-01T00:00:00Z")
	age := float64(time.Now().Unix())
	b := stats()
	if b.OldestWaiting == nil || *b.OldestWaiting != "1970-01-01T00:00:00.000Z" || b.Ready != 1 || *b.OldestWaitingSeconds < age || *b.OldestWaitingSeconds > age+year {
		t.Errorf("with an item of 1970: %+v", b)
	}
	days := "  " + strconv.Itoa(int(age/86400)) + "d"
	if text := s.want(0, "stats").stdout; !strings.Contains(text, days) {
		t.Errorf("no age of %s in\n%s", days, text)
	}

	for _, at := range []string{"1969-12-31T23:59:59Z", "1600-01-01", "0001-01-01T00:00:00Z", "0000-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "10000-01-01", "+12026-01-01T00:00:00Z", "2026-02-30"} {
		r := s.want(2, "enqueue", "j", "--item", "x"+at, "--at", at)
		if r.stdout != "" || !strings.HasPrefix(r.stderr, "batchq: error: --at: ") {
			t.Errorf("--at %s: %s", at, r)
		}
	}
	longest := 106751 * 24 * time.Hour
	s.want(0, "enqueue", "j", "--item", "longest", "--delay", "106751d")
	if it := s.items(store.Selection{Key: []byte("longest")})[0]; it.Due.Sub(it.Created.Add(longest)).Abs() > time.Second {
		t.Errorf("--delay 106751d: created %s, due %s", it.Created, it.Due)
	}
	for _, delay := range []string{"106752d", "9223372037s", "1e9h", "99999999999999999999999d"} {
		if r := s.want(2, "enqueue", "j", "--item", "x"+delay, "--delay", delay); !strings.Contains(r.stderr, "is not a duration") {
			t.Errorf("--delay %s: %s", delay, r)
		}
	}
	s.want(3, "work", "j", "--", "sh", "-c", "exit 65")
	for since, code := range map[string]int{"106751d": 0, "1970-01-01": 0, "106752d": 2, "2262-04-12": 2, "9999-12-31": 2, "0001-01-01": 2} {
		r := s.batchq("", "dlq", "list", "--since", since)
		s.expect(r, code, "dlq list --since "+since)
		if code == 0 && strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("--since %s: %s", since, r)
		}
	}
	s.want(0, "requeue", "--state", "delayed", "--job", "j")
	s.want(0, "work", "j", "--", "true")
	s.tidy()
}

// A key that no argument or variable can carry is refused where it is read;
// one that has come in all the same is set aside with the reason.
func TestExtremes_NULKey(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := s.command("enqueue", "j", "--format", "jsonl", "--key", "id")
	c.Stdin = strings.NewReader("{\"id\":\"a\\u0000b\"}\n{\"id\":\"good\"}\n")
	r := s.result(c)
	if r.code != 3 || !strings.Contains(r.stderr, "rejected: stdin:1: the key field \"id\" holds a NUL") || !strings.HasPrefix(r.stdout, "added 1,") {
		t.Error(r)
	}
	db := s.open()
	_, err := db.Enqueue(t.Context(), store.Enqueue{Job: "j", Items: []store.NewItem{{Key: []byte("a\x00b")}}})
	s.must(err)
	s.must(db.Close())
	r = s.batchq("", "work", "j", "--log-dir", "logs", "--", "sh", "-c", `printf '%s\n' "$1" >> ran`, "sh")
	if r.code != 3 || s.file("ran") != "good\n" || strings.Contains(r.stderr, "\x00") || !strings.Contains(r.stderr, `a\x00b`) {
		t.Errorf("%s, ran %q", r, s.file("ran"))
	}
	if list := s.want(0, "dlq", "list"); !strings.Contains(list.stdout, "\ta\\x00b\t") || strings.Contains(list.stdout, "\x00") {
		t.Error(list)
	}
	if list := s.want(0, "dlq", "list", "--json"); !bytes.Contains([]byte(list.stdout), []byte(`"key": "a\u0000b"`)) {
		t.Error(list)
	}
	s.tidy()
}

// ownPeak is this process's own peak, in bytes: until it executes another
// program a child is a copy of it, and that counts as the child's.
func ownPeak(t *testing.T) int64 {
	t.Helper()
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return use.Maxrss << 10
}
