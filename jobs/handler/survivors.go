package handler

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Orphan is what is known of an attempt's processes.
type Orphan struct {
	// Mark is the attempt's BATCHQ_MARK; "" matches none.
	Mark string
	// Prefix: Mark is the beginning of the marks, for all attempts of a run.
	Prefix bool
	// PID and Start are the command's own process, the leader of its group.
	// A PID without a Start can't be verified and is not used.
	PID   int
	Start uint64
	// Run is what is known of the dead run that began the attempt; nil: nothing,
	// and then no process is doubtful.
	Run *RunProcess
}

// RunProcess is what is known of the process that a run was.
type RunProcess struct {
	PID     int
	Session int    // in which its children begin; 0: one that is led from outside of this PID namespace
	Begun   uint64 // nothing of the attempt started before, clock ticks since boot
}

// Survivors looks once through /proc and returns the living processes that
// belong to orphans, never this process or one of its ancestors. A process
// belongs to an orphan when
//
//   - its environment has BATCHQ_MARK with the orphan's mark;
//   - it has no other mark and is a member of the orphan's group. While the
//     leader is in the table, its start time proves the group. Once it is
//     gone, the number may have been given to strangers since: then members
//     count that started no earlier than it did, in the run's session, unless
//     their environment can be read and has no mark at all;
//   - it has no other mark and its parent belongs to the orphan.
//
// A process that may belong to an orphan, and may as well be a stranger's, is
// Doubtful: too likely to run the item again beside it, not certain enough to
// end it. Such is one whose run is known to be dead (Run), and that
//
//   - would be a member of the group but for its environment, which can be read
//     and has no mark (env -i PATH=… COMMAND), once the leader is gone; or
//   - has no mark, is in the run's session though not in the run's own group,
//     started no earlier than the attempt, as did its group's leader where
//     there still is one, and has lost its parent: the one that it has now is
//     of another session, or init. Its group counts for nothing before it has
//     executed a program: the run may have died between fork and exec.
//
// What has left the session, cleared its environment and lost its parents is
// found by nothing.
//
// One pass can miss what is just executing a new program (its environment
// reads empty) or forking: see End.
func Survivors(orphans []Orphan) ([]Process, error) {
	var s scan
	return s.survivors(orphans, nil)
}

// scan is a pass over /proc; its memory serves the next one.
type scan struct {
	all []Process
	buf []byte
}

