package handler

import (
	"math"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Gone is certain, and Alive is seen; of a process that can't be told neither holds.
func TestProcess_Gone(t *testing.T) {
	me := os.Getpid()
	start, err := StartTime(me)
	if err != nil {
		t.Fatal(err)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command("true")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer zombie.Wait()
	zombieStart, err := StartTime(zombie.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); Alive(zombie.Process.Pid, zombieStart) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	for name, c := range map[string]struct {
		pid         int
		start       uint64
		gone, alive bool
	}{
		"Self":    {me, start, false, true},
		"Reused":  {me, start - 1, false, false},
		"Dead":    {dead.Process.Pid, start, true, false},
		"Zombie":  {zombie.Process.Pid, zombieStart, true, false},
		"Unknown": {0, 0, false, false},
		"NoPID":   {math.MaxInt32, 1, true, false},
	} {
		if g, a := Gone(c.pid, c.start), Alive(c.pid, c.start); g != c.gone || a != c.alive {
			t.Errorf("%s: gone %v, alive %v", name, g, a)
		}
		if Dying(c.pid, c.start) {
			t.Errorf("%s is dying", name)
		}
	}
}
