package handler

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"batchq/jobs/fault"
)

// Process is a process that belongs to an attempt.
type Process struct {
	PID    int
	Start  uint64 // clock ticks since boot: with PID, this process and no other
	Name   string // the kernel's short name of its program
	Orphan int    // index of the orphan to which it belongs
	Reason string // why it could not be ended; "" where that was not tried
	// Doubtful: it may be a stranger's, and is never ended. See Survivors.
	Doubtful bool

	group, parent, session, threads int
	state                           byte
	exiting                         bool
	forked                          bool // and has not executed a program of its own yet
	executing                       bool // for all we know: see blank
}

// Flags of linux/sched.h, in field 9 of /proc/PID/stat.
const (
	isExiting  = 0x4  // PF_EXITING
	forkNoExec = 0x40 // PF_FORKNOEXEC
)

// dead says whether nothing of p runs any more. A process whose first thread
// alone has ended looks like a zombie and is not.
func (p *Process) dead() bool {
	return (p.state == 'Z' || p.state == 'X') && p.threads <= 1
}

// unsettled says whether a process is about to show whose it is: it has not
// executed its program yet, or is doing so.
func (p *Process) unsettled() bool { return p.forked || p.executing }

// blank says whether a process shows neither arguments nor an environment, as
// one does while it executes a program, until the new one's are laid out. On a
// busy machine that lasts longer than two looks.
func blank(pid int) bool {
	var one [1]byte
	for _, file := range []string{"cmdline", "environ"} {
		if n, err := readProc(pid, file, one[:]); err != nil || n > 0 {
			return false
		}
	}
	return true
}

// StartTime returns when the process pid started, in clock ticks since boot
// (field 22 of /proc/PID/stat). A zombie still has one.
func StartTime(pid int) (uint64, error) {
	var buf [1024]byte
	p, err := readStat(pid, buf[:])
	return p.Start, err
}

// StartedAgo is the start time of what started so long ago.
func StartedAgo(d time.Duration) uint64 {
	const tick = time.Second / 100 // USER_HZ, the same on every Linux that Go runs on
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return uint64(max(0, time.Duration(now.Nano())-d) / tick)
}

// Alive says whether the process pid that started at start is there and more
// than a zombie that nobody has reaped.
func Alive(pid int, start uint64) bool {
	var buf [1024]byte
	p, err := readStat(pid, buf[:])
	return err == nil && p.Start == start && !p.dead()
}

// Gone says whether it is certain that the process pid that started at start
// runs no more. It is not merely Alive's opposite: where /proc is mounted with
// hidepid another user's process is not seen, and one whose start time reads
// otherwise may be the same, seen from another time namespace.
func Gone(pid int, start uint64) bool {
	if pid <= 0 {
		return false // never known: kill(2) would ask of our own group
	}
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return true // hidepid hides nothing from kill(2)
	}
	var buf [1024]byte
	p, err := readStat(pid, buf[:])
	return err == nil && p.Start == start && p.dead()
}

// Dying says whether a SIGKILL has reached the process pid that started at
// start, or it is on its way out, and something of it is still there: giving
// back its memory takes a while.
func Dying(pid int, start uint64) bool {
	var buf [4096]byte
	p, err := readStat(pid, buf[:])
	if err != nil || p.Start != start || p.dead() {
		return false
	}
	if p.exiting || p.state == 'Z' || p.state == 'X' {
		return true
	}
	n, err := readProc(pid, "status", buf[:])
	if err != nil {
		return false
	}
	const kill = 1 << (unix.SIGKILL - 1)
	for line := range bytes.Lines(buf[:n]) {
		name, set, _ := bytes.Cut(line, []byte(":"))
		if string(name) == "SigPnd" || string(name) == "ShdPnd" {
			if pending, err := strconv.ParseUint(string(bytes.TrimSpace(set)), 16, 64); err == nil && pending&kill != 0 {
				return true
			}
		}
	}
	return false
}

// Stopped says whether the process pid that started at start stands still
// because of a signal (SIGSTOP).
func Stopped(pid int, start uint64) bool {
	var buf [1024]byte
	p, err := readStat(pid, buf[:])
	return err == nil && p.Start == start && p.state == 'T'
}

// BootID returns the kernel's random word for this boot.
func BootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return fault.Boot(strings.TrimSpace(string(b))), err
}

// PIDNamespace names the namespace in which this process's pids are numbers.
func PIDNamespace() (string, error) {
	return os.Readlink("/proc/self/ns/pid")
}

func readStat(pid int, buf []byte) (Process, error) {
	n, err := readProc(pid, "stat", buf)
	if err != nil {
		return Process{}, err
	}
	return parseStat(buf[:n])
}

// readProc reads a file of /proc/PID into buf. ENOENT or ESRCH: no such process.
func readProc(pid int, name string, buf []byte) (int, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	for total := 0; ; {
		n, err := unix.Read(fd, buf[total:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0:
			return total, nil
		default:
			if total += n; total == len(buf) {
				return total, nil
			}
		}
	}
}

var errStat = errors.New("/proc/PID/stat is not what it should be")

// parseStat reads a line of /proc/PID/stat. The second field, the name in
// parentheses, may itself hold spaces and parentheses: the last one ends it.
func parseStat(line []byte) (p Process, err error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || end < open {
		return p, errStat
	}
	p.Name = string(line[open+1 : end])
	fields := bytes.Fields(line[end+1:]) // from field 3 on
	if len(fields) < 20 {
		return p, errStat
	}
	p.state = fields[0][0]
	number := func(b []byte) int {
		n, e := strconv.Atoi(unsafe.String(unsafe.SliceData(b), len(b)))
		err = errors.Join(err, e)
		return n
	}
	p.PID = number(bytes.TrimSpace(line[:open]))
	p.parent, p.group, p.session, p.threads = number(fields[1]), number(fields[2]), number(fields[3]), number(fields[17])
	flags := number(fields[6])
	p.exiting, p.forked = flags&isExiting != 0, flags&forkNoExec != 0
	if err != nil {
		return p, errStat
	}
	if p.Start, err = strconv.ParseUint(string(fields[19]), 10, 64); err != nil {
		return p, errStat
	}
	return p, nil
}

// allProcesses reads the table of processes: what
// ends meanwhile is left out, what begins may be.
func allProcesses(yield func(Process)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	var buf [1024]byte
	seen := false
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readStat(pid, buf[:]); err == nil {
			seen = true
			yield(p)
		}
	}
	if !seen {
		return fmt.Errorf("/proc shows no process: %w", unix.ENOENT)
	}
	return nil
}

// groupMembers lists the living members of a process group that started at
// start or later.
func groupMembers(group int, start uint64) (members []Process, err error) {
	err = allProcesses(func(p Process) {
		if p.group == group && p.Start >= start && !p.dead() {
			members = append(members, p)
		}
	})
	return members, err
}

// signal sends sig to p and to no other process: the pidfd pins the pid, and
// the start time read after it was opened tells whose it is. nil where p is
// gone; EPERM where it is not ours to signal.
func (p *Process) signal(sig unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if start, statErr := StartTime(p.PID); statErr != nil || start != p.Start {
		return nil
	}
	if err == nil {
		err = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		err = unix.Kill(p.PID, sig) // an old kernel: verified a moment ago
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}
