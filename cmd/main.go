// Package cmd is the command line: one file a subcommand, each in four parts
// (constructor, options, flags, run). A command turns its flags into one call
// of the packages below and renders the answer. It holds no SQL and decides
// nothing about items.
//
// The files around the commands: root.go (the tree, usage errors), app.go
// (what a command is given), output.go (the only functions that print),
// exit.go (the only place that knows exit statuses), help.go, flags_*.go
// (groups of flags that commands share).
package cmd

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"batchq/jobs/fault"
)

// Main runs one command line (without the program's name) and returns the
// exit status.
func Main(args []string) int {
	return run(process{
		args:   args,
		stdin:  os.Stdin,
		stdout: os.Stdout,
		stderr: os.Stderr,
		getenv: os.Getenv,
		now:    fault.Now,
	})
}

func run(p process) int {
	// Notify, so that a reader that went away is an error to be handled
	// (EPIPE) and a file size limit too (EFBIG), where the default ends the
	// process. Not Ignore: children would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE, syscall.SIGXFSZ)
	a := newApp(p)
	root := newRoot(a)
	root.SetArgs(p.args)
	root.SetIn(p.stdin)
	root.SetOut(a.out.stdout)
	root.SetErr(a.out.stderr)
	return a.finish(root.ExecuteContext(context.Background()))
}
