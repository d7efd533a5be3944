package cmd

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"batchq/store"
)

// A second name of the file has a log of its own: an item that was added
// through it was lost, and two runs worked each item twice.
func TestFile_SecondName(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a"})
	s.must(os.Link(s.db, s.db+".second"))
	for _, line := range [][]string{{"enqueue", "j", "--item", "b"}, {"work", "j", "--", "true"}, {"--db", s.db + ".second", "work", "j", "--", "true"}, {"requeue", "--all"}} {
		if r := s.want(1, line...); !strings.Contains(r.stderr, "can't be written (it has 2 names (hard links), and each would get a log of its own)") {
			t.Error(r)
		}
	}
	s.want(0, "stats")
	s.want(0, "backup", s.db+".copy")
	s.must(os.Remove(s.db + ".second"))
	s.want(0, "work", "j", "--", "true")
	s.wantTotals(map[string]int{"done": 1})
}

// What was added to a file that was moved away meanwhile is not acknowledged.
func TestFile_MovedDuringEnqueue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a"})
	c := s.command("enqueue", "j")
	list, err := c.StdinPipe()
	s.must(err)
	p := s.start(c)
	for i := range 3 * store.MaxRows {
		_, err = fmt.Fprintf(list, "key-%d\n", i)
		s.must(err)
	}
	s.until("some are added", func() bool { return len(s.items(store.Selection{})) > 1 })
	s.must(os.Rename(s.db, s.db+".moved"))
	s.must(list.Close())
	if r := p.endsWith(1); !strings.Contains(r.stderr, "is no longer the file that was opened") {
		t.Error(r)
	}
	s.must(os.Rename(s.db+".moved", s.db))
}

// What is handed into a container file by file is mounted by itself.
func TestFile_MountedByItself(t *testing.T) {
	t.Parallel()
	s := setup(t)
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip(err)
	}
	s.enqueue("j", []string{"a"})
	s.write("script.sh", `#!/bin/sh
mkdir box 'a room' && : >'box/the list.db' && mount --bind "$BATCHQ_DB" 'box/the list.db' || exit 99
mount --bind . 'a room' || exit 99
"$1" --db 'box/the list.db' work j -- true
echo $? >file
"$1" --db "a room/$(basename "$BATCHQ_DB")" work j -- true
echo $? >directory
`)
	c := s.command()
	c.Path, c.Args = unshare, []string{"unshare", "-m", "./script.sh", s.self}
	r := s.result(c)
	if r.code == 99 || strings.Contains(r.stderr, "unshare failed") {
		t.Skipf("nothing can be mounted here: %s", r.stderr)
	}
	if s.file("file") != "1\n" || s.file("directory") != "0\n" || !strings.Contains(r.stderr, "can't be written (it is mounted by itself") {
		t.Errorf("file %s, directory %s\n%s", s.file("file"), s.file("directory"), r)
	}
	s.wantTotals(map[string]int{"done": 1})
}
