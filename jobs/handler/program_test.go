package handler

import (
	"strings"
	"testing"

	"batchq/jobs"
)

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "sound.sh", "#!/bin/sh\n", 0o755)
	script(t, dir, "plain.sh", "#!/bin/sh\n", 0o644)
	script(t, dir, "windows.sh", "#!/bin/sh\r\n", 0o755)
	for _, c := range []struct {
		h    jobs.Handler
		want string
	}{
		{jobs.Handler{Command: []string{"./sound.sh", "{key}"}}, ""},
		{jobs.Handler{Command: []string{dir + "/sound.sh"}}, ""},
		{jobs.Handler{Command: []string{"sound.sh"}, Env: map[string]string{"PATH": dir}}, ""},
		{jobs.Handler{Command: []string{"{.program}"}}, ""},
		{jobs.Handler{Shell: "no-such-thing"}, ""},
		{jobs.Handler{Command: []string{"sh", "-c", "no-such-thing"}}, ""},
		{jobs.Handler{Command: []string{"sound.sh"}}, "sound.sh: not found in PATH"},
		{jobs.Handler{Command: []string{"./none.sh"}}, "./none.sh: no such file (in " + dir + ")"},
		{jobs.Handler{Command: []string{"./plain.sh"}}, "./plain.sh: not executable (chmod +x) (in " + dir + ")"},
		{jobs.Handler{Command: []string{"./windows.sh"}}, `./windows.sh: its interpreter "/bin/sh\r" does not exist (in ` + dir + ")"},
		{jobs.Handler{Command: []string{dir}}, dir + ": a directory, not a command"},
		{jobs.Handler{Command: []string{"true"}, Dir: dir + "/none"}, "directory " + dir + "/none: no such file"},
	} {
		if c.h.Dir == "" {
			c.h.Dir = dir
		}
		got, searched := Program(&jobs.Spec{Name: "j", Handler: c.h}, []string{"PATH=/bin:/usr/bin"})
		if got != c.want || (searched == "/bin:/usr/bin") != strings.Contains(c.want, "in PATH") {
			t.Errorf("%v %s: %q, want %q", c.h.Command, c.h.Shell, got, c.want)
		}
	}
}
