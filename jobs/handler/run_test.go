package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

func TestRun_Exit(t *testing.T) {
	for _, code := range []int{0, 1, 75, 126, 127, 255} {
		wantExit(t, run(t, shell(fmt.Sprintf("exit %d", code))), code)
	}
}

func TestRun_Signal(t *testing.T) {
	for name, signal := range map[string]int{"SEGV": 11, "KILL": 9, "TERM": 15, "PIPE": 13} {
		r := run(t, shell("kill -"+name+" $$"))
		if r.Ending != jobs.Exited || r.Signal != signal || r.SignalName != "SIG"+name || r.ExitCode != 0 {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	// A shell's 128+n is a number, not a signal.
	wantExit(t, run(t, shell("sh -c 'kill -SEGV $$'; exit $?")), 139)
}

func TestRun_SignalWithoutName(t *testing.T) {
	need(t, "perl")
	r := run(t, attempt(jobs.Handler{Command: []string{"perl", "-e", "kill 40, $$; sleep 60"}}))
	if r.Signal != 40 || r.SignalName != "signal 40" {
		t.Errorf("got %+v", r)
	}
}

func TestRun_WithoutPidfd(t *testing.T) {
	r := newRunner(t)
	r.noPidfd = true
	result, _ := r.Run(t.Context(), context.Background(), shell("echo hello; exit 3"))
	wantExit(t, result, 3)
	if text(result.Output) != "hello\n" {
		t.Errorf("output %q", text(result.Output))
	}
	a := shell("trap '' TERM; sleep 1000; sleep 1000")
	a.Spec.Policy.Timeout, a.Spec.Policy.KillAfter = time.Millisecond, time.Millisecond
	if result, _ = r.Run(t.Context(), context.Background(), a); result.Ending != jobs.TimedOut {
		t.Errorf("got %+v", result)
	}
}

func TestRun_SIGPIPEIsNotIgnored(t *testing.T) {
	r := run(t, shell(`sh -c 'kill -PIPE $$; exit 7'; echo $?`))
	if got := text(r.Output); got != "141\n" {
		t.Errorf("a child's SIGPIPE ended it with %q, want 141", got)
	}
}

func TestRun_MaxRSS(t *testing.T) {
	need(t, "perl")
	const size = 300 << 20
	r := run(t, attempt(jobs.Handler{Command: []string{"perl", "-e", "my $x = 'x' x " + fmt.Sprint(size)}}))
	wantExit(t, r, 0)
	if r.MaxRSS < size || r.MaxRSS > 3*size {
		t.Errorf("peak memory %d, want about %d", r.MaxRSS, size)
	}
}

func TestRun_Started(t *testing.T) {
	calls, pid, start := 0, 0, uint64(0)
	a := shell("echo $$")
	a.Started = func(p int, s uint64) {
		calls++
		pid, start = p, s
		if now, err := StartTime(p); err != nil || now != s {
			t.Errorf("start time %d, %v; was told %d", now, err, s)
		}
	}
	r := run(t, a)
	if calls != 1 || start == 0 || text(r.Output) != fmt.Sprintln(pid) {
		t.Errorf("%d calls with pid %d, start %d; the command says %q", calls, pid, start, text(r.Output))
	}
}

func TestRun_NotStartedWhenAlreadyTold(t *testing.T) {
	for cause, want := range map[error]jobs.Ending{ErrStopped: jobs.Stopped, ErrLost: jobs.Lost, ErrKill: jobs.Stopped, errors.New("other"): jobs.Stopped} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		a := shell("echo")
		a.Started = func(int, uint64) { t.Error("it was started") }
		if r, _ := newRunner(t).Run(ctx, context.Background(), a); r.Ending != want {
			t.Errorf("%v: got %+v", cause, r)
		}
		if r, _ := newRunner(t).Run(context.Background(), ctx, a); r.Ending != want {
			t.Errorf("kill, %v: got %+v", cause, r)
		}
	}
}

func TestRun_CantExec(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "plain.sh", "#!/bin/sh\n", 0o644)
	script(t, dir, "nohead.sh", "exit 0\n", 0o755)
	script(t, dir, "lost.sh", "#!/no/such/interpreter -x\n", 0o755)
	script(t, dir, "windows.sh", "#!/bin/sh\r\nexit 0\r\n", 0o755)
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, bin, "refused", "#!/bin/sh\n", 0o644)
	t.Setenv("PATH", bin)
	for _, c := range []struct {
		dir  string
		argv []string
		want string
	}{
		{dir, []string{"./nope.sh"}, "./nope.sh: no such file (in " + dir + ")"},
		{dir, []string{"/no/such/command"}, "/no/such/command: no such file"},
		{dir, []string{"./plain.sh"}, "./plain.sh: not executable (chmod +x) (in " + dir + ")"},
		{dir, []string{"./nohead.sh"}, "./nohead.sh: no format that the system can execute; a script must begin with #!/bin/sh or the like (in " + dir + ")"},
		{dir, []string{"./lost.sh"}, `./lost.sh: its interpreter "/no/such/interpreter" does not exist (in ` + dir + ")"},
		{dir, []string{"./windows.sh"}, `./windows.sh: its interpreter "/bin/sh\r" does not exist (in ` + dir + ")"},
		{dir, []string{"./plain.sh/x"}, "./plain.sh/x: not a directory (in " + dir + ")"},
		{dir, []string{"./bin"}, "./bin: a directory, not a command (in " + dir + ")"},
		{dir, []string{"nope"}, "nope: not found in PATH"},
		{dir, []string{"refused"}, "refused: found in PATH, but not executable"},
		{dir + "/gone", []string{"/bin/sh"}, "directory " + dir + "/gone: no such file"},
		{dir + "/plain.sh", []string{"/bin/sh"}, "directory " + dir + "/plain.sh: not a directory"},
		{"", []string{""}, "the job j has no command"},
		{"", nil, "the job j has no command"},
	} {
		r := run(t, attempt(jobs.Handler{Command: c.argv, Dir: c.dir}))
		if r.Ending != jobs.CantExec || r.Error != c.want {
			t.Errorf("%q in %s: got %d %q, want %q", c.argv, c.dir, r.Ending, r.Error, c.want)
		}
	}
}

