package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"batchq/store"
	"batchq/store/sqlite"
)

// The tests in crash_*, queues_* and northwind_test.go run the real binary,
// kill it, and look from outside at what the commands wrote, and from inside
// with doctor.

// patience bounds what must happen soon, on however slow a machine.
const patience = 60 * time.Second

// binary is the program as go build makes it, built once a test process. It
// lies beside the command that testscript made, and goes with it.
var binary = sync.OnceValues(func() (string, error) {
	beside, err := exec.LookPath("batchq")
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(beside), "built", "batchq")
	out, err := exec.Command("go", "build", "-o", path, "..").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// site is a directory with a database, in which commands are run.
type site struct {
	*testing.T
	dir  string
	db   string
	self string // the binary
	rand *rand.Rand
}

// setup makes a site. When the test ends nothing of it may be alive, and its
// database must be sound.
func setup(t *testing.T) *site {
	t.Helper()
	self, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{T: t, dir: t.TempDir(), self: self}
	s.db = filepath.Join(s.dir, "q.db")
	seed := uint64(time.Now().UnixNano())
	s.rand = rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	s.must(os.Mkdir(filepath.Join(s.dir, "tmp"), 0o700))
	t.Cleanup(s.killAll)
	return s
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// env is what commands find; BATCHQ_DB in it is also the mark by which
// everything of the site is found in /proc.
func (s *site) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + filepath.Join(s.dir, "tmp"), "TZ=UTC", "LC_ALL=C", "BATCHQ_DB=" + s.db}
}

// command is a command line of batchq in the site's directory.
func (s *site) command(args ...string) *exec.Cmd {
	c := exec.Command(s.self, args...)
	c.Dir, c.Env = s.dir, s.env()
	// A session of its own: what other tests leave behind in ours is none of its.
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return c
}

// result is what came of a command line.
type result struct {
	code           int // 128 + n for signal n, as a shell says it
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("exit %d\nstdout:\n%sstderr:\n%s", r.code, r.stdout, r.stderr)
}

// result runs c to its end, and fails the test when that never comes.
func (s *site) result(c *exec.Cmd) result {
	s.Helper()
	p := s.start(c)
	return p.wait()
}

// batchq runs a command line with stdin.
func (s *site) batchq(stdin string, args ...string) result {
	s.Helper()
	c := s.command(args...)
	c.Stdin = strings.NewReader(stdin)
	return s.result(c)
}

// want runs a command line that must end with a status.
func (s *site) want(code int, args ...string) result {
	s.Helper()
	r := s.batchq("", args...)
	s.expect(r, code, args...)
	return r
}

func (s *site) expect(r result, code int, args ...string) {
	s.Helper()
	if r.code != code {
		s.Fatalf("batchq %s: want exit %d, got %s", strings.Join(args, " "), code, r)
	}
}

// enqueue adds keys, one a line.
func (s *site) enqueue(job string, keys []string, flags ...string) {
	s.Helper()
	args := append([]string{"enqueue", job}, flags...)
	s.expect(s.batchq(strings.Join(keys, "\n"), args...), 0, args...)
}

// started is a command line under way.
type started struct {
	s              *site
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	done           chan struct{}
}

func (s *site) start(c *exec.Cmd) *started {
	s.Helper()
	p := &started{s: s, cmd: c, done: make(chan struct{})}
	c.Stdout, c.Stderr = &p.stdout, &p.stderr
	// What an item left running may hold these pipes; the exit does not wait for it.
	c.WaitDelay = 2 * time.Second
	s.must(c.Start())
	go func() {
		_ = c.Wait() // the status is in ProcessState
		close(p.done)
	}()
	return p
}

func (p *started) wait() result {
	p.s.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * patience):
		_ = p.cmd.Process.Signal(syscall.SIGABRT) // its goroutines, on stderr; QUIT is a stop
		<-p.done
		p.s.Fatalf("%v does not end\n%s", p.cmd.Args, p.stderr.String())
	}
	r := result{p.cmd.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String()}
	if st, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		r.code = 128 + int(st.Signal())
	}
	return r
}

func (p *started) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process itself and none of its children, and waits for it.
func (p *started) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// until polls for a condition.
func (s *site) until(what string, ok func() bool) {
	s.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("never: %s", what)
		}
	}
}

// write makes a file in the site, a script where it begins with #!.
func (s *site) write(name, text string) {
	s.Helper()
	mode := os.FileMode(0o600)
	if strings.HasPrefix(text, "#!") {
		mode = 0o700
	}
	s.must(os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode))
}

// file is the text of a file in the site; "" where there is none.
func (s *site) file(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return string(text)
}

// lines are the whole lines of a file in the site.
func (s *site) lines(name string) []string {
	s.Helper()
	text := s.file(name)
	text = text[:strings.LastIndexByte(text, '\n')+1]
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")[:strings.Count(text, "\n")]
}

// sequence is 1 … n as keys.
func sequence(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i + 1)
	}
	return keys
}

// totals are the books as stats shows them.
func (s *site) totals() map[string]int {
	s.Helper()
	var doc struct{ Totals map[string]int }
	s.must(json.Unmarshal([]byte(s.want(0, "stats", "--json").stdout), &doc))
	return doc.Totals
}

// wantTotals checks that so many items are in these states and none in others.
func (s *site) wantTotals(want map[string]int) {
	s.Helper()
	got := s.totals()
	for _, state := range []string{"ready", "delayed", "claimed", "running", "done", "dead", "dropped"} {
		if got[state] != want[state] {
			s.Errorf("%d %s, want %d; all: %v", got[state], state, want[state], got)
		}
	}
}

// open is a look at the database through the store.
func (s *site) open() *sqlite.DB {
	s.Helper()
	db, err := sqlite.Open(s.Context(), s.db, sqlite.Options{})
	s.must(err)
	return db
}

// items reads items through the store.
func (s *site) items(sel store.Selection) []store.ItemRow {
	s.Helper()
	db := s.open()
	rows, err := db.Items(s.Context(), sel)
	s.must(errors.Join(err, db.Close()))
	return rows
}

// sound lets doctor look.
func (s *site) sound() {
	s.Helper()
	if r := s.batchq("", "doctor"); r.code != 0 {
		s.Errorf("doctor: %s", r)
	}
}

// tidy checks that nothing is left after a clean run: no process, no log or
// lock beside the database, no temporary directory.
func (s *site) tidy() {
	s.Helper()
	s.sound()
	for _, pid := range s.alive() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		s.Errorf("process %d is left: %q", pid, line)
	}
	for _, pattern := range []string{"q.db-*", ".q.db*", "tmp/batchq-*"} {
		left, err := filepath.Glob(filepath.Join(s.dir, pattern))
		s.must(err)
		for _, path := range left {
			s.Errorf("%s is left", path)
		}
	}
}

// alive lists the processes that belong to the site: they have its database in
// their environment.
func (s *site) alive() (pids []int) {
	s.Helper()
	entries, err := os.ReadDir("/proc")
	s.must(err)
	mark := []byte("BATCHQ_DB=" + s.db + "\x00")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(env, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll ends whatever of the site is alive.
func (s *site) killAll() {
	for range 100 {
		pids := s.alive()
		if len(pids) == 0 {
			return
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
		}
		time.Sleep(10 * time.Millisecond)
	}
}
