package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// everyCommand is a command line of each command that opens the database.
var everyCommand = [][]string{
	{"enqueue", "j", "--item", "new"}, {"work", "j", "--", "true"}, {"work", "j", "--dry-run", "--", "true"},
	{"requeue", "--all"}, {"drop", "--job", "j"}, {"dlq", "list"}, {"stats"}, {"doctor"},
}

// whole is a file's bytes, and the names beside it.
func (s *site) whole(path string) string {
	s.Helper()
	data, err := os.ReadFile(path)
	s.must(err)
	names, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	s.must(err)
	return string(data) + strings.Join(names, "\n")
}

// A database or directory that can't be written: each command says so in one
// sentence with what to do, exits 1, and leaves everything as it was.
func TestFault_ReadOnly(t *testing.T) {
	t.Parallel()
	s := setup(t)
	dir := filepath.Join(s.dir, "data")
	s.must(os.Mkdir(dir, 0o755))
	s.db = filepath.Join(dir, "q.db")
	ordinary := s.ordinaryUser(dir)
	enqueue := s.command("enqueue", "j")
	enqueue.Stdin = strings.NewReader(strings.Join(sequence(50), "\n"))
	ordinary(enqueue)
	s.expect(s.result(enqueue), 0)

	one := regexp.MustCompile(`^batchq: error: \S+/data/q\.db: can't be written \(.+\); the path comes from \$BATCHQ_DB\nhint: check .*owner and mode.*\n$`)
	for name, modes := range map[string][2]os.FileMode{
		"directory":          {0o555, 0o600},
		"file":               {0o755, 0o444},
		"unreadable file":    {0o755, 0},
		"closed directory":   {0, 0o600},
		"all of it":          {0o555, 0o444},
		"writable once more": {0o755, 0o600},
	} {
		s.must(os.Chmod(s.db, modes[1]))
		before := ""
		if os.Geteuid() == 0 {
			before = s.whole(s.db)
		}
		s.must(os.Chmod(dir, modes[0]))
		for _, args := range everyCommand {
			if name == "writable once more" {
				break
			}
			c := s.command(args...)
			ordinary(c)
			if r := s.result(c); r.code != 1 || r.stdout != "" || !one.MatchString(r.stderr) {
				t.Errorf("%s: batchq %v: %s", name, args, r)
			}
		}
		s.must(os.Chmod(dir, 0o755))
		if before != "" && s.whole(s.db) != before {
			t.Errorf("%s: something has changed", name)
		}
		s.must(os.Chmod(s.db, 0o600))
	}

	// A new database can't be made there either.
	s.must(os.Chmod(dir, 0o555))
	c := s.command("--db", filepath.Join(dir, "new.db"), "enqueue", "j", "--item", "a")
	ordinary(c)
	if r := s.result(c); r.code != 1 || !strings.Contains(r.stderr, "new.db: can't be written (permission denied)\nhint: ") {
		t.Error(r)
	}
	s.must(os.Chmod(dir, 0o755))
	c = s.command("work", "j", "--", "true")
	ordinary(c)
	if r := s.result(c); r.code != 0 || r.stdout != "done 50, left 0\n" {
		t.Error(r)
	}
	s.tidy()
}

// A configuration that can't be read, or is another's: whoever writes it says
// which programs run. 78, one sentence, and nothing is touched.
func TestFault_Config(t *testing.T) {
	t.Parallel()
	s := setup(t)
	data := filepath.Join(s.dir, "data")
	s.must(os.Mkdir(data, 0o755))
	ordinary := s.ordinaryUser(data)
	path := filepath.Join(data, "batchq.toml")
	s.write("data/batchq.toml", "[jobs.j]\ncommand = [\"true\"]\n")
	check := func(what, want string) {
		t.Helper()
		for _, args := range [][]string{{"enqueue", "j", "--item", "a"}, {"work"}, {"stats"}} {
			c := s.command(append([]string{"--config", path}, args...)...)
			ordinary(c)
			if r := s.result(c); r.code != 78 || r.stdout != "" || !strings.HasPrefix(r.stderr, "batchq: error: "+want) || strings.Count(r.stderr, "error: ") != 1 {
				t.Errorf("%s: batchq %v: %s", what, args, r)
			}
		}
	}
	if os.Geteuid() == 0 {
		s.must(os.Chmod(path, 0o644))
		s.must(os.Chown(path, 65533, 65533))
		check("another's", path+" belongs to user 65533, neither to you (user 65534) nor to root: ")
		s.must(os.Chown(path, 65534, 65534))
	}
	s.must(os.Chmod(path, 0))
	check("unreadable", "can't read the configuration: ")
	s.must(os.Chmod(path, 0o620))
	check("writable by the group", path+" can be written by others (mode 0620)")
	if left, err := filepath.Glob(filepath.Join(s.dir, "q.db*")); err != nil || left != nil {
		t.Errorf("left: %v %v", left, err)
	}
}

