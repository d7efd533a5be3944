package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"batchq/report"
)

func newMan(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of every command, and of batchq.toml",
		Long: `DIR is the root of a manual, as man -M takes it. It gets man1/batchq.1, a page
beside it for every command (batchq-enqueue.1, batchq-dlq-list.1, …) and
man5/batchq.toml.5. Directories that are not there are made, pages that are
there are replaced.

They say what --help says. The same program writes the same bytes: the date on
them is $SOURCE_DATE_EPOCH, else that of the commit that was built, else none.`,
		Example: `  batchq man ~/.local/share/man && man batchq-enqueue
  batchq man pages && man -M pages batchq.toml`,
		Args: func(c *cobra.Command, args []string) error {
			if err := atLeastOne("a DIR")(c, args); err != nil || len(args) == 1 {
				return err
			}
			return noArgs(c, args[1:])
		},
		RunE: func(c *cobra.Command, args []string) error {
			return runMan(a, c.Root(), args[0])
		},
	}
	setExits(c, exits{exitOK: "the pages are written", exitFailed: "they can't be written", exitUsage: ""})
	return c
}

func runMan(a *app, root *cobra.Command, dir string) error {
	date, err := manDate(a.getenv)
	if err != nil {
		return err
	}
	pages := append(commandPages(root), configPage())
	if base := filepath.Base(dir); base == "man1" || base == "man5" {
		return withHint(usagef("%s is one section of a manual, and the pages are of two: want the directory above it", dir),
			"batchq man %s", shellWord(filepath.Dir(dir)))
	}
	var names []string
	for _, p := range pages {
		p.Date, p.Source = date, "batchq "+buildVersion()
		name := fmt.Sprintf("man%d/%s.%d", p.Section, p.Name, p.Section)
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			return err
		}
		// Manuals are for everybody to read.
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.Roff()), 0o644); err != nil {
			return err
		}
		names = append(names, name)
	}
	if a.out.json {
		return a.out.document(report.NewWritten(dir, names))
	}
	a.out.summary("wrote %s to %s", count(len(names), "page"), dir)
	return nil
}

// manDate is the day on the pages, in UTC: see
// https://reproducible-builds.org/specs/source-date-epoch/
func manDate(getenv func(string) string) (string, error) {
	if text := getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 || seconds > 1<<36 {
			return "", usagef("$SOURCE_DATE_EPOCH is %q: want seconds since 1970", text)
		}
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", nil
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.time" && len(s.Value) >= len(time.DateOnly) {
			return s.Value[:len(time.DateOnly)], nil
		}
	}
	return "", nil
}

// commandPages are the pages of c and of all below it.
func commandPages(c *cobra.Command) []*report.ManPage {
	pages := []*report.ManPage{commandPage(c)}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			pages = append(pages, commandPages(sub)...)
		}
	}
	return pages
}

// manWidth is what is left of a line beside the margin that man leaves.
const manWidth = 72

// narrower wraps a list of exit statuses again, for a page.
func narrower(statuses string) string {
	const indent = "       " // of a meaning's second line
	var b strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(statuses, "\n"+indent, " ")) {
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), "  ")
		fmt.Fprintf(&b, "  %3s  %s\n", code, report.Wrap(meaning, manWidth, len(indent), len(indent)))
	}
	return b.String()
}

func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// commandPage says of a command what its help says.
func commandPage(c *cobra.Command) *report.ManPage {
	c.InitDefaultHelpFlag()
	p := &report.ManPage{Name: pageName(c), Section: 1, Short: c.Short, Synopsis: usageOf(c)}
	p.Add("DESCRIPTION", c.Long)
	p.Add("COMMANDS", commandList(c, manWidth))
	p.Add("OPTIONS", flagList(c.LocalFlags(), manWidth))
	p.Add("GLOBAL OPTIONS", flagList(c.InheritedFlags(), manWidth))
	p.Add("EXAMPLES", c.Example)
	p.Add("EXIT STATUS", narrower(c.Annotations[exitsKey]))
	var also []string
	if c.HasParent() {
		also = append(also, pageName(c.Parent())+"(1)")
	} else {
		p.Add("ENVIRONMENT", environmentText(manWidth))
		p.Add("INPUT", inputText(manWidth))
		p.Add("A COMMAND'S EXIT CODE", commandCodesText(manWidth))
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, pageName(sub)+"(1)")
		}
	}
	p.Add("SEE ALSO", strings.Join(append(also, "batchq.toml(5)"), ", "))
	return p
}

// usageOf is the line that shows how c is called.
func usageOf(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND"
	}
	return c.UseLine()
}

// configPage is the manual page of the configuration file.
func configPage() *report.ManPage {
	p := &report.ManPage{Name: "batchq.toml", Section: 5, Short: "configuration of batchq: jobs, lanes, pools and limits"}
	p.Add("DESCRIPTION", configIntro)
	for _, table := range keyTables(manWidth) {
		p.Add(table.title, strings.Join(table.lines, "\n"))
	}
	p.Add("SEE ALSO", "batchq(1), batchq-check(1), batchq-init(1)")
	return p
}
