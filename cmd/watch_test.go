package cmd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"
)

// screen is a terminal: what a command writes to it, and what one sees of that.
type screen struct {
	*site
	cmd      *exec.Cmd
	keyboard io.Writer
	over     chan struct{} // closed when all has been read

	mu  sync.Mutex
	raw bytes.Buffer
}

// onTerminal starts a command on a terminal of so many columns.
func (s *site) onTerminal(columns uint16, c *exec.Cmd) *screen {
	s.Helper()
	tty, err := pty.StartWithAttrs(c, &pty.Winsize{Rows: 50, Cols: columns}, &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1})
	s.must(err)
	v := &screen{site: s, cmd: c, keyboard: tty, over: make(chan struct{})}
	go func() {
		defer close(v.over)
		_, _ = io.Copy(v, tty) // ends with EIO when the last writer has gone
		_ = tty.Close()
	}()
	return v
}

func (v *screen) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.raw.Write(p)
}

// written is all that has come so far, control sequences and all.
func (v *screen) written() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.raw.String()
}

// shows waits until a text has come.
func (v *screen) shows(text string) {
	v.Helper()
	v.until("the terminal shows "+text, func() bool { return strings.Contains(v.written(), text) })
}

// endsWith waits for the end, and returns the lines that stay on the screen.
func (v *screen) endsWith(code int) []string {
	v.Helper()
	v.ends(code)
	return v.seen()
}

func (v *screen) ends(code int) {
	v.Helper()
	err := v.cmd.Wait()
	<-v.over
	if got := v.cmd.ProcessState.ExitCode(); got != code {
		v.Fatalf("exit %d, want %d: %v\n%q", got, code, err, v.written())
	}
}

var upAndClear = regexp.MustCompile(`^\r\x1b\[([0-9]+)A\x1b\[J`)

// seen is what a person sees: lines, of which those were taken away that the
// cursor went back over.
func (v *screen) seen() []string {
	v.Helper()
	var lines []string
	for rest := v.written(); rest != ""; {
		if m := upAndClear.FindStringSubmatch(rest); m != nil {
			up, err := strconv.Atoi(m[1])
			v.must(err)
			if up > len(lines) {
				v.Fatalf("the cursor goes above the first line: %q", v.written())
			}
			lines, rest = lines[:len(lines)-up], rest[len(m[0]):]
			continue
		}
		line, after, whole := strings.Cut(strings.TrimPrefix(rest, "\r"), "\r\n") // the first flush
		if !whole || strings.ContainsAny(line, "\x1b\r") {
			v.Fatalf("%q is no whole line, or moves the cursor in another way", line)
		}
		lines, rest = append(lines, line), after
	}
	return lines
}

func (s *site) terminalCommand(args ...string) *exec.Cmd {
	c := s.command(args...)
	c.Env = append(c.Env, "TERM=xterm")
	return c
}

// A bar shows how far a run has come. What is printed meanwhile stands above
// it, whole, and nothing of the bar is left at the end.
func TestWatch_Bar(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\nwhile [ ! -e \"go$1\" ]; do sleep 0.02; done\n[ \"$1\" != b ] || exit 65\n")
	s.enqueue("j", []string{"a", "b", "c"})
	v := s.onTerminal(80, s.terminalCommand("work", "j", "--", "./item.sh"))
	v.shows("0 of 3 items  1 running (a for ")
	s.write("goa", "")
	v.shows("1 of 3 items [")
	v.shows("% ")
	v.shows("  eta ")
	s.write("gob", "")
	v.shows("  1 dead  1 running (c for ")
	s.write("goc", "")
	got := strings.Join(v.endsWith(3), "\n")
	const want = "batchq: job j, item 2, key b is dead: exit 65\ndone 2, dead 1, left 0"
	if got != want {
		t.Errorf("in the end one sees\n%s\nwant\n%s", got, want)
	}
	s.tidy()
}

// What items print is shown to the byte, however long its lines: no bar stands
// in its middle.
func TestWatch_Print(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\nsleep 1.2\nseq 1 30000 | tr '\\n' ' '\n")
	s.enqueue("j", []string{"a", "b"})
	v := s.onTerminal(80, s.terminalCommand("work", "j", "--print", "--", "./item.sh"))
	v.ends(0)
	var one strings.Builder
	for i := range 30000 {
		one.WriteString(strconv.Itoa(i+1) + " ")
	}
	if got, want := v.written(), strings.Repeat(one.String(), 2)+"done 2, left 0\r\n"; got != want {
		t.Errorf("%d bytes of output, want %d", len(got), len(want))
	}
}

