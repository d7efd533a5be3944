package handler

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

func TestMixed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, keptHead - 1, keptHead, keptHead + 1, keptHead + keptTail, keptHead + keptTail + 1, 100_000} {
		whole := make([]byte, size)
		for i := range whole {
			whole[i] = byte(random.Uint32())
		}
		for _, chunk := range []int{1, 7, 1000, keptTail, 32 << 10} {
			var m mixed
			for rest := whole; len(rest) > 0; {
				n := min(len(rest), chunk)
				m.write(rest[:n])
				rest = rest[n:]
			}
			o := m.output()
			head, tail := min(size, keptHead), min(max(size-keptHead, 0), keptTail)
			if !bytes.Equal(o.Head, whole[:head]) || !bytes.Equal(o.Tail, whole[size-tail:]) || o.Omitted != int64(size-head-tail) {
				t.Errorf("%d bytes in chunks of %d: head %d, tail %d, omitted %d", size, chunk, len(o.Head), len(o.Tail), o.Omitted)
			}
		}
	}
}

func TestRun_OutputIsMixed(t *testing.T) {
	r := run(t, shell("echo 1; echo 2 >&2; echo 3"))
	if got := text(r.Output); got != "1\n2\n3\n" {
		t.Errorf("got %q", got)
	}
}

func TestRun_MuchOutput(t *testing.T) {
	const size = 60 << 20
	r := newRunner(t)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, _ := r.Run(t.Context(), context.Background(), shell(fmt.Sprintf("echo first; head -c %d /dev/zero | tr '\\0' x; echo last", size)))
	runtime.ReadMemStats(&after)
	wantExit(t, result, 0)
	o := result.Output
	if total := int64(len(o.Head)+len(o.Tail)) + o.Omitted; total != size+11 {
		t.Errorf("%d bytes of output were seen, want %d", total, size+11)
	}
	if !bytes.HasPrefix(o.Head, []byte("first\nxxx")) || !bytes.HasSuffix(o.Tail, []byte("xxxlast\n")) {
		t.Errorf("head %.20q, tail %.20q", o.Head, o.Tail)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated for %d of output", grown, size)
	}
}

func TestRun_Print(t *testing.T) {
	a := shell("head -c 300000 /dev/zero | tr '\\0' o; echo err >&2; head -c 70000 /dev/zero | tr '\\0' e >&2; echo; head -c 65536 /dev/zero | tr '\\0' p")
	a.Print = true
	result, printed := newRunner(t).Run(t.Context(), context.Background(), a)
	defer printed.Close()
	wantExit(t, result, 0)
	wantOut := strings.Repeat("o", 300000) + "\n" + strings.Repeat("p", 65536)
	wantErr := "err\n" + strings.Repeat("e", 70000)
	for range 2 { // it may be written twice
		for _, c := range []struct {
			name   string
			stream *Stream
			want   string
		}{{"stdout", &printed.Stdout, wantOut}, {"stderr", &printed.Stderr, wantErr}} {
			var b bytes.Buffer
			n, err := c.stream.WriteTo(&b)
			if err != nil || n != int64(len(c.want)) || c.stream.Len() != n || b.String() != c.want {
				t.Errorf("%s: %d bytes, %v, want %d", c.name, n, err, len(c.want))
			}
			if len(c.stream.mem) > keptInMemory {
				t.Errorf("%s: %d bytes in memory", c.name, len(c.stream.mem))
			}
		}
	}
	total := int64(len(result.Output.Head)+len(result.Output.Tail)) + result.Output.Omitted
	if total != int64(len(wantOut)+len(wantErr)) {
		t.Errorf("%d bytes in the mixed output", total)
	}
}

func TestStream_AfterAFailureNothingMore(t *testing.T) {
	var s Stream
	full := errors.New("no space")
	spill := func() (*os.File, error) { return nil, full }
	s.keep([]byte("a"), spill)
	s.keep(make([]byte, keptInMemory), spill)
	s.keep([]byte("b"), spill)
	var b bytes.Buffer
	if _, err := s.WriteTo(&b); err != nil || b.String() != "a" || s.err != full {
		t.Errorf("got %q, %v, %v", b.String(), err, s.err)
	}
}

