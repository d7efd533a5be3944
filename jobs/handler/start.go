package handler

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/fault"
)

// forkPauses lie between the tries to start a process that the system has no
// room for now: enough for a burst of forks, or for the last writer of a
// script to close it, and short enough to keep a slot for.
var forkPauses = []time.Duration{10, 20, 40, 80, 160} // milliseconds

// prepare works out what is to be executed. false: the item can't be, and the
// result says why.
func (x *execution) prepare() bool {
	h := &x.Spec.Handler
	argv, err := arguments(h, x.Item)
	switch {
	case err != nil:
		x.result.Ending, x.result.Error = jobs.Unresolved, err.Error()
		return false
	case len(argv) == 0 || argv[0] == "":
		x.result.Ending, x.result.Error = jobs.CantExec, "the job "+x.Spec.Name+" has no command"
		return false
	}
	if strings.IndexByte(x.Item.Scope, 0) >= 0 || bytes.IndexByte(x.Item.Key, 0) >= 0 {
		// The kernel would blame the command, and all other items with it.
		x.result.Ending, x.result.Error = jobs.Unresolved, "its key or scope holds a NUL, which no command can be given"
		return false
	}
	x.argv = argv
	x.shared = x.specEnv(x.Spec)
	return true
}

// launch starts the command by start, again where the system has no room for it
// now. false: it could not be started, and the result says why.
func (x *execution) launch(ctx, kill context.Context, start func() error) bool {
	for try := 0; ; try++ {
		err := start()
		if err == nil {
			return true
		}
		x.result.Ending, x.result.Error = x.explain(err)
		if x.result.Ending != jobs.CantFork || try == len(forkPauses) {
			return false
		}
		pause := time.NewTimer(forkPauses[try] * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		case <-kill.Done():
		}
		pause.Stop()
		if ending, _, told := interrupted(ctx, kill); told {
			x.result = jobs.Result{Ending: ending}
			return false
		}
	}
}

// program is what to look for.
func (x *execution) program() lookup {
	return lookup{x.argv[0], x.shared.path, x.Spec.Handler.Dir}
}

// start makes the pipes and the process. After an error nothing is left open.
func (x *execution) start() (err error) {
	x.begin = time.Now()
	file, err := x.find(x.program(), false)
	if err != nil {
		return &execError{err}
	}
	dir, fd, err := x.temp.current()
	if err != nil {
		return err
	}
	x.resultDir, x.resultFd, x.resultName = dir, fd, x.uniqueName("result-")
	defer func() {
		if err != nil {
			x.closePipes()
		}
	}()
	if x.slot == nil {
		if x.slot, err = x.takeSlot(); err != nil {
			return err
		}
	}
	if err = x.openPipe(0); err != nil {
		return err
	}
	errWrite := x.pipes[0].write
	if x.Print {
		if err = x.openPipe(1); err != nil {
			return err
		}
		errWrite = x.pipes[1].write
	}
	stdin, err := x.stdin(x.Attempt)
	if err != nil {
		return err
	}
	if stdin != x.null {
		defer stdin.Close()
	}
	attr := &os.ProcAttr{
		Dir:   x.Spec.Handler.Dir,
		Env:   attemptEnv(x.shared.vars, x.Attempt, dir+"/"+x.resultName),
		Files: []*os.File{stdin, x.pipes[0].write, errWrite},
	}
	return x.fork(file, attr)
}

// fork makes the process that executes file, which find has found.
func (x *execution) fork(file string, attr *os.ProcAttr) (err error) {
	// A group of its own, led by the command: the one handle by which all
	// of it is ended. No Pdeathsig: it follows the thread, not the process.
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	x.env = attr.Env
	fault.Here("exec", "ready")
	x.proc, err = os.StartProcess(file, x.argv, attr)
	if errors.Is(err, unix.ENOENT) && !strings.Contains(x.argv[0], "/") {
		// It has moved since it was found.
		again, lookErr := x.find(x.program(), true)
		if lookErr == nil && again != file {
			x.proc, err = os.StartProcess(again, x.argv, attr)
		}
	}
	if err != nil {
		return &execError{err}
	}
	return nil
}

func (x *execution) openPipe(i int) (err error) {
	if x.pipes[i], err = newPipe(); err != nil {
		return err
	}
	return x.slot.watch(x.pipes[i].read)
}

// execError marks what a fork and exec returned: an errno about the command.
type execError struct{ error }

func (e *execError) Unwrap() error { return e.error }

