package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"batchq/report"
)

// watch shows how far a command has come: a bar where stderr is a terminal that
// can show one, and a line whenever somebody sends USR1. The function that it
// returns ends that. look, which may be nil, brings standing up to date; without
// bar there is only the line.
func (a *app) watch(standing func() report.Standing, look func(), bar bool) (stop func()) {
	// It stays for life: who asks a moment too late must not end the command.
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	w := report.Watch{Standing: standing, Look: look, Asked: asked, Say: func(line string) { a.out.must("%s", line) }}
	if f, ok := a.stderr.(*os.File); ok && bar && a.out.stderr.terminal && !a.out.quiet && a.getenv("TERM") != "dumb" {
		w.Terminal, w.Screen = f, a.out
	}
	return w.Start()
}