// survivors is as Survivors. known are processes that an earlier pass has
// found: they belong to their orphan whatever they show now.
func (s *scan) survivors(orphans []Orphan, known map[identity]int) ([]Process, error) {
	if len(orphans) == 0 {
		return nil, nil
	}
	s.all = s.all[:0]
	if err := allProcesses(func(p Process) { s.all = append(s.all, p) }); err != nil {
		return nil, err
	}
	byPID := make(map[int]*Process, len(s.all))
	for i := range s.all {
		byPID[s.all[i].PID] = &s.all[i]
	}
	own := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !own[pid]; {
		own[pid] = true
		p := byPID[pid]
		if p == nil {
			break
		}
		pid = p.parent
	}
	m := newMatcher(orphans, byPID)

	// What can't be settled at once: no mark, no group; perhaps a descendant.
	var undecided []*Process
	matched := map[int]int{} // pid → orphan
	var found []Process
	add := func(p *Process, orphan int) {
		matched[p.PID] = orphan
		q := *p
		q.Orphan = orphan
		found = append(found, q)
	}
	for i := range s.all {
		p := &s.all[i]
		if own[p.PID] || p.dead() || p.Start < m.earliest {
			continue
		}
		if orphan, ok := known[identity{p.PID, p.Start}]; ok {
			add(p, orphan)
			continue
		}
		mark := s.marking(p.PID)
		if orphan, ok := m.match(p, mark); ok {
			add(p, orphan)
		} else if mark.mark == "" {
			undecided = append(undecided, p)
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		rest := undecided[:0]
		for _, p := range undecided {
			if orphan, ok := matched[p.parent]; ok {
				add(p, orphan)
				grown = true
			} else {
				rest = append(rest, p)
			}
		}
		undecided = rest
	}
	for _, p := range undecided {
		found = m.doubt(found, p)
	}
	return found, nil
}

// matcher decides which orphan a process belongs to by what it is itself.
type matcher struct {
	orphans  []Orphan
	exact    map[string]int
	prefixes []int
	groups   map[int]group
	known    []int  // those of a known run
	earliest uint64 // nothing of any orphan can have started before
	byPID    map[int]*Process
}

type group struct {
	orphan int
	proven bool // the leader is in the table, with its start time
}

func newMatcher(orphans []Orphan, byPID map[int]*Process) *matcher {
	m := &matcher{orphans: orphans, exact: map[string]int{}, groups: map[int]group{}, byPID: byPID}
	for i, o := range orphans {
		if i == 0 || o.Start < m.earliest {
			m.earliest = o.Start // 0 where one is unknown
		}
		switch {
		case o.Mark == "":
		case o.Prefix:
			m.prefixes = append(m.prefixes, i)
		default:
			m.exact[o.Mark] = i
		}
		if o.Run != nil {
			m.known = append(m.known, i)
		}
		if o.PID <= 1 || o.Start == 0 {
			continue
		}
		leader := byPID[o.PID]
		if leader != nil && leader.Start != o.Start {
			// The number is another's now, which it could only become when
			// nobody of the old group was left.
			continue
		}
		m.groups[o.PID] = group{i, leader != nil}
	}
	return m
}

func (m *matcher) match(p *Process, mark marking) (orphan int, ok bool) {
	// The recorded process itself, whatever mark it bears: doctor --fix may have
	// had to make up a run's token anew.
	if g, ok := m.groups[p.PID]; ok && g.proven {
		return g.orphan, true
	}
	if mark.mark != "" {
		if i, ok := m.exact[mark.mark]; ok {
			return i, true
		}
		for _, i := range m.prefixes {
			if strings.HasPrefix(mark.mark, m.orphans[i].Mark) {
				return i, true
			}
		}
		return 0, false // another attempt's: an inner run looks after its own
	}
	g, ok := m.member(p)
	return g.orphan, ok && (g.proven || !mark.stranger || m.orphans[g.orphan].Mark == "")
}

// member finds the orphan's group of which p is one, by all but its environment.
func (m *matcher) member(p *Process) (g group, ok bool) {
	g, ok = m.groups[p.group]
	if !ok {
		return g, false
	}
	o := &m.orphans[g.orphan]
	if p.Start < o.Start {
		return g, false
	}
	// A group never spans two sessions, and that of a command begins in its run's.
	return g, g.proven || o.Run == nil || p.session == o.Run.Session
}

// doubt adds p to found, for each orphan to which it may belong. It bears no
// mark.
func (m *matcher) doubt(found []Process, p *Process) []Process {
	add := func(orphan int) {
		q := *p
		q.Orphan, q.Doubtful, q.executing = orphan, true, blank(p.PID)
		found = append(found, q)
	}
	if g, ok := m.member(p); ok {
		if m.orphans[g.orphan].Run != nil {
			add(g.orphan)
		}
		return found
	}
	for _, i := range m.known {
		run := m.orphans[i].Run
		begun := max(run.Begun, m.orphans[i].Start)
		if p.session != run.Session || p.Start < begun {
			continue
		}
		// A group that was there before, perhaps the run's own, is no command's,
		// unless one is just about to leave it.
		leader := m.byPID[p.group]
		if before := p.group == run.PID || p.group == p.session || leader != nil && leader.Start < begun; before && !p.forked {
			continue
		}
		if parent := m.byPID[p.parent]; parent != nil && p.parent != 1 && parent.session == run.Session {
			continue
		}
		add(i)
	}
	return found
}

// marking is what a process's environment says of its attempt.
type marking struct {
	mark string
	// stranger: the environment could be read, looks like one, and has no
	// mark. Not so where it is empty (executing, or cleared), overwritten by a
	// process that changes its title, or not ours to read.
	stranger bool
}

// maxEnviron bounds what is read of one process's environment: what a kernel
// with the usual stack limit allows.
const maxEnviron = 8 << 20

func (s *scan) marking(pid int) marking {
	if s.buf == nil {
		s.buf = make([]byte, 16<<10)
	}
	for {
		n, err := readProc(pid, "environ", s.buf)
		if err != nil {
			return marking{}
		}
		if n == len(s.buf) && n < maxEnviron {
			s.buf = make([]byte, 4*n)
			continue
		}
		return markOf(s.buf[:n])
	}
}

func markOf(environ []byte) marking {
	const name = "BATCHQ_MARK="
	var m marking
	for len(environ) > 0 {
		entry := environ
		if i := bytes.IndexByte(environ, 0); i >= 0 {
			entry, environ = environ[:i], environ[i+1:]
		} else {
			environ = nil
		}
		if bytes.HasPrefix(entry, []byte(name)) && len(entry) > len(name) {
			return marking{mark: string(entry[len(name):])}
		}
		m.stranger = m.stranger || bytes.IndexByte(entry, '=') > 0
	}
	return m
}

// denied says whether a signal failed because its target is another user's.
func denied(err error) bool { return errors.Is(err, unix.EPERM) }
