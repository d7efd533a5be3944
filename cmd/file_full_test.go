package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"batchq/jobs"
	"batchq/store"
)

// onSmallDisk runs a script with the binary as $1 in a mount namespace of its
// own, where the directory disk, which has the database, is a file system of a
// size. It skips the test where none can be mounted.
func (s *site) onSmallDisk(size, script string) result {
	s.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		s.Skip(err)
	}
	disk := filepath.Join(s.dir, "disk")
	s.must(os.MkdirAll(disk, 0o755))
	s.db = filepath.Join(disk, "q.db")
	s.write("script.sh", "#!/bin/sh\nmount -t tmpfs -o size="+size+" none disk 2>/dev/null || exit 99\n"+script)
	c := s.command()
	c.Path, c.Args = unshare, []string{"unshare", "-m", "./script.sh", s.self}
	r := s.result(c)
	if r.code == 99 || strings.Contains(r.stderr, "unshare failed") {
		s.Skipf("a file system of its own can't be mounted here: %s", r)
	}
	return r
}

// The disk is full for longer than the lease while a command runs and another
// run waits for its slot: the command is not ended and its item is not taken,
// its result is recorded when there is room, and what went wrong is said once.
// A reader (where there is a program for it) keeps the log from being begun
// anew, which needs no room.
func TestFile_DiskFullBeyondTheLease(t *testing.T) {
	t.Parallel()
	s := setup(t)
	_, noReader := exec.LookPath("sqlite3")
	// Three leases, and two more with the result in hand: these waits are what is tested.
	r := s.onSmallDisk("3m", `
seq 30 | "$1" enqueue j -q || exit 1
cat >item.sh <<'END'
echo $1 >>ran
[ $1 = 1 ] || exit 0
while [ ! -e beside ]; do sleep 0.02; done
head -c 200000000 /dev/zero >disk/fill
touch full
while [ ! -e over ]; do sleep 0.02; done
echo over >>ended
END
line='work j --lease 1s --wait -- sh item.sh'
{ "$1" $line >work.out 2>work.err; echo "work $?" >>rc; } &
while [ ! -e ran ]; do sleep 0.02; done
{ "$1" $line >second.out 2>second.err; echo "second $?" >>rc; } &
while [ $(ls disk | grep -c q.db-run) -lt 2 ]; do sleep 0.02; done
if command -v sqlite3 >/dev/null; then
	{ echo 'begin; select count(*) from item;'; while [ ! -e read ]; do sleep 0.02; done; } | sqlite3 disk/q.db >reader &
	while [ ! -s reader ]; do sleep 0.02; done
fi
touch beside
while [ ! -e full ]; do sleep 0.02; done
sleep 1
"$1" work j --lease 1s -- sh item.sh >third.out 2>third.err; echo "third $?" >>rc
sleep 2
[ ! -e ended ] || echo 'it was ended'
touch over
sleep 2
"$1" doctor -q || echo 'not sound on the full disk'
rm disk/fill
while [ -e reader ] && ! grep -q 'renewed again' work.err; do sleep 0.02; done
touch read
wait
sort rc
"$1" doctor -q && cp disk/q.db . && ls disk
`)
	third := "third 1\n"
	if noReader != nil && strings.Contains(r.stdout, "third 75\n") {
		third = "third 75\n" // there was room for its few rows in the log
	} else if said := s.file("third.err"); !strings.Contains(said, noRoom) || !strings.Contains(said, "\nhint: make room") {
		t.Errorf("a run that begins on a full disk says: %s", said)
	}
	said := s.file("work.err")
	if r.code != 0 || r.stdout != "second 0\n"+third+"work 0\nq.db\n" {
		t.Errorf("%s\nwork: %s\nsecond: %s\nthird: %s", r, said, s.file("second.err"), s.file("third.err"))
	}
	for _, text := range []string{"trying again until it can be recorded", "the lease could not be renewed", "the lease is renewed again"} {
		if n := strings.Count(said, text); n > 1 || n == 0 && noReader == nil {
			t.Errorf("%q is said %d times:\n%s", text, n, said)
		}
	}
	if said := s.file("second.err"); strings.Contains(said, "dead") {
		t.Errorf("the second run says: %s", said)
	}
	if n, repeated := distinct(s.lines("ran")); n != 30 || repeated != nil {
		t.Errorf("%d ran; more than once: %s", n, keysOf(repeated))
	}
	s.db = filepath.Join(s.dir, "q.db")
	for _, it := range s.items(store.Selection{}) {
		if it.State != jobs.Done || it.Attempt != 1 || it.Failures+it.Crashes > 0 {
			t.Errorf("item %s is %s: %d attempts, %d failures, %d crashes", it.Key, it.State, it.Attempt, it.Failures, it.Crashes)
		}
	}
	s.tidy()
}

// A disk on which the log has no room to grow as long as it may elsewhere:
// it is folded in earlier, and nobody is told anything. The log took what was
// left, and could then not be folded in any more: nothing went on, for ever.
func TestFile_DiskSmallerThanTheLog(t *testing.T) {
	t.Parallel()
	s := setup(t)
	r := s.onSmallDisk("1500k", `
seq 500 | "$1" enqueue j -q || exit 1
timeout 60 "$1" work j --lane parallel -j 3 -- true
echo "work $?"
"$1" doctor -q && cp disk/q.db . && ls disk
`)
	if r.code != 0 || r.stdout != "done 500, left 0\nwork 0\nq.db\n" || r.stderr != "" {
		t.Error(r)
	}
	s.db = filepath.Join(s.dir, "q.db")
	s.wantTotals(map[string]int{"done": 500})
	s.tidy()
}
