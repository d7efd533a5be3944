package cmd

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"batchq/report"
)

func newDemo(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "See the main job on sample data: a crash in the middle, and the resume",
		Long: `Settles 120 sample customers in a directory of its own, which it removes at the
end. Half way it kills the run with SIGKILL, as the power or the OOM killer
would, looks at what is known, runs the same command line again, and then
counts in the ledger what was settled, and how often. One customer's amount is
no number, so that there is something in the dead-letter list.`,
		Example: `  batchq demo
  batchq demo --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), a) },
	}
	setExits(c, exits{exitOK: "every customer was settled once, or set aside", exitFailed: "something was not as it should be",
		exitUsage: "", exitHUP: "", exitINT: "", exitQUIT: "", exitTERM: ""})
	return c
}

//go:embed demo_settle.sh
var demoScript string

const (
	demoCustomers = 120
	demoBad       = 77 // this one's amount is no number
)

// demo is one showing, in a directory of its own.
type demo struct {
	*app
	ctx  context.Context
	dir  string
	self string // this program
}

// demoWork is the command line that is killed and then given again.
var demoWork = []string{"work", "settlement", "--scope", "@today", "--", "./settle.sh", "{key}", "{.amount}"}

func runDemo(parent context.Context, a *app) (err error) {
	stop := a.listen(parent)
	defer stop.close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "batchq-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d := &demo{app: a, ctx: stop.soft, dir: dir, self: self}
	began := time.Now()
	err = d.play()
	if stop.signal() != 0 {
		return exitWith(signalExit(stop.signal()), nil)
	}
	if err != nil {
		return err
	}
	return d.verdict(time.Since(began))
}

func (d *demo) play() error {
	if err := d.prepare(); err != nil {
		return err
	}
	d.say("One list: %d customers to settle, one of them with an amount that is no number.", demoCustomers)
	if err := d.run(0, "enqueue", "settlement", "customers.csv", "--key", "customer", "--scope", "@today"); err != nil {
		return err
	}
	d.say("A worker takes at most a batch of them. Half way, kill -9:")
	if err := d.crash(); err != nil {
		return err
	}
	d.say("What is known now: what is done, and what the dead run held.")
	if err := d.run(0, "stats"); err != nil {
		return err
	}
	d.say("The same command line again. Nothing that was recorded as done runs again:")
	if err := d.run(3, demoWork...); err != nil {
		return err
	}
	d.say("The bad one never blocked the rest. It waits for a person:")
	if err := d.run(0, "dlq", "list"); err != nil {
		return err
	}
	return d.run(0, "doctor")
}

// prepare writes the list and the command.
func (d *demo) prepare() error {
	var list strings.Builder
	list.WriteString("customer,amount\n")
	for i := 1; i <= demoCustomers; i++ {
		amount := fmt.Sprintf("%d.%02d", 10+i*7%90, i*13%100)
		if i == demoBad {
			amount = "n/a"
		}
		fmt.Fprintf(&list, "C-%04d,%s\n", 1000+i, amount)
	}
	return errors.Join(
		os.Mkdir(filepath.Join(d.dir, "ledger"), 0o700),
		os.WriteFile(filepath.Join(d.dir, "customers.csv"), []byte(list.String()), 0o600),
		os.WriteFile(filepath.Join(d.dir, "settle.sh"), []byte(demoScript), 0o700))
}

func (d *demo) say(format string, args ...any) {
	d.out.print("")
	d.goOn(format, args...)
}

// goOn says more, broken into lines as wide as the terminal.
func (d *demo) goOn(format string, args ...any) {
	text := report.Wrap(fmt.Sprintf(format, args...), d.out.stdout.width(), 0, 0)
	for line := range strings.SplitSeq(text, "\n") {
		d.out.print("%s", line)
	}
}

// command is this program in the demo's directory, with nothing of the
// user's own configuration.
func (d *demo) command(args []string) (*exec.Cmd, *bytes.Buffer) {
	line := []string{"batchq"}
	for _, w := range args {
		line = append(line, shellWord(w))
	}
	d.out.print("$ %s", strings.Join(line, " "))
	c := exec.CommandContext(d.ctx, d.self, args...)
	c.Dir = d.dir
	c.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "BATCHQ_") })
	// The killed run can't clear away its own temporary directory; in here it
	// goes with the rest, also when the demo ends before the rerun.
	c.Env = append(c.Env, "BATCHQ_DB="+filepath.Join(d.dir, "demo.db"), "XDG_CONFIG_HOME="+d.dir, "TMPDIR="+d.dir)
	// What runs when the demo is interrupted shall not outlive it.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	printed := &bytes.Buffer{}
	c.Stdout, c.Stderr = printed, printed
	return c, printed
}

// run shows a command and what it prints, and checks its exit status.
func (d *demo) run(want int, args ...string) error {
	c, printed := d.command(args)
	err := c.Run()
	d.show(printed)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	if got := c.ProcessState.ExitCode(); got != want {
		return fmt.Errorf("%s exited %d, and %d was expected:\n%s", args[0], got, want, printed)
	}
	return nil
}

func (d *demo) show(printed *bytes.Buffer) {
	for line := range strings.Lines(printed.String()) {
		d.out.print("%s", strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "  "))
	}
}

// crash starts the worker and kills it when half of the list is settled.
func (d *demo) crash() error {
	c, printed := d.command(demoWork)
	if err := c.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		settled, err := d.ledger()
		if err == nil && settled >= demoCustomers/2 {
			break
		}
		if d.ctx.Err() != nil {
			return errors.Join(context.Cause(d.ctx), c.Wait()) // it has been told to stop, and tidies up
		}
		if err != nil || time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%d customers settled in 20s, no use in waiting longer", settled), err, c.Process.Kill(), c.Wait())
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := c.Process.Kill(); err != nil {
		return err
	}
	_ = c.Wait() // "signal: killed" is what was wanted
	d.show(printed)
	d.out.print("Killed")
	return nil
}

// ledger counts the entries that the settlements left.
func (d *demo) ledger() (settled int, err error) {
	entries, err := os.ReadDir(filepath.Join(d.dir, "ledger"))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			settled++
		}
	}
	return settled, err
}

// verdict counts from outside, in what the commands themselves wrote.
func (d *demo) verdict(took time.Duration) error {
	settled, err := d.ledger()
	if err != nil {
		return err
	}
	started, err := os.ReadFile(filepath.Join(d.dir, "started"))
	if err != nil {
		return err
	}
	repeated := bytes.Count(started, []byte("\n")) - demoCustomers
	d.say("Counted in the ledger itself: %d of %d customers settled, each once, and %d set aside, in %.1fs.",
		settled, demoCustomers, demoCustomers-settled, took.Seconds())
	d.goOn("Started twice: %s, at work when the run died. batchq promises at least once, and gives every item "+
		"an idempotency key ($BATCHQ_IDEMPOTENCY_KEY) by which a command can tell: settle.sh does.", count(repeated, "customer"))
	if d.out.json {
		err = d.out.document(struct {
			SchemaVersion int `json:"schema_version"`
			Items         int `json:"items"`
			Settled       int `json:"settled"`
			SetAside      int `json:"set_aside"`
			Repeated      int `json:"repeated"`
		}{1, demoCustomers, settled, demoCustomers - settled, repeated})
	}
	if settled != demoCustomers-1 || repeated > 1 {
		err = errors.Join(err, errors.New("that is not what it should be"))
	}
	return err
}
