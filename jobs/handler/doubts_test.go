package handler

import (
	"slices"
	"testing"

	"batchq/jobs"
)

func TestDoubts(t *testing.T) {
	const argument = ` reads: an item with $(…) would be executed; give it as "$1": `
	const executed = ` reads: each item is executed as a command, whatever it says`
	command := func(argv ...string) jobs.Handler { return jobs.Handler{Command: argv} }
	for _, c := range []struct {
		handler jobs.Handler
		want    string // "": none
	}{
		// What a shell reads.
		{command("sh", "-c", "echo {}"), `{} stands in text that sh` + argument + `sh -c '… "$1"' sh {}`},
		{command("/bin/bash", "-euo", "pipefail", "-c", "echo '{.name}'"), `{.name} stands in text that bash` + argument + `bash -c '… "$1"' bash {.name}`},
		{command("bash", "--norc", "-lc", "echo {scope}"), `{scope} stands in text that bash` + argument + `bash -c '… "$1"' bash {scope}`},
		{command("busybox", "ash", "-c", "--", "echo {key}"), `{key} stands in text that ash` + argument + `ash -c '… "$1"' ash {key}`},
		{command("timeout", "5", "dash", "-c", "echo {}"), `{} stands in text that dash` + argument + `dash -c '… "$1"' dash {}`},
		{command("sh", "-c", "{}"), `{} is the whole text that sh` + executed},
		{jobs.Handler{Command: []string{"sh", "-c"}, AppendValue: true}, `{} is the whole text that sh` + executed},
		{command("sh", "-c", `echo "$1"`, "sh", "{}"), ""},
		{jobs.Handler{Command: []string{"sh", "-c", `echo "$1"`, "sh"}, AppendValue: true}, ""},
		{command("sh", "-c", "echo {job} {attempt} {other}"), ""},
		{command("sh", "script.sh", "-c", "{}"), ""},
		{command("sh", "-e", "{}"), ""},
		{command("echo", "-c", "{}"), ""},
		{command("sh", "-c"), ""},
		{command("sh"), ""},
		// What is none.
		{command("echo", "{kye}"), "{kye} is no placeholder and stays as it is; did you mean {key}?"},
		{command("echo", "{colour}"), "{colour} is no placeholder and stays as it is; a column or field is {.colour}"},
		{command("awk", "{print $1}", "{ }", "{", "}", "{}", "{.x}", "a{kye}"), ""},
		// A shell text has none.
		{jobs.Handler{Shell: "echo {key} $1"}, `{key} stays as it is in a shell text: the item is "$1"`},
		{jobs.Handler{Shell: "echo {}"}, `{} stays as it is in a shell text: the item is "$1"`},
		{jobs.Handler{Shell: "echo {.name}"}, `{.name} stays as it is in a shell text: the item is "$1", the rest is in the environment and on stdin`},
		{jobs.Handler{Shell: `find "$1" -exec rm {} +`}, ""},
		{jobs.Handler{Shell: `awk '{print $1}' "$1"`}, ""},
	} {
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if got := Doubts(&c.handler); !slices.Equal(got, want) {
			t.Errorf("%q %q:\ngot  %q\nwant %q", c.handler.Command, c.handler.Shell, got, want)
		}
	}
}