func TestRun_Log(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	a := shell("echo out; echo err >&2; head -c 100000 /dev/zero")
	a.LogDir = dir
	a.Item.Key = []byte("../../escape")
	run(t, a)
	run(t, a) // as another database's item 7 would
	for _, name := range []string{"7-2.log", "7-2-99.log"} {
		b, err := os.ReadFile(filepath.Join(dir, "j", name))
		if err != nil || string(b) != "out\nerr\n"+string(make([]byte, 100000)) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	for path, want := range map[string]os.FileMode{"": 0o700 | os.ModeDir, "j": 0o700 | os.ModeDir, "j/7-2.log": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	silent := shell("true")
	silent.LogDir, silent.Item.ID = dir, 8
	run(t, silent)
	if info, err := os.Stat(filepath.Join(dir, "j", "8-2.log")); err != nil || info.Size() != 0 {
		t.Errorf("the log of a silent attempt: %v %v", info, err)
	}
}

func TestRun_LogCantBeWritten(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "file", "", 0o600)
	for _, c := range []struct{ dir, job, want string }{
		{dir + "/file", "j", "no log: mkdir " + dir + "/file: not a directory"},
		{dir, "..", `no log: the job's name ".." is no name for a directory`},
		{dir, ".", `no log: the job's name "." is no name for a directory`},
		{dir, "a/b", `no log: the job's name "a/b" is no name for a directory`},
	} {
		a := shell("echo; exit 3")
		a.LogDir, a.Item.Job = c.dir, c.job
		r, printed := newRunner(t).Run(t.Context(), context.Background(), a)
		wantExit(t, r, 3)
		if len(printed.Notes) != 1 || printed.Notes[0] != c.want {
			t.Errorf("notes %q, want %q", printed.Notes, c.want)
		}
	}
}

func TestRun_LogOnAFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	a := shell("echo; echo; exit 3")
	r := newRunner(t)
	slot, err := r.takeSlot()
	if err != nil {
		t.Fatal(err)
	}
	x := execution{Runner: r, Attempt: &a, log: full, pipes: [2]pipe{noPipe, noPipe}, slot: slot}
	var fds [2]int
	if err := unix.Pipe(fds[:]); err != nil {
		t.Fatal(err)
	}
	x.pipes[0] = pipe{read: fds[0], write: os.NewFile(uintptr(fds[1]), dir)}
	for range 2 {
		if _, err := x.pipes[0].write.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		x.take(0)
	}
	x.close()
	if len(x.printed.Notes) != 1 || !strings.Contains(x.printed.Notes[0], "no space left") {
		t.Errorf("notes %q", x.printed.Notes)
	}
	if x.out.total != 2 {
		t.Error("what can't be logged is kept all the same")
	}
}

func TestRun_Stdin(t *testing.T) {
	for _, c := range []struct {
		payload []byte
		stdin   string
		want    string
	}{
		{nil, "", ""},
		{[]byte{}, "", ""},
		{[]byte("one\ntwo\n"), "", "one\ntwo\n"},
		{[]byte("a\x00b\xff"), jobs.StdinPayload, "a\x00b\xff"},
		{[]byte("one"), jobs.StdinNone, ""},
	} {
		a := attempt(jobs.Handler{Command: []string{"cat"}, Stdin: c.stdin})
		a.Item.Payload = c.payload
		if r := run(t, a); text(r.Output) != c.want {
			t.Errorf("%q, %q: got %q", c.payload, c.stdin, text(r.Output))
		}
	}
}

func TestRun_BigPayload(t *testing.T) {
	payload := bytes.Repeat([]byte("0123456789abcdef"), 50<<20/16)
	for _, c := range []struct{ command, want string }{
		{"true", ""},
		{"head -c 10", "0123456789"},
		{"exec <&-; echo closed", "closed\n"},
		{"cat | sha256sum | cut -c1-64", fmt.Sprintf("%x\n", sha256.Sum256(payload))},
		{"cat >/dev/null; cat /dev/stdin | wc -c | tr -d ' '", fmt.Sprintln(len(payload))},
	} {
		a := shell(c.command)
		a.Item.Payload = payload
		r := run(t, a)
		wantExit(t, r, 0)
		if text(r.Output) != c.want {
			t.Errorf("%s: got %q", c.command, text(r.Output))
		}
	}
	a := attempt(jobs.Handler{Command: []string{"cat"}})
	a.Item.Payload, a.Print = payload, true
	_, printed := newRunner(t).Run(t.Context(), context.Background(), a)
	defer printed.Close()
	h := sha256.New()
	if n, err := printed.Stdout.WriteTo(h); err != nil || n != int64(len(payload)) || [32]byte(h.Sum(nil)) != sha256.Sum256(payload) {
		t.Errorf("cat gave %d bytes back, %v", n, err)
	}
	var _ io.WriterTo = &printed.Stdout
}

func TestMemfd_WithoutSeal(t *testing.T) {
	old := withoutSeal.Swap(true)
	defer withoutSeal.Store(old)
	f, err := memfd()
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := f.Write([]byte("x")); err != nil {
		t.Error(err)
	}
}
