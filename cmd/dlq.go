package cmd

import "github.com/spf13/cobra"

func newDLQ(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "Look at the dead-letter list: items set aside for a person",
		Example: `  batchq dlq list
  batchq dlq list --job pos --since yesterday
  batchq dlq show 1042
  batchq dlq export --job pos > pos.jsonl`,
	}
	group(c, exits{exitOK: "help was shown", exitUsage: ""})
	c.AddCommand(newDLQList(a))
	c.AddCommand(newDLQShow(a))
	c.AddCommand(newDLQExport(a))
	return c
}