// Where the item names the program, one that is not there is the item's fault.
func TestRun_CantExecItsOwn(t *testing.T) {
	a := attempt(jobs.Handler{Command: []string{"{}"}})
	a.Item.Key = []byte("/nowhere/k1")
	if r := run(t, a); r.Ending != jobs.Unresolved || r.Error != "/nowhere/k1: no such file" {
		t.Errorf("%v %q", r.Ending, r.Error)
	}
}

func TestRun_PATH(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script(t, dir+"/first", "cmd", "no permission", 0o644) // execvp goes on to the next
	script(t, dir+"/second", "cmd", "#!/bin/sh\necho second $PWD\n", 0o755)
	a := attempt(jobs.Handler{
		Command: []string{"cmd"}, Dir: dir,
		Env: map[string]string{"PATH": "/no/such:first:second"},
	})
	r := newRunner(t)
	result, _ := r.Run(t.Context(), context.Background(), a)
	if text(result.Output) != "second "+dir+"\n" {
		t.Fatalf("got %+v %q", result, text(result.Output))
	}
	// Found once, then moved: looked for again.
	if err := os.Remove(dir + "/first/cmd"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir+"/second/cmd", dir+"/first/cmd"); err != nil {
		t.Fatal(err)
	}
	result, _ = r.Run(t.Context(), context.Background(), a)
	wantExit(t, result, 0)
}

func TestRun_RelativeToDir(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "x.sh", "#!/bin/sh\necho $0 $1 in $PWD; pwd -P\n", 0o755)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, attempt(jobs.Handler{Command: []string{"./x.sh", "{key}"}, Dir: dir}))
	if want := "./x.sh k1 in " + dir + "\n" + real + "\n"; text(r.Output) != want {
		t.Errorf("got %q, want %q", text(r.Output), want)
	}
}

