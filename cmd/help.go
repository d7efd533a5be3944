package cmd

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exitsKey is where a command keeps its EXIT STATUS text.
const exitsKey = "batchq exit status"

// setExits declares the statuses that c can end with.
func setExits(c *cobra.Command, e exits) {
	c.Annotations = map[string]string{exitsKey: e.text()}
}

// help prints a command's help on stdout. It is a function and not a template
// because text/template adds 2 MB to the binary.
func help(c *cobra.Command, _ []string) {
	var b strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			fmt.Fprintf(&b, "\n%s\n%s\n", title, text)
		}
	}
	b.WriteString(c.Short + ".\n")
	if c.Long != "" {
		b.WriteString("\n" + strings.TrimSpace(c.Long) + "\n")
	}
	usage := c.UseLine()
	if c.HasAvailableSubCommands() {
		usage = c.CommandPath() + " COMMAND"
	}
	section("USAGE", "  "+usage)
	section("COMMANDS", commandList(c))
	section("EXAMPLES", c.Example)
	section("FLAGS", c.LocalFlags().FlagUsagesWrapped(helpWidth))
	section("GLOBAL FLAGS", c.InheritedFlags().FlagUsagesWrapped(helpWidth))
	section("EXIT STATUS", c.Annotations[exitsKey])
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells more about one.\n", c.CommandPath())
	}
	fmt.Fprint(c.OutOrStdout(), b.String())
}

// helpWidth is the width of the narrowest terminal that anybody still uses.
const helpWidth = 80

func commandList(c *cobra.Command) string {
	width := 0
	for _, sub := range c.Commands() {
		width = max(width, len(sub.Name()))
	}
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, sub.Name(), sub.Short)
		}
	}
	return b.String()
}

// newHelp is cobra's help command, except that a topic which does not exist
// is a usage error.
func newHelp() *cobra.Command {
	c := &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "Show the help of a command",
		Example:           "  batchq help enqueue\n  batchq help dlq list",
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			topic, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return withHint(usagef("there is no command %q", strings.Join(args, " ")), "batchq --help lists the commands")
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
	setExits(c, exits{exitOK: "the help was shown", exitUsage: ""})
	return c
}
