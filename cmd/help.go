package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/report"
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
	section("USAGE", "  "+usageOf(c))
	section("COMMANDS", commandList(c, helpWidth))
	if !c.HasParent() {
		section("TOPICS", topicList())
	}
	section("EXAMPLES", c.Example)
	section("FLAGS", flagList(c.LocalFlags(), helpWidth))
	section("GLOBAL FLAGS", flagList(c.InheritedFlags(), helpWidth))
	section("EXIT STATUS", c.Annotations[exitsKey])
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s COMMAND --help tells more about one", c.CommandPath())
		if !c.HasParent() {
			b.WriteString(", and batchq help TOPIC about a topic")
		}
		b.WriteString(".\n")
	}
	fmt.Fprint(c.OutOrStdout(), b.String())
}

// helpWidth is the width of the narrowest terminal that anybody still uses.
const helpWidth = 80

func commandList(c *cobra.Command, width int) string {
	names := 0
	for _, sub := range c.Commands() {
		names = max(names, len(sub.Name()))
	}
	var b strings.Builder
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, "  %-*s  %s\n", names, sub.Name(), report.Wrap(sub.Short, width, names+4, names+4))
		}
	}
	return b.String()
}

// newHelp is cobra's help command, with our topics, and except that what does
// not exist is a usage error.
func newHelp(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "help [COMMAND | TOPIC]",
		Short: "Show the help of a command or a topic",
		Long: `Shows what batchq COMMAND --help shows, or one of these topics:

` + topicList(),
		Example:           "  batchq help enqueue\n  batchq help dlq list\n  batchq help exit-codes",
		ValidArgsFunction: firstArg(helpWords, then(noFiles)),
		RunE: func(c *cobra.Command, args []string) error {
			return runHelp(a, c.Root(), args)
		},
	}
	setExits(c, exits{exitOK: "the help was shown", exitFailed: "it could not be written", exitUsage: ""})
	return c
}

func runHelp(a *app, root *cobra.Command, args []string) error {
	if len(args) == 1 {
		if t := topicCalled(args[0]); t != nil {
			return a.out.result(func(w io.Writer) error {
				_, err := io.WriteString(w, t.page())
				return err
			})
		}
	}
	command, rest, err := root.Find(args)
	if err != nil || len(rest) > 0 {
		return unknownHelp(root, args)
	}
	command.InitDefaultHelpFlag()
	return command.Help()
}

// unknownHelp is the error of who asks about what is neither a command nor a
// topic, with the one that was probably meant.
func unknownHelp(root *cobra.Command, args []string) error {
	err := usagef("there is no command or topic %q", strings.Join(args, " "))
	var known []string
	for _, t := range topics {
		known = append(known, t.name)
	}
	for _, sub := range root.Commands() {
		known = append(known, sub.Name())
	}
	if near := jobs.Nearest(args[0], known); near != "" && len(args) == 1 {
		return withHint(err, "did you mean batchq help %s?", near)
	}
	return withHint(err, "batchq --help lists them")
}

// flagList lists flags with what they take. A default stands in brackets, as in
// the texts of those whose default is elsewhere: pflag's own "(default 30s)" says
// no more.
func flagList(flags *pflag.FlagSet, width int) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	shown.SortFlags = flags.SortFlags
	flags.VisitAll(func(f *pflag.Flag) {
		one := *f
		switch f.DefValue {
		case "", "0", "false", "[]":
		default:
			one.Usage, one.DefValue = one.Usage+" ("+f.DefValue+")", "0" // none, for all but text
			if f.Value.Type() == "string" {
				one.DefValue = ""
			}
		}
		shown.AddFlag(&one)
	})
	return shown.FlagUsagesWrapped(width)
}