// ordinaryUser prepares the site, with data, for somebody without privileges,
// and returns what makes a command run as that somebody.
func (s *site) ordinaryUser(data string) func(*exec.Cmd) {
	s.Helper()
	if os.Geteuid() != 0 {
		return func(*exec.Cmd) {}
	}
	const nobody = 65534
	// The binary and the site lie in directories of root's alone. cp, because
	// what we write ourselves a fork of another test may hold open ("text file
	// busy", golang#22315).
	copied := filepath.Join(s.dir, "batchq")
	s.must(exec.Command("cp", s.self, copied).Run())
	s.must(os.Chmod(copied, 0o755))
	for dir := s.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		s.must(os.Chmod(dir, 0o755))
	}
	s.must(os.Chmod(filepath.Join(s.dir, "tmp"), 0o1777))
	s.must(os.Chown(data, nobody, nobody))
	return func(c *exec.Cmd) {
		c.Path, c.Args[0] = copied, copied
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
}

// limited is a command line under which no file grows beyond a size.
func (s *site) limited(blocks int64, args ...string) *exec.Cmd {
	c := s.command()
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", fmt.Sprintf(`ulimit -f %d; exec "$@"`, blocks), "sh", s.self}, args...)
	return c
}

// shellBlock is the unit of sh's ulimit -f (POSIX: 512 bytes; bash: 1024).
func (s *site) shellBlock() int64 {
	s.Helper()
	c := exec.Command("/bin/sh", "-c", "ulimit -f 8; head -c 100000 /dev/zero >limit; true")
	c.Dir = s.dir
	_ = c.Run() // the shell may die of the signal as well
	info, err := os.Stat(filepath.Join(s.dir, "limit"))
	s.must(err)
	s.must(os.Remove(filepath.Join(s.dir, "limit")))
	return info.Size() / 8
}

const noRoom = "no room to write"

// No room for the list: enqueue says so, exits 1, keeps what went in, and the
// same command completes it once there is room.
func TestFault_NoRoomToEnqueue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(100))
	s.must(os.WriteFile(filepath.Join(s.dir, "list"), []byte(strings.Join(sequence(50_000), "\n")), 0o600))
	r := s.result(s.limited((1<<20)/s.shellBlock(), "enqueue", "j", "list"))
	var added, duplicate int
	if _, err := fmt.Sscanf(r.stdout, "added %d, duplicate %d,", &added, &duplicate); err != nil || r.code != 1 || duplicate != 100 || added >= 49_900 {
		t.Errorf("%v: %s", err, r)
	}
	if !strings.HasPrefix(r.stderr, "batchq: error: "+s.db+": "+noRoom) || strings.Count(r.stderr, "\n") != 2 || !strings.Contains(r.stderr, "\nhint: ") {
		t.Error(r)
	}
	s.sound()
	s.wantTotals(map[string]int{"ready": 100 + added})
	r = s.want(0, "enqueue", "j", "list")
	if want := fmt.Sprintf("added %d, duplicate %d, conflict 0, dead 0, rejected 0\n", 49_900-added, 100+added); r.stdout != want {
		t.Errorf("want %q: %s", want, r)
	}

	// Nor for a new database: nothing is left of it.
	empty := s.elsewhere()
	r = s.result(empty.limited(8, "enqueue", "j", "--item", "a"))
	if r.code != 1 || !strings.Contains(r.stderr, noRoom) {
		t.Error(r)
	}
	left, err := os.ReadDir(empty.dir)
	if s.must(err); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	s.tidy()
}

// No room for a claim: a run that has nothing in hand says so and leaves. What
// it could not write of itself keeps nobody waiting afterwards.
func TestFault_NoRoomToClaim(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(2000))
	before := s.totals()
	for _, size := range []int64{0, 8 << 10, 40 << 10, 80 << 10} {
		r := s.result(s.limited(size/s.shellBlock(), "work", "j", "--", "touch", "ran"))
		if r.code != 1 || strings.Count(r.stderr, "error: ") != 1 || !strings.Contains(r.stderr, "hint: ") {
			t.Errorf("%d bytes: %s", size, r)
		}
	}
	if s.file("ran") != "" {
		t.Error("something ran")
	}
	got := s.totals()
	if fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%v before, %v after", before, got)
	}
	r := s.want(75, "work", "j", "--limit", "10", "--", "true")
	if r.stdout != "done 10, left 1990 (1990 ready)\n" || r.stderr != "" {
		t.Error(r)
	}
	s.tidy()
}