func TestRun_TooLong(t *testing.T) {
	a := attempt(jobs.Handler{Command: []string{"true", "{.x}"}})
	a.Item.Payload = []byte(`{"x":"` + strings.Repeat("a", 300_000) + `"}`)
	if r := run(t, a); r.Ending != jobs.TooLong || r.Error != "argument 1 of true is 300000 bytes long, more than the system takes; pass it on stdin" {
		t.Errorf("got %+v", r)
	}
	a = shell("true")
	a.Item.Key = bytes.Repeat([]byte("k"), 300_000)
	if r := run(t, a); r.Ending != jobs.TooLong || !strings.HasPrefix(r.Error, "argument 4 of sh is 300000 bytes") {
		t.Errorf("got %+v", r)
	}
	a = attempt(jobs.Handler{Command: []string{"true"}})
	a.Item.Key = bytes.Repeat([]byte("k"), 300_000)
	if r := run(t, a); r.Ending != jobs.TooLong || !strings.HasPrefix(r.Error, "the variable BATCHQ_KEY is 3000") {
		t.Errorf("got %+v", r)
	}
	a = attempt(jobs.Handler{Command: append([]string{"true"}, strings.Split(strings.Repeat(strings.Repeat("a", 1000)+" ", 10_000), " ")...)})
	if r := run(t, a); r.Ending != jobs.TooLong || !strings.Contains(r.Error, "bytes together") {
		t.Errorf("got %+v", r)
	}
}

func TestRun_TextFileBusy(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "busy.sh", "#!/bin/sh\nexit 9\n", 0o755)
	f, err := os.OpenFile(dir+"/busy.sh", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := attempt(jobs.Handler{Command: []string{"./busy.sh"}, Dir: dir})
	r := newRunner(t)
	result, _ := r.Run(t.Context(), context.Background(), a)
	if result.Ending != jobs.CantFork || result.Error != "can't start ./busy.sh now: text file busy" {
		t.Errorf("while it is written to: got %+v", result)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(time.Millisecond, func() { cancel(ErrLost) })
	if result, _ = r.Run(ctx, context.Background(), a); result.Ending != jobs.Lost {
		t.Errorf("told while it waits: got %+v", result)
	}
	time.AfterFunc(20*time.Millisecond, func() { f.Close() })
	result, _ = r.Run(t.Context(), context.Background(), a)
	wantExit(t, result, 9)
}

func TestRun_NoDescriptorLeft(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	r := newRunner(t)
	a := shell("exit 4")
	result, _ := r.Run(t.Context(), context.Background(), a)
	wantExit(t, result, 4)
	low := old
	low.Cur = uint64(openFiles(t)) - 1
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	result, _ = r.Run(t.Context(), context.Background(), a)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if result.Ending != jobs.CantFork || result.Error != "can't start sh now: too many open files" {
		t.Errorf("got %+v", result)
	}
	result, _ = r.Run(t.Context(), context.Background(), a)
	wantExit(t, result, 4)
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(names)
}

func TestRun_LeavesNothingOpen(t *testing.T) {
	r := newRunner(t)
	one := func() {
		a := shell("cat; echo err >&2")
		a.Item.Payload = bytes.Repeat([]byte("x"), 100_000)
		a.Print, a.LogDir = true, t.TempDir()
		_, printed := r.Run(t.Context(), context.Background(), a)
		printed.Close()
		r.Run(t.Context(), context.Background(), attempt(jobs.Handler{Command: []string{"/no/such/command"}}))
	}
	one()
	before := openFiles(t)
	for range 200 {
		one()
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before, %d after 200 runs", before, after)
	}
	if len(r.slots) != 1 {
		t.Errorf("%d slots after runs one by one", len(r.slots))
	}
	if left, err := os.ReadDir(r.temp.path); err != nil || len(left) != 0 {
		t.Errorf("left in the private directory: %v %v", left, err)
	}
}

// Before it executes, the child moves its files to higher numbers; where the
// limit is just above those in use, that fails, and no word is true of it that
// blames the command.
func TestRun_NoNumberLeftForAFile(t *testing.T) {
	a := shell("true")
	x := execution{Attempt: &a, argv: []string{"true"}}
	ending, text := x.explain(&execError{&os.PathError{Op: "fork/exec", Path: "/bin/sh", Err: unix.EBADF}})
	if ending != jobs.CantFork || text != "can't start true now: too many open files" {
		t.Errorf("%d, %q", ending, text)
	}
}