// Whoever insists does not wait for a reader of what is printed.
func TestWatch_NobodyReads(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\necho >>begun\nseq 1 20000\n")
	s.enqueue("j", sequence(50))
	c := s.command("work", "j", "--print", "--", "./item.sh")
	r, w, err := os.Pipe()
	s.must(err)
	c.Stdout = w
	s.must(c.Start())
	s.must(w.Close())
	s.until("it prints", func() bool { return s.file("begun") != "" })
	s.until("it is stuck", func() bool {
		before := s.file("begun")
		time.Sleep(300 * time.Millisecond)
		return s.file("begun") == before
	})
	for range 2 {
		s.must(c.Process.Signal(syscall.SIGTERM))
		time.Sleep(200 * time.Millisecond) // two signals at once may come as one
	}
	_ = c.Wait()
	if got := c.ProcessState.ExitCode(); got != 143 {
		t.Errorf("exit %d", got)
	}
	s.must(r.Close())
	if got := s.totals(); got["claimed"]+got["running"] > 0 {
		t.Errorf("it left %v", got)
	}
	s.tidy()
}

// A command in the background can't ask the terminal for its list: stopped by
// that, not even a signal could end it.
func TestWatch_Background(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := s.terminalCommand()
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `set -m; "$0" enqueue j <&0 & wait $!; echo "status $?"`, s.self}
	v := s.onTerminal(80, c)
	v.ends(0)
	if text := v.written(); !strings.Contains(text, "status 1") || !strings.Contains(text, "standard input is the terminal, which a command in the background can't read") {
		t.Errorf("%q", text)
	}
}

// A last line without a newline is ended as in any other program.
func TestWatch_LastLine(t *testing.T) {
	t.Parallel()
	s := setup(t)
	v := s.onTerminal(80, s.terminalCommand("enqueue", "j"))
	v.shows("reading items from the terminal")
	_, err := v.keyboard.Write([]byte("abc\x04"))
	s.must(err)
	v.shows("abc")
	time.Sleep(100 * time.Millisecond) // or the two come as one
	_, err = v.keyboard.Write([]byte("\x04"))
	s.must(err)
	v.ends(0)
	s.wantTotals(map[string]int{"ready": 1})
}

// The bar keeps to the terminal's width, also when that changes.
func TestWatch_Width(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\n")
	s.enqueue("j", []string{strings.Repeat("ü", 100)})
	c := s.terminalCommand("work", "j", "--", "./item.sh")
	v := s.onTerminal(33, c)
	v.shows("0 of 1 item  1 running (")
	s.write("go", "")
	v.endsWith(0)
	for _, line := range strings.Split(v.written(), "\r\n") {
		line = strings.TrimPrefix(upAndClear.ReplaceAllString(line, ""), "\r")
		if strings.Contains(line, " of 1 item") && utf8.RuneCountInString(line) > 33 {
			t.Errorf("%q is wider than the terminal", line)
		}
	}
}

// There is no bar where it could not be drawn, is not wanted, or would be over
// at once.
func TestWatch_NoBar(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ env, flag string }{
		"Dumb":  {"TERM=dumb", "-v"},
		"Quiet": {"TERM=xterm", "-q"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setup(t)
			s.write("item.sh", "#!/bin/sh\nsleep 1.5\n")
			s.enqueue("j", []string{"a"})
			line := s.command("work", "j", c.flag, "--", "./item.sh")
			line.Env = append(line.Env, c.env)
			v := s.onTerminal(80, line)
			v.endsWith(0)
			if text := v.written(); strings.Contains(text, "\x1b") || strings.Contains(text, " of 1 item") {
				t.Errorf("%q", text)
			}
		})
	}
}

