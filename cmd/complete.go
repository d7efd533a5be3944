package cmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"batchq/jobs"
	"batchq/jobs/input"
	"batchq/report"
	"batchq/store"
)

// What Tab offers: words of ours, and names that the configuration and the
// database know. The tables here go by the names of commands and flags, so that
// a flag means the same wherever it stands, and a new one of an old name is
// completed at once. A shell asks in the middle of somebody's typing: whatever
// goes wrong, nothing is offered and nothing is said.

// offer is a completion: the words that fit what is typed, and whether the
// shell goes on with files.
type offer = func(c *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

const (
	noFiles = cobra.ShellCompDirectiveNoFileComp
	files   = cobra.ShellCompDirectiveDefault
)

// offerNames gives every command and flag below root what Tab offers for it.
func offerNames(a *app, root *cobra.Command) {
	arguments, flags := argumentOffers(a), flagOffers(a)
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if by := arguments[c.CommandPath()]; by != nil {
			c.ValidArgsFunction = by
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			by := flags[f.Name]
			if by == nil {
				by = offerOf(f)
			}
			if _, there := c.GetFlagCompletionFunc(f.Name); by != nil && !there {
				if err := c.RegisterFlagCompletionFunc(f.Name, by); err != nil {
					panic(err) // it is there, and has none
				}
			}
		})
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

// argumentOffers are for commands whose arguments are names.
func argumentOffers(a *app) map[string]offer {
	jobNames := anyOf(a.jobWords)
	return map[string]offer{
		"batchq enqueue": firstArg(jobNames, then(files)),
		"batchq run":     beforeDash(a, firstArg(jobNames, then(files)), a.commandWords),
		"batchq work":    beforeDash(a, others(jobNames), a.commandWords),
		"batchq pause":   others(jobNames),
		"batchq resume":  others(jobNames),
		"batchq show":    firstArg(jobNames, then(noFiles)),
		"batchq init":    firstArg(then(files), then(noFiles)),
		"batchq man":     firstArg(then(cobra.ShellCompDirectiveFilterDirs), then(noFiles)),
	}
}

// flagOffers are for flags whose values are names or words.
func flagOffers(a *app) map[string]offer {
	return map[string]offer{
		"job":          several(anyOf(a.jobWords)),
		"lane":         anyOf(a.laneWords),
		"scope":        a.scopeWords,
		"state":        several(stateWords),
		"class":        fixed(jobs.SetAside()...),
		"by":           fixed(report.GroupsBy()...),
		"format":       fixed(input.Formats()...),
		"on-duplicate": fixed(onDuplicates...),
		"since":        fixed("today", "yesterday", "1h", "24h", "7d"),
	}
}

// stateWords offers those states that the command does not refuse.
func stateWords(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	states := jobs.States()
	switch c.CommandPath() {
	case "batchq requeue":
		states = requeued
	case "batchq drop":
		states = droppable
	case "batchq prune":
		states = prunable
	}
	return fixed(states...)(c, args, typed)
}

// onDuplicates are the ways of --on-duplicate.
var onDuplicates = []store.OnDuplicate{store.Skip, store.Replace, store.Requeue, store.Fail}

// offerOf is what a flag without names of its own takes, by the word that help
// shows for it: a file, a directory, or what only a person knows.
func offerOf(f *pflag.Flag) offer {
	switch what, _ := pflag.UnquoteUsage(f); what {
	case "", "FILE":
		return nil // a switch, or files, which is what shells do by themselves
	case "DIR":
		return then(cobra.ShellCompDirectiveFilterDirs)
	}
	return then(noFiles)
}

// then offers nothing of ours.
func then(d cobra.ShellCompDirective) offer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) { return nil, d }
}

// anyOf offers those of a list that fit.
func anyOf(of func() []string) offer {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return fitting(of(), typed), noFiles
	}
}

// fixed offers words that never change.
func fixed[T any](of ...T) offer { return anyOf(func() []string { return texts(of) }) }

// firstArg offers one thing for the first argument, and another for the rest.
func firstArg(one, rest offer) offer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return one(c, args, typed)
		}
		return rest(c, args, typed)
	}
}

// others leaves out what is there already.
func others(by offer) offer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		found, d := by(c, args, typed)
		return slices.DeleteFunc(found, func(w string) bool { return slices.Contains(args, w) }), d
	}
}

// several completes the last of several words between commas.
func several(by offer) offer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := strings.LastIndexByte(typed, ',') + 1
		found, d := by(c, args, typed[at:])
		for i, w := range found {
			found[i] = typed[:at] + w
		}
		return found, d
	}
}

// beforeDash offers names before --, and after it a command: first its name,
// then files.
func beforeDash(a *app, names, command offer) offer {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		// The command line itself: cobra's own parsing ends with a -- of its own.
		line := a.args[:max(0, len(a.args)-1)]
		switch dash := slices.Index(line, "--"); {
		case dash < 0:
			return names(c, args, typed)
		case dash < len(line)-1:
			return nil, files
		}
		return command(c, args, typed)
	}
}

// helpWords offers commands and topics.
func helpWords(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var known []string
	for _, sub := range c.Root().Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	for _, t := range topics {
		known = append(known, t.name)
	}
	return fitting(known, typed), noFiles
}

// texts is a list of words as strings.
func texts[T any](of []T) []string {
	var out []string
	for _, w := range of {
		out = append(out, fmt.Sprint(w))
	}
	return out
}
