package lease

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"batchq/jobs/handler"
)

// lineage calls f for this process and its ancestors, as far as they can be
// seen, until f is true.
func lineage(f func(pid int, start uint64) bool) bool {
	for pid := os.Getpid(); pid > 0; pid = parent(pid) {
		start, err := handler.StartTime(pid)
		if err != nil {
			return false
		}
		if f(pid, start) {
			return true
		}
	}
	return false
}

// parent is 0 where there is none, or none that we can see.
func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, found := bytes.Cut(status, []byte("\nPPid:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	ppid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if !found || err != nil {
		return 0
	}
	return ppid
}

// descends says whether the very process named is this one or an ancestor.
func descends(pid int, start uint64) bool {
	return lineage(func(p int, s uint64) bool { return p == pid && s == start })
}

// within says whether this process is a part of what an orphan left: a run
// that was started by an item's command and outlives the item's own run. It
// is recognised by the same signs as any other process of it.
func within(o handler.Orphan) bool {
	mark := []byte("BATCHQ_MARK=" + o.Mark)
	return lineage(func(pid int, start uint64) bool {
		if o.PID > 1 && o.Start > 0 && start >= o.Start {
			if group, err := syscall.Getpgid(pid); err == nil && group == o.PID {
				return true
			}
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			return false // another user's
		}
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(entry, mark) {
				return true
			}
		}
		return false
	})
}
