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
}

// Survivors looks once through /proc and returns the living processes that
// belong to orphans, never this process or one of its ancestors. A process
// belongs to an orphan when
//
//   - its environment has BATCHQ_MARK with the orphan's mark;
//   - it has no other mark and is a member of the orphan's group. While the
//     leader is in the table, its start time proves the group. Once it is
//     gone, the number may have been given to strangers since: then members
//     count that started no earlier than it did, unless their environment can
//     be read and has no mark at all;
//   - it has no other mark and its parent belongs to the orphan.
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
	type candidate struct {
		p    *Process
		mark marking
	}
	var undecided []candidate
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
			undecided = append(undecided, candidate{p, mark})
		}
	}
	for grown := len(found) > 0; grown; {
		grown = false
		rest := undecided[:0]
		for _, c := range undecided {
			if orphan, ok := matched[c.p.parent]; ok {
				add(c.p, orphan)
				grown = true
			} else {
				rest = append(rest, c)
			}
		}
		undecided = rest
	}
	return found, nil
}

// matcher decides which orphan a process belongs to by what it is itself.
type matcher struct {
	orphans  []Orphan
	exact    map[string]int
	prefixes []int
	groups   map[int]group
	earliest uint64 // nothing of any orphan can have started before
}

type group struct {
	orphan int
	proven bool // the leader is in the table, with its start time
}

func newMatcher(orphans []Orphan, byPID map[int]*Process) *matcher {
	m := &matcher{orphans: orphans, exact: map[string]int{}, groups: map[int]group{}}
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
	g, ok := m.groups[p.group]
	if !ok || p.Start < m.orphans[g.orphan].Start {
		return 0, false
	}
	return g.orphan, g.proven || !mark.stranger || m.orphans[g.orphan].Mark == ""
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