// explain says what kind of failure it is that the command could not be
// started, and words it for the person who can mend it.
func (x *execution) explain(err error) (jobs.Ending, string) {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return jobs.CantFork, "can't start a process: " + err.Error()
	}
	if errno == unix.EBADF {
		// Before it executes, the child moves its files to numbers above those
		// in use, where the limit may already be.
		errno = unix.EMFILE
	}
	switch errno {
	case unix.E2BIG:
		return jobs.TooLong, x.tooLong()
	case unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY:
		return jobs.CantFork, fmt.Sprintf("can't start %s now: %s", x.argv[0], errno)
	}
	var exec *execError
	if !errors.As(err, &exec) {
		return jobs.CantFork, "can't start a process: " + err.Error()
	}
	text := x.cantExec(errno)
	x.result.Searched = x.searched
	h := x.Spec.Handler
	switch {
	case len(h.Command) == 0:
	case strings.ContainsAny(h.Command[0], " \t\n|;&<>"):
		text += `; if it is meant for a shell: sh -c 'TEXT with "$1"' sh {}`
	case HasPlaceholder(h.Command[:1]):
		// The item names the program: that it can't be executed is the item's
		// fault, and says nothing about the job's others.
		return jobs.Unresolved, text
	}
	return jobs.CantExec, text
}

// cantExec finds out which of directory, file and interpreter the kernel's
// one number is about.
func (x *execution) cantExec(errno syscall.Errno) string {
	dir := x.Spec.Handler.Dir
	if dir != "" {
		info, err := os.Stat(dir)
		switch {
		case err != nil:
			return fmt.Sprintf("directory %s: %s", dir, reason(err))
		case !info.IsDir():
			return fmt.Sprintf("directory %s: not a directory", dir)
		case unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS) != nil:
			return fmt.Sprintf("directory %s: permission denied", dir)
		}
	} else {
		dir, _ = os.Getwd()
	}
	name := x.argv[0]
	if !strings.Contains(name, "/") {
		file, err := lookPath(lookup{name, x.shared.path, dir})
		switch {
		case errors.Is(err, unix.EACCES):
			x.searched = x.shared.path
			return name + ": found in PATH, but not executable"
		case err != nil:
			x.searched = x.shared.path
			return name + ": not found in PATH"
		}
		name = file
	}
	where := ""
	if !strings.HasPrefix(name, "/") {
		where = fmt.Sprintf(" (in %s)", dir)
	}
	file := inDir(name, dir)
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return name + ": " + reason(err) + where
	case info.IsDir():
		return name + ": a directory, not a command" + where
	case errno == unix.ENOEXEC:
		return name + ": no format that the system can execute; a script must begin with #!/bin/sh or the like" + where
	case errno == unix.EACCES && info.Mode()&0o111 == 0:
		return name + ": not executable (chmod +x)" + where
	case errno == unix.ENOENT:
		if interpreter := shebang(file); interpreter != "" {
			return fmt.Sprintf("%s: its interpreter %q does not exist%s", name, interpreter, where)
		}
		return name + ": the loader or library that it needs does not exist" + where
	}
	return name + ": " + reason(errno) + where
}

// reason is the errno's own words, without the name of a system call; the
// commonest one in the form that people look for.
func reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	if errno == unix.ENOENT {
		return "no such file"
	}
	return errno.Error()
}

// shebang returns the interpreter that a script names, with a carriage return
// where the script came from Windows.
func shebang(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || !strings.HasPrefix(line, "#!") {
		return ""
	}
	interpreter, _, _ := strings.Cut(strings.Trim(line[2:], " \t\n"), " ")
	return interpreter
}

// longestString is the kernel's MAX_ARG_STRLEN: 32 pages for one argument or
// variable with its NUL, whatever the stack allows in all. With larger pages it
// is more; then the total is what is named.
const longestString = 128 << 10

func (x *execution) tooLong() string {
	total := 0
	for i, arg := range x.argv {
		if len(arg) >= longestString {
			return fmt.Sprintf("argument %d of %s is %d bytes long, more than the system takes; pass it on stdin", i, x.argv[0], len(arg))
		}
		total += len(arg) + 1
	}
	for _, entry := range x.env {
		if len(entry) >= longestString {
			name, _, _ := strings.Cut(entry, "=")
			return fmt.Sprintf("the variable %s is %d bytes long, more than the system takes", name, len(entry))
		}
		total += len(entry) + 1
	}
	return fmt.Sprintf("arguments and environment of %s are %d bytes together, more than the system takes", x.argv[0], total)
}
