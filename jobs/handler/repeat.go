package handler

import (
	"fmt"
	"slices"
	"strings"
)

// Call is what one attempt executes: enough for a person to do the same.
type Call struct {
	HTTP *Sent // an HTTP job's request: then the rest is empty
	Argv []string
	Dir  string // absolute; "": the run's own
	// Vars are NAME=VALUE: what the attempt adds to the run's environment or
	// replaces in it. BATCHQ_RESULT and BATCHQ_MARK are not among them: the file
	// is gone, and what bears a mark is taken for the attempt's own.
	Vars    []string
	Payload bool // the command reads the item's payload; else nothing
}

// Repeat says what Run would execute for an attempt, from the same code. The
// error says why there is nothing to execute: a placeholder without a value, a
// NUL byte, a job without a command.
func Repeat(a *Attempt) (Call, error) {
	if a.Spec.Handler.HTTP != nil {
		sent, err := sentBy(a)
		return Call{HTTP: sent}, err
	}
	argv, err := arguments(&a.Spec.Handler, a.Item)
	switch {
	case err != nil:
		return Call{}, err
	case len(argv) == 0 || argv[0] == "":
		return Call{}, fmt.Errorf("the job %s has no command", a.Spec.Name)
	}
	vars := attemptEnv(buildSpecEnv(nil, "", a.Spec).vars, a, "")
	vars = slices.DeleteFunc(vars, func(entry string) bool {
		return strings.HasPrefix(entry, "BATCHQ_RESULT=") || strings.HasPrefix(entry, "BATCHQ_MARK=")
	})
	for _, text := range slices.Concat(argv, vars, []string{a.Spec.Handler.Dir}) {
		if strings.IndexByte(text, 0) >= 0 {
			return Call{}, fmt.Errorf("%q holds a NUL byte, which neither an argument nor a variable can carry", text)
		}
	}
	return Call{Argv: argv, Dir: a.Spec.Handler.Dir, Vars: vars, Payload: readsPayload(a)}, nil
}
