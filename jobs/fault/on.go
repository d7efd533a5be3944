//go:build faults

package fault

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Here marks a moment between two steps of what is being done.
func Here(what, moment string) {
	place := strings.ReplaceAll(what+"/"+moment, " ", "-")
	if path := os.Getenv("BATCHQ_FAULT_TRACE"); path != "" {
		trace(path, place)
	}
	if plan := planned(); plan.place == place {
		plan.suffer()
	}
}

// trace appends in one write, so that lines of several processes stay whole.
func trace(path, place string) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(place + "\n"); err != nil {
		panic(err)
	}
}

// plan is what BATCHQ_FAULT says.
type plan struct {
	place string
	sig   syscall.Signal

	mu   sync.Mutex
	left int
}

var planned = sync.OnceValue(func() *plan {
	place, action, _ := strings.Cut(os.Getenv("BATCHQ_FAULT"), "=")
	place, nth, counted := strings.Cut(place, ":")
	p := &plan{place: place, sig: syscall.SIGKILL, left: 1}
	switch action {
	case "":
	case "stop":
		p.sig = syscall.SIGSTOP
	default:
		panic("BATCHQ_FAULT: unknown action " + action)
	}
	if counted {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			panic("BATCHQ_FAULT: bad count " + nth)
		}
		p.left = n
	}
	return p
})

func (p *plan) suffer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left--; p.left != 0 {
		return
	}
	// To the thread that is here: of a signal to the process another one may
	// hear first, and this one take more steps meanwhile.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), p.sig); err != nil {
		panic(err)
	}
}

// Now is the wall clock, as far off as BATCHQ_FAULT_CLOCK says.
func Now() time.Time {
	path := os.Getenv("BATCHQ_FAULT_CLOCK")
	if path == "" {
		return time.Now()
	}
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	off, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		panic(fmt.Sprintf("%s: %v", path, err))
	}
	return time.Now().Add(off).Round(0) // without the monotonic reading, which knows of no step
}

// Boot returns id, the kernel's word for this boot, or what BATCHQ_FAULT_BOOT says.
func Boot(id string) string {
	if other := os.Getenv("BATCHQ_FAULT_BOOT"); other != "" {
		return other
	}
	return id
}