// Where nothing can start, the bar says what the run waits for, and forecasts
// nothing.
func TestWatch_Waits(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"later"}, "--delay", "1h")
	v := s.onTerminal(120, s.terminalCommand("run", "j", "--item", "now", "--", "true"))
	v.shows("1 of 2 items [")
	v.shows("waiting: 1 item for later, the first is due at ")
	waited := v.written()
	s.want(0, "requeue", "--job", "j", "--state", "delayed")
	lines := strings.Join(v.endsWith(0), "\n")
	if !strings.Contains(lines, "batchq: waiting: 1 item for later, the first is due at ") || strings.Contains(waited, "eta") {
		t.Errorf("%s\n%q", lines, waited)
	}

	s.write("item.sh", "#!/bin/sh\necho >begun\nwhile [ ! -e go ]; do sleep 0.02; done\n")
	s.enqueue("k", []string{"a"})
	first := s.start(s.command("work", "k", "--", "./item.sh"))
	s.until("it runs", func() bool { return s.file("begun") != "" })
	second := s.start(s.command("run", "l", "--item", "b", "--", "true"))
	s.until("it waits", func() bool { return strings.Contains(s.batchq("", "stats").stdout, "batchq run l") })
	s.write("go", "")
	first.endsWith(0)
	if r := second.endsWith(0); !strings.Contains(r.stderr, "batchq: waiting: lane serial is full: 1 of 1, run ") {
		t.Error(r)
	}
}

// What is typed while the bar stands leaves nothing of it behind.
func TestWatch_Typed(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\n")
	s.enqueue("j", []string{"a"})
	v := s.onTerminal(80, s.terminalCommand("work", "j", "--", "./item.sh"))
	v.shows("0 of 1 item  1 running")
	_, err := v.keyboard.Write([]byte{'x', 3}) // and Ctrl-C
	s.must(err)
	v.shows("stopping: ")
	s.write("go", "")
	v.ends(130)
	if text := v.written(); strings.Contains(text, "\x1b") && strings.Count(text, "\x1b[1A") != strings.Count(text, "\r\x1b[1A") {
		t.Errorf("the cursor does not go to the left before it goes up: %q", text)
	}
}

// A list that is read for long has a bar, too; what it does not know it does
// not say.
func TestWatch_Enqueue(t *testing.T) {
	t.Parallel()
	s := setup(t)
	c := s.terminalCommand("enqueue", "j")
	in, err := c.StdinPipe()
	s.must(err)
	v := s.onTerminal(80, c)
	_, err = io.WriteString(in, "a\nb\n")
	s.must(err)
	v.shows("2 records  ")
	s.must(in.Close())
	if got := strings.Join(v.endsWith(0), "\n"); got != "added 2, duplicate 0, conflict 0, dead 0, rejected 0" {
		t.Error(got)
	}
	if strings.Contains(v.written(), "%") || strings.Contains(v.written(), "eta") {
		t.Errorf("%q", v.written())
	}
}

// What a person moves has a bar, too.
func TestWatch_Moving(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", []string{"a", "b"})
	for _, c := range []struct {
		line []string
		bar  string
		end  string
	}{
		{[]string{"drop", "--job", "j"}, "0 of 2 items", "dropped 2"},
		{[]string{"prune", "--older-than", "1ms"}, "0 items", "pruned"},
	} {
		db := s.other()
		_, err := db.Exec("BEGIN IMMEDIATE")
		s.must(err)
		v := s.onTerminal(80, s.terminalCommand(c.line...))
		v.shows(c.bar)
		_, err = db.Exec("ROLLBACK")
		s.must(errors.Join(err, db.Close()))
		if got := strings.Join(v.endsWith(0), "\n"); !strings.Contains(got, c.end) || strings.Contains(got, c.bar+" ") {
			t.Errorf("%v: %s", c.line, got)
		}
	}
}

// Who sends USR1 gets one line, wherever stderr goes.
func TestWatch_Asked(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\necho >\"begun$1\"\nwhile [ ! -e \"go$1\" ]; do sleep 0.02; done\n")
	s.enqueue("j", []string{"a", "b"})
	c := s.command()
	c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `exec "$0" work j -- ./item.sh 2>said`, s.self}
	p := s.start(c)
	// The run may have recorded less by then than its commands have done.
	ask := func(want string) {
		t.Helper()
		s.until("it says "+want, func() bool {
			s.must(p.cmd.Process.Signal(syscall.SIGUSR1))
			return strings.Contains(s.file("said"), want)
		})
	}
	s.until("a runs", func() bool { return s.file("beguna") != "" })
	ask("batchq: 0 of 2 items, 1 running (a for ")
	s.write("goa", "")
	s.until("b runs", func() bool { return s.file("begunb") != "" })
	ask("batchq: 1 of 2 items (50%), ")
	s.write("gob", "")
	p.endsWith(0)
	s.tidy()
}
