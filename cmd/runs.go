package cmd

import "github.com/spf13/cobra"

func newRuns(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "runs",
		Short: "Look at past and present runs",
		Long: `A run is one batchq work process. Each stands in the database with what it did
and how it ended.`,
		Example: `  batchq runs list
  batchq runs list --since yesterday --limit 0`,
	}
	group(c, exits{exitOK: "help was shown", exitUsage: ""})
	c.AddCommand(newRunsList(a))
	return c
}
