package report

import (
	"fmt"
	"io"
)

// Version says which program this is.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified"` // the commit had changes on top
	Schema   int    `json:"database_schema"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// Document is what --json prints.
func (v Version) Document() any {
	return struct {
		SchemaVersion int `json:"schema_version"`
		Version
	}{SchemaVersion, v}
}

// WriteText writes it for people.
func (v Version) WriteText(w io.Writer) error {
	commit := v.Commit
	if commit != "" && v.Modified {
		commit += " with changes"
	}
	if commit != "" {
		commit = " (" + commit + ")"
	}
	_, err := fmt.Fprintf(w, "batchq %s%s\ndatabase schema %d\n%s %s/%s\n", v.Version, commit, v.Schema, v.Go, v.OS, v.Arch)
	return err
}
