package handler

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// strayed starts text in a group of its own, which its leader leaves behind,
// and returns the leader and the process whose pid text writes into the file PID.
func strayed(t *testing.T, text string) (leader Orphan, pid int) {
	t.Helper()
	path := t.TempDir() + "/pid"
	cmd := spawn(t, fmt.Sprintf("PID=%s; %s", path, text))
	pid = pidFile(t, path)
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	awaitSleep(t, pid)
	return Orphan{PID: cmd.Process.Pid, Start: start}, pid
}

func session(t *testing.T) int {
	t.Helper()
	sid, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	return sid
}

// wantDoubt checks which processes belong to an orphan, and how surely.
func wantDoubt(t *testing.T, what string, o Orphan, doubtful, certain []int) {
	t.Helper()
	found, err := Survivors([]Orphan{o})
	if err != nil {
		t.Fatal(err)
	}
	var sure, unsure []int
	for _, p := range found {
		if p.Doubtful {
			unsure = append(unsure, p.PID)
		} else {
			sure = append(sure, p.PID)
		}
	}
	if !slices.Equal(sure, certain) || !slices.Equal(unsure, doubtful) {
		t.Errorf("%s: certain %v, doubtful %v; want %v and %v", what, sure, unsure, certain, doubtful)
	}
}

// env -i PATH=… COMMAND, and its group's leader has gone with the run: nothing
// tells it from a stranger to whom the group's number was given.
func TestSurvivors_DoubtfulMember(t *testing.T) {
	o, pid := strayed(t, `env -i PATH="$PATH" `+sleepers+` & echo $! >$PID; exit 0`)
	o.Mark, o.Run = newMark(), &RunProcess{PID: 1 << 30, Session: session(t)}
	wantDoubt(t, "a member without a mark", o, []int{pid}, nil)
	other := o
	other.Run = &RunProcess{PID: 1 << 30, Session: session(t) + 1}
	wantDoubt(t, "a group of another session", other, nil, nil)
	late := o
	late.Start += 1000
	wantDoubt(t, "a group that is older than the leader", late, nil, nil)
	o.Run = nil
	wantDoubt(t, "nothing is known of the run", o, nil, nil)

	_ = unix.Kill(pid, unix.SIGKILL) // of the second it would be doubtful too
	until(t, "the first is gone", func() bool { return !alive(pid) })
	o, pid = strayed(t, `env -i /bin/`+sleepers+` & echo $! >$PID; exit 0`)
	o.Mark, o.Run = newMark(), &RunProcess{Session: session(t)}
	wantDoubt(t, "an empty environment is no alibi", o, nil, []int{pid})
	o.Run.Session++
	wantDoubt(t, "but the session is", o, nil, nil)
}

// The run died before it could record the pid, and the command has cleared its
// environment meanwhile.
func TestSurvivors_DoubtfulWithoutPID(t *testing.T) {
	o, pid := strayed(t, `env -i PATH="$PATH" `+sleepers+` & echo $! >$PID; exit 0`)
	leader, begun := o.PID, o.Start
	o = Orphan{Mark: newMark(), Run: &RunProcess{PID: 1 << 30, Session: session(t), Begun: begun}}
	mine := func(what string, o Orphan, want bool) {
		t.Helper()
		found, err := Survivors([]Orphan{o}) // others of this session may be doubtful too
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(found, func(p Process) bool { return p.PID == pid })
		if got := i >= 0; got != want || got && !found[i].Doubtful {
			t.Errorf("%s: found: %v", what, got)
		}
	}
	mine("no PID on record", o, true)
	recorded := o
	recorded.PID, recorded.Start = 1<<30, begun
	mine("a PID on record", recorded, true)
	for what, change := range map[string]func(*Orphan){
		"a PID on record, later": func(o *Orphan) { o.PID, o.Start = 1<<30, begun+1000 },
		"the run's own group":    func(o *Orphan) { o.Run.PID = leader },
		"another session":        func(o *Orphan) { o.Run.Session++ },
		"begun after it":         func(o *Orphan) { o.Run.Begun += 1000 },
		"nothing is known":       func(o *Orphan) { o.Run = nil },
		"its parent in the session": func(o *Orphan) {
			pid = spawn(t, "exec "+sleepers).Process.Pid
		},
		"the mark of another": func(o *Orphan) {
			_, pid = strayed(t, `BATCHQ_MARK=another `+sleepers+` & echo $! >$PID; exit 0`)
		},
	} {
		was, changed := pid, o
		run := *o.Run
		changed.Run = &run
		change(&changed)
		mine(what, changed, false)
		pid = was
	}
}

