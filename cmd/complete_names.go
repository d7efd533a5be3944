package cmd

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/store/sqlite"
)

// offeredMost bounds what is offered of names that grow with the days: nobody
// reads more.
const offeredMost = 200

// completionWait is how long Tab waits for another program's lock. A reader
// waits for none, but for one that mends the file after a crash.
const completionWait = 200 * time.Millisecond

// peekNames reads names in the database that the command line means, if there is
// one: it creates nothing, migrates nothing, and says nothing.
func (a *app) peekNames(read func(ctx context.Context, db *sqlite.DB) ([]string, error)) []string {
	cfg, err := a.config()
	if err != nil {
		cfg = nil
		if a.global.db == "" && a.getenv("BATCHQ_DB") == "" {
			return nil // the broken file may name it
		}
	}
	path, _, err := config.DatabasePath(a.global.db, cfg, a.getenv)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	db, err := sqlite.Open(ctx, path, sqlite.Options{Now: a.now, Wait: completionWait})
	if err != nil {
		return nil
	}
	names, err := read(ctx, db)
	if db.Close() != nil || err != nil {
		return nil
	}
	return names
}

// declared is the configuration, or an empty one where it can't be read.
func (a *app) declared() *config.Config {
	if cfg, err := a.config(); err == nil {
		return cfg
	}
	return &config.Config{}
}

func (a *app) jobWords() []string {
	known := a.peekNames(func(ctx context.Context, db *sqlite.DB) ([]string, error) { return db.JobNames(ctx) })
	return append(slices.Clone(a.declared().Names), known...)
}

func (a *app) laneWords() []string {
	known := a.peekNames(func(ctx context.Context, db *sqlite.DB) ([]string, error) { return db.LaneNames(ctx) })
	cfg := a.declared()
	known = slices.AppendSeq(append(known, jobs.Serial), maps.Keys(cfg.Lanes))
	known = slices.AppendSeq(known, maps.Keys(cfg.Undeclared)) // work --lane takes these too
	return slices.Sorted(slices.Values(known))
}

// scopeWords offers the words that stand for a date, and the newest scopes of
// the jobs that the line names.
func (a *app) scopeWords(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	names, err := c.Flags().GetStringSlice("job")
	if err != nil || len(names) == 0 {
		names = nil
	}
	if c.Flags().Lookup("job") == nil && len(args) > 0 {
		names = args[:1] // enqueue JOB, work JOB, show JOB
	}
	known := a.peekNames(func(ctx context.Context, db *sqlite.DB) ([]string, error) {
		return db.ScopeNames(ctx, names, offeredMost)
	})
	// An @ of a scope's own is written twice.
	for i, name := range known {
		known[i] = strings.ReplaceAll(name, "@", "@@")
	}
	return fitting(append([]string{"@today", "@yesterday", "@hour"}, known...), typed), noFiles | cobra.ShellCompDirectiveKeepOrder
}

// commandWords offers programs of PATH for a name that has begun, and files
// where none fits, or where it is a path.
func (a *app) commandWords(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if typed == "" || strings.Contains(typed, "/") {
		return nil, files
	}
	var found []string
	for _, dir := range filepath.SplitList(a.getenv("PATH")) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), typed) && !e.IsDir() && unix.Access(filepath.Join(dir, e.Name()), unix.X_OK) == nil {
				found = append(found, e.Name())
			}
		}
	}
	slices.Sort(found)
	return fitting(found, typed), files
}

// fitting are the words that begin with what is typed, each once. One that a
// shell's protocol can't carry (a line feed, a tab) is left out.
func fitting(words []string, typed string) []string {
	found := []string{}
	for _, w := range words {
		plain := w != "" && utf8.ValidString(w) && strings.IndexFunc(w, unicode.IsControl) < 0
		if plain && strings.HasPrefix(w, typed) && !slices.Contains(found, w) {
			found = append(found, w)
		}
	}
	return found
}