// No room for a result: it is never given up while the run lives. A stop ends
// the run only when it insists; then the next one takes over at once.
func TestFault_NoRoomToRecord(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nhead -c 6000 /dev/urandom | od -x\nsay end\nexit 75\n")
	s.enqueue("j", sequence(2000))
	line := []string{"work", "j", "--lane", "parallel", "-j", "8", "--batch", "50", "--backoff-base", "1h", "--backoff-cap", "1h", "--", "./item.sh"}
	p := s.start(s.limited((160<<10)/s.shellBlock(), line...))
	s.until("it can't record", func() bool { return p.ended() || s.count("end") >= 8 })
	time.Sleep(100 * time.Millisecond)
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	time.Sleep(time.Duration(s.rand.IntN(300)) * time.Millisecond)
	s.must(p.cmd.Process.Signal(syscall.SIGTERM))
	r := p.wait()
	if r.code != 1 || strings.Count(r.stderr, "trying again until it can be recorded") != 1 || strings.Count(r.stderr, "error: ") != 1 {
		t.Error(r)
	}
	if got := s.totals(); got["enqueued"] != 2000 || got["running"] == 0 {
		t.Errorf("%v", got)
	}
	// Its lock is free, so nobody waits for its lease.
	r = s.want(75, "work", "j", "--lane", "parallel", "-j", "8", "--limit", "50", "--", "true")
	if !strings.HasPrefix(r.stdout, "done 50, ") || strings.Contains(r.stderr, "full") {
		t.Error(r)
	}
	s.notBeside(s.log())
	if got := s.totals(); got["claimed"]+got["running"] > 0 {
		t.Errorf("%v", got)
	}
	s.tidy()
}

// Too few open files for all slots is the system's lack: no run dies of it, and
// no item is charged, nor the command blamed. What fits is worked.
func TestFault_FewFiles(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(80))
	few := func(files int, words ...string) result {
		c := s.command()
		c.Path = "/bin/sh"
		c.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$@"`, files), "sh", s.self, "work", "j", "--lane", "parallel"}, words...)
		return s.result(c)
	}
	// Each limit fails at another step; at one of them only the fork does.
	for files := 16; files <= 32; files++ {
		if r := few(files, "-j", "4", "--limit", "3", "--", "true"); r.code != 0 && r.code != 75 && r.code != 1 || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%d files: %s", files, r)
		}
	}
	for _, files := range []int{22, 30} {
		if r := few(files, "-j", "12", "--max-runtime", "1s", "--", "sleep", "0.01"); r.code != 0 && r.code != 75 && r.code != 1 || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("%d files: %s", files, r)
		}
	}
	s.want(0, "work", "j", "--", "true")
	for _, it := range s.items(store.Selection{}) {
		if it.State != jobs.Done || it.Failures+it.Crashes > 0 {
			t.Errorf("item %s is %s: %d failures, %d crashes", it.Key, it.State, it.Failures, it.Crashes)
		}
	}
	s.tidy()
}

// The disk fills while an item runs, and has room again later: the result is
// kept, tried again and recorded, and the item ran once.
func TestFault_DiskFullForAWhile(t *testing.T) {
	t.Parallel()
	s := setup(t)
	disk := filepath.Join(s.dir, "disk")
	s.must(os.Mkdir(disk, 0o755))
	s.db = filepath.Join(disk, "q.db")
	s.write("script.sh", `#!/bin/sh
mount -t tmpfs -o size=8m none disk 2>/dev/null || exit 99
seq 300 | "$1" enqueue j || exit 1
cat >item.sh <<'END'
echo $1 >>ran
# The first one takes all the room, and gives it back when it is told to.
[ $1 != 1 ] || { head -c 200000000 /dev/zero >disk/fill; while [ ! -e over ]; do sleep 0.02; done; }
END
{ "$1" work j -- sh item.sh 2>work.err; echo "work $?" >rc; } &
while [ ! -e disk/fill ]; do sleep 0.02; done
seq 301 3000 | "$1" enqueue j >enqueue.out 2>enqueue.err; echo "enqueue $?" >>enqueue.out
"$1" doctor >doctor.out 2>&1; echo "doctor $?" >>doctor.out
touch over
while [ ! -e rc ] && ! grep -q "trying again" work.err; do sleep 0.02; done
rm disk/fill
wait
cat rc
seq 301 3000 | "$1" enqueue j -q && "$1" doctor -q && cp disk/q.db . && ls disk
`)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	c := s.command()
	c.Path, c.Args = unshare, []string{"unshare", "-m", "./script.sh", s.self}
	r := s.result(c)
	if r.code == 99 || strings.Contains(r.stderr, "unshare failed") {
		t.Skipf("a file system of its own can't be mounted here: %s", r)
	}
	if _, left, ok := strings.Cut(r.stdout, "work 0\n"); r.code != 0 || !ok || left != "q.db\n" {
		t.Errorf("%s\nwork: %s", r, s.file("work.err"))
	}
	if out, said := s.file("enqueue.out"), s.file("enqueue.err"); !strings.HasSuffix(out, "enqueue 1\n") || !strings.Contains(said, noRoom) || !strings.Contains(said, "hint: make room") {
		t.Errorf("enqueue: %s%s", out, said)
	}
	n, repeated := distinct(s.lines("ran"))
	if n < 300 || repeated != nil {
		t.Errorf("%d ran; more than once: %s", n, keysOf(repeated))
	}
	s.db = filepath.Join(s.dir, "q.db")
	for _, it := range s.items(store.Selection{Limit: 300}) {
		if it.State != jobs.Done || it.Failures+it.Crashes > 0 {
			t.Errorf("item %s is %s: %d failures, %d crashes", it.Key, it.State, it.Failures, it.Crashes)
		}
	}
	s.tidy()
}