// A run that is killed between fork and exec leaves a process with its own
// environment, still in its own group, that becomes the command when it gets its
// turn: on a busy machine later than a rescuer's two looks.
func TestSurvivors_DoubtfulBeforeExec(t *testing.T) {
	path := t.TempDir() + "/pid"
	cmd := spawn(t, "( while :; do sleep 0.02; done ) & echo $! >"+path+"; exit 0")
	pid := pidFile(t, path)
	start, err := StartTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	o := Orphan{Mark: newMark(), Run: &RunProcess{PID: cmd.Process.Pid, Session: session(t), Begun: start}}
	wantDoubt(t, "forked, not executed", o, []int{pid}, nil)
	begun := time.Now()
	if left, err := End(t.Context(), []Orphan{o}, 0); err != nil || len(left) != 1 || time.Since(begun) < dying {
		t.Errorf("left %+v, %v; given up after %s, before it had time to show whose it is", left, err, time.Since(begun))
	}
	o.Run.Begun += 1000
	wantDoubt(t, "begun after it", o, nil, nil)
}

// What is just executing a program has neither arguments nor an environment to
// show, and is given time to show whose it is.
func TestProcess_Unsettled(t *testing.T) {
	cleared := spawn(t, "exec env -i /bin/"+sleepers)
	awaitSleep(t, cleared.Process.Pid)
	if blank(os.Getpid()) || blank(cleared.Process.Pid) {
		t.Error("one that has executed its program is taken for one that is doing so")
	}
	for p, want := range map[*Process]bool{{executing: true}: true, {forked: true}: true, {}: false} {
		if p.unsettled() != want {
			t.Errorf("%+v is unsettled: %v", p, !want)
		}
	}
}

// doctor --fix makes up a run whose record was lost, with a token that no
// process bears: the process on record is known by its pid and start all the same.
func TestSurvivors_LeaderOfAnotherMark(t *testing.T) {
	cmd := spawn(t, "exec "+sleepers, "BATCHQ_MARK=lost.1.1")
	awaitSleep(t, cmd.Process.Pid)
	start, err := StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	o := Orphan{Mark: newMark(), PID: cmd.Process.Pid, Start: start}
	wantDoubt(t, "the process on record", o, nil, []int{cmd.Process.Pid})
	o.Start++
	wantDoubt(t, "a stranger that has its number", o, nil, nil)
}

// A doubtful process hears nothing from us, however little time is left, and
// what is certain is ended beside it.
func TestEnd_Doubtful(t *testing.T) {
	o, pid := strayed(t, `env -i PATH="$PATH" `+sleepers+` & echo $! >$PID; exit 0`)
	o.Mark, o.Run = newMark(), &RunProcess{Session: session(t)}
	certain := spawn(t, "exec "+sleepers, "BATCHQ_MARK="+o.Mark)
	awaitSleep(t, certain.Process.Pid)
	for range 2 {
		left, err := End(t.Context(), []Orphan{o}, time.Hour)
		if err != nil || len(left) != 1 || left[0].PID != pid || !left[0].Doubtful || left[0].Reason == "" {
			t.Errorf("left %+v, %v", left, err)
		}
	}
	if alive(certain.Process.Pid) || !alive(pid) {
		t.Errorf("the certain one lives: %v; the doubtful one: %v", alive(certain.Process.Pid), alive(pid))
	}
	if left, err := End(t.Context(), []Orphan{o}, 0); err != nil || len(left) != 1 || !alive(pid) {
		t.Errorf("left %+v, %v; alive: %v", left, err, alive(pid))
	}
}

// Beside the command itself, found by its mark, there may be a child in a group
// of its own that has cleared its environment and lost its parent.
func TestEnd_DoubtBesideTheLeader(t *testing.T) {
	o, pid := strayed(t, `env -i PATH="$PATH" `+sleepers+` & echo $! >$PID; exit 0`)
	o = Orphan{Mark: newMark(), Run: &RunProcess{Session: session(t), Begun: o.Start}}
	certain := spawn(t, "exec "+sleepers, "BATCHQ_MARK="+o.Mark)
	awaitSleep(t, certain.Process.Pid)
	left, err := End(t.Context(), []Orphan{o}, time.Hour)
	if err != nil || len(left) != 1 || left[0].PID != pid || !left[0].Doubtful {
		t.Errorf("left %+v, %v", left, err)
	}
	if alive(certain.Process.Pid) || !alive(pid) {
		t.Errorf("the certain one lives: %v; the other one: %v", alive(certain.Process.Pid), alive(pid))
	}
}

func TestStartedAgo(t *testing.T) {
	before := StartedAgo(time.Second)
	cmd := spawn(t, "exec "+sleepers)
	start, err := StartTime(cmd.Process.Pid)
	if err != nil || start < before || start > StartedAgo(0) {
		t.Errorf("it started at %d (%v), between %d and %d", start, err, before, StartedAgo(0))
	}
	if StartedAgo(1<<62) != 0 {
		t.Error("before the boot")
	}
}
