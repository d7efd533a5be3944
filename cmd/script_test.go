package cmd

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts in testdata/script are the specification of the command line.
//
// They know these commands beside testscript's own:
//
//	exits CODE CMD ARGS…    runs CMD and wants exactly this exit status
//	act JOB KEY WHAT [TEXT] does to an item what a run would: claim, start,
//	                        done, dead or delayed (TEXT is the reason); the
//	                        KEY * is the first ready item
//	nginx RATE BURST        serves one file at $API, RATE times a second and
//	                        BURST at once, and answers 429 to the rest
//	api                     serves orders at $API, some of them not at once
//
// With BATCHQ_TEST_NOW (RFC 3339) set, the wall clock stands still there, for
// batchq and for act. Only this test's binary obeys it.
var update = flag.Bool("update", false, "write what the commands print into the scripts")

func TestMain(m *testing.M) {
	// Under nohup, or in the background of a script, signals that tests send would
	// be ignored by all that they start. What is handled here is as usual there.
	if filepath.Base(os.Args[0]) != "batchq" {
		for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
			if signal.Ignored(sig) {
				signal.Notify(make(chan os.Signal, 1), sig)
			}
		}
		flag.Parse()
		widen()
	}
	testscript.Main(m, map[string]func(){
		"batchq": func() {
			os.Exit(run(process{args: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
				getenv: os.Getenv, now: clockFrom(os.Getenv)}))
		},
	})
}

// widen lets twice as many tests run side by side as there are processors,
// unless the command line says how many: most of a test's time here is spent
// waiting for other processes, for a lease, for a backoff.
func widen() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// clockFrom is the clock that a script asks for.
func clockFrom(getenv func(string) string) func() time.Time {
	text := getenv("BATCHQ_TEST_NOW")
	if text == "" {
		return time.Now
	}
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return now.Local() }
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "../testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exitsCommand,
			"act":   actCommand,
			"api":   apiCommand,
			"nginx": nginxCommand,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("TZ", "UTC")
			env.Setenv("HOME", env.WorkDir+"/home")
			env.Setenv("BATCHQ_DB", env.WorkDir+"/q.db")
			// Under -race every process sleeps for a second before its end.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}

func exitsCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE CMD ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func actCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: act JOB KEY WHAT [TEXT]")
	}
	reason := ""
	if len(args) == 4 {
		reason = args[3]
	}
	ts.Check(act(ts.Getenv("BATCHQ_DB"), clockFrom(ts.Getenv), args[0], args[1], args[2], reason))
}
