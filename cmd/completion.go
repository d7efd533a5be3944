package cmd

import (
	"io"

	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print a script that teaches a shell to complete batchq's words",
		Long: `Tab then completes commands, flags and their words, and the names of jobs, lanes
and scopes that the configuration and the database of the line know. It changes
nothing, makes no database, and says nothing where one can't be read. The script
for bash needs the package bash-completion.`,
		Example: `  source <(batchq completion bash)
  batchq completion zsh > "${fpath[1]}/_batchq"
  batchq completion fish > ~/.config/fish/completions/batchq.fish`,
	}
	group(c, exits{exitOK: "help was shown", exitUsage: ""})
	for _, s := range shells {
		c.AddCommand(newCompletionOf(a, s))
	}
	return c
}

// shells are those for which cobra can write a script.
var shells = []completionShell{
	{"bash", "  source <(batchq completion bash)\n  batchq completion bash > /etc/bash_completion.d/batchq",
		func(c *cobra.Command, w io.Writer) error { return c.GenBashCompletionV2(w, true) }},
	{"zsh", `  batchq completion zsh > "${fpath[1]}/_batchq"`, (*cobra.Command).GenZshCompletion},
	{"fish", "  batchq completion fish > ~/.config/fish/completions/batchq.fish",
		func(c *cobra.Command, w io.Writer) error { return c.GenFishCompletion(w, true) }},
	{"powershell", "  batchq completion powershell | Out-String | Invoke-Expression", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

type completionShell struct {
	name     string
	example  string
	generate func(root *cobra.Command, w io.Writer) error
}

func newCompletionOf(a *app, s completionShell) *cobra.Command {
	c := &cobra.Command{
		Use:               s.name,
		Short:             "Print the completion script for " + s.name,
		Example:           s.example,
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.out.result(func(w io.Writer) error { return s.generate(c.Root(), w) })
		},
	}
	setExits(c, exits{exitOK: "the script was printed", exitFailed: "it could not be written", exitUsage: ""})
	return c
}
