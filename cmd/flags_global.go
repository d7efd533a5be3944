package cmd

import "github.com/spf13/pflag"

// globalFlags are those that every command has.
type globalFlags struct {
	db      string
	config  string
	json    bool
	quiet   bool
	verbose bool
	noColor bool
}

func (g *globalFlags) register(f *pflag.FlagSet) {
	f.StringVar(&g.db, "db", "", "the database `FILE` (else $BATCHQ_DB, else database in batchq.toml)")
	f.StringVar(&g.config, "config", "", "the configuration `FILE` (else $BATCHQ_CONFIG, else ./batchq.toml, …)")
	f.BoolVar(&g.json, "json", false, "print the result as one JSON document")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "say only what a person must see")
	f.BoolVarP(&g.verbose, "verbose", "v", false, "say more")
	f.BoolVar(&g.noColor, "no-color", false, "no colours (also: NO_COLOR in the environment)")
}
