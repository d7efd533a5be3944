package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"batchq/report"
	"batchq/store/sqlite"
)

func newVersion(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:               "version",
		Short:             "Say which batchq this is, and which databases it can open",
		Example:           "  batchq version\n  batchq version --json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return runVersion(a)
		},
	}
	setExits(c, exits{exitOK: "the version was shown", exitFailed: "it could not be written", exitUsage: ""})
	return c
}

func runVersion(a *app) error {
	v := report.Version{Version: buildVersion(), Schema: sqlite.Schema(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	v.Commit, v.Modified = buildCommit()
	if a.out.json {
		return a.out.document(v.Document())
	}
	return a.out.result(v.WriteText)
}

// buildVersion is the version that `go build` or `go install` stamped in.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// buildCommit is the commit that was built, "" where that was not stamped in,
// and whether the tree had changes.
func buildCommit() (commit string, modified bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	return commit, modified
}
