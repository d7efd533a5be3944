package handler

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"batchq/jobs"
)

// answering is set for this program where it is to be a stream handler.
const answering = "BATCHQ_TEST_ANSWERING"

// answerAll is a handler that says done to whatever it reads. It writes when
// there is nothing more to read for now.
func answerAll() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			break
		}
		var item struct {
			ID json.Number `json:"id"`
		}
		if err := json.Unmarshal(line, &item); err != nil {
			os.Exit(65)
		}
		fmt.Fprintf(out, "{\"id\":%s,\"class\":\"done\"}\n", item.ID)
		if in.Buffered() == 0 {
			out.Flush()
		}
	}
	out.Flush()
}

func TestMain(m *testing.M) {
	if os.Getenv(answering) != "" {
		answerAll()
		return
	}
	// What an outer attempt would hand down must not matter to these tests.
	for _, v := range variables {
		os.Unsetenv(v.Name)
	}
	// A session of its own: what the tests of other packages leave in theirs at
	// the same time is none of ours. Who leads a group already can't have one.
	_, _ = syscall.Setsid()
	goleak.VerifyTestMain(m)
}

// patience bounds what must happen soon, on however slow a machine.
const patience = 30 * time.Second

func newRunner(t testing.TB) *Runner {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	r, err := NewRunner("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

var marks atomic.Int64

// newMark returns a mark that no other test and no other process has.
func newMark() string {
	return "handlertest" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatInt(marks.Add(1), 10)
}

// attempt is one of a job with the handler h: attempt 2 of the item 7, "k1".
func attempt(h jobs.Handler) Attempt {
	policy := jobs.DefaultPolicy()
	policy.Timeout = 2 * patience // so that a test that hangs ends
	return Attempt{
		Item:           &jobs.Item{ID: 7, Job: "j", Scope: "s1", Key: []byte("k1"), Attempt: 2},
		Spec:           &jobs.Spec{Name: "j", Handler: h, Policy: policy},
		Claim:          99,
		IdempotencyKey: "idem",
		Mark:           newMark(),
	}
}

func shell(text string) Attempt { return attempt(jobs.Handler{Shell: text}) }

func run(t testing.TB, a Attempt) jobs.Result {
	t.Helper()
	result, printed := newRunner(t).Run(t.Context(), context.Background(), a)
	printed.Close()
	for _, note := range printed.Notes {
		t.Errorf("note: %s", note)
	}
	if left, err := Survivors([]Orphan{{Mark: a.Mark}}); err == nil {
		for _, p := range left {
			t.Errorf("process %d (%s) is left", p.PID, p.Name)
		}
	}
	return result
}

func wantExit(t *testing.T, r jobs.Result, code int) {
	t.Helper()
	if r.Ending != jobs.Exited || r.ExitCode != code || r.Signal != 0 {
		t.Fatalf("got %+v, want exit %d", r, code)
	}
}

func text(o jobs.Output) string { return string(o.Head) + string(o.Tail) }

// until polls for a condition and fails the test when it never comes.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// pidFile reads the number that a job has written, once it is whole.
func pidFile(t testing.TB, path string) int {
	t.Helper()
	pid := 0
	until(t, path+" holds a pid", func() bool {
		b, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(b, []byte("\n")) {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	return pid
}

// alive says whether pid is a process that still runs.
func alive(pid int) bool {
	var buf [1024]byte
	p, err := readStat(pid, buf[:])
	return err == nil && !p.dead()
}

func script(t testing.TB, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s here", program)
	}
	return path
}

// endWhen cancels with cause as soon as path exists.
func endWhen(t testing.TB, path string, cancel context.CancelCauseFunc, cause error) {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		for end := time.Now().Add(patience); time.Now().Before(end) && !exists(path); {
			time.Sleep(2 * time.Millisecond)
		}
		cancel(cause)
	}()
}
