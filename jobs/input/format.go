package input

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Format says how an input is cut into records.
type Format string

const (
	Lines Format = "lines" // one key a line
	NUL   Format = "nul"   // keys that end with a NUL, as find -print0 writes them
	CSV   Format = "csv"   // RFC 4180
	TSV   Format = "tsv"   // IANA text/tab-separated-values: no quoting
	JSONL Format = "jsonl" // one JSON object a line
	// Export is what dlq export writes: JSON Lines with keys, payloads, scopes
	// and priorities of their own. No file's extension says it.
	Export Format = "export"
)

// Formats lists every format in the order in which help texts show them.
func Formats() []Format { return []Format{Lines, NUL, CSV, TSV, JSONL, Export} }

// ParseFormat returns the format called name, or an error that lists the names.
func ParseFormat(name string) (Format, error) {
	if f := Format(name); slices.Contains(Formats(), f) {
		return f, nil
	}
	return "", fmt.Errorf("no format %q: want one of %v", name, Formats())
}

// FormatOf returns the format that a file's extension says, else Lines.
func FormatOf(filename string) Format {
	switch strings.ToLower(filepath.Ext(filename)) {
	case ".csv":
		return CSV
	case ".tsv":
		return TSV
	case ".jsonl", ".ndjson":
		return JSONL
	}
	return Lines
}

// DefaultMaxRecord is far above any sensible target and far below what would
// endanger the machine: a forgotten quote must not read a whole file into memory.
const DefaultMaxRecord = 64 << 20

// maxColumns bounds what a header of nothing but commas can take. SQLite
// stops at 32,767 columns, spreadsheets at 16,384.
const maxColumns = 1 << 16

// Options says how an input is to be read.
type Options struct {
	Format    Format   // "": Lines
	Key       []string // the fields that make the key; for csv, tsv and jsonl
	Columns   []string // names the columns of a csv or tsv that has no header row
	Name      string   // for messages; "": stdin
	Job       string   // the job whose records are meant; for export, which names it in each
	MaxRecord int      // bytes; 0: DefaultMaxRecord, and for export four times that
}

func (o Options) withDefaults() Options {
	if o.Format == "" {
		o.Format = Lines
	}
	if o.Name == "" {
		o.Name = "stdin"
	}
	if o.MaxRecord == 0 && o.Format == Export {
		o.MaxRecord = maxExported
	}
	if o.MaxRecord == 0 {
		o.MaxRecord = DefaultMaxRecord
	}
	return o
}

func (o Options) validate() error {
	if !slices.Contains(Formats(), o.Format) {
		return fmt.Errorf("no format %q: want one of %v", o.Format, Formats())
	}
	if o.MaxRecord < 0 {
		return fmt.Errorf("the longest record is %d bytes: want more than 0", o.MaxRecord)
	}
	keyed := o.Format == CSV || o.Format == TSV || o.Format == JSONL
	switch {
	case o.Format == JSONL && len(o.Key) == 0:
		return errors.New("jsonl needs --key FIELD[,FIELD]: the fields that tell one item from another; what dlq export wrote is read with --format export")
	case keyed && len(o.Key) == 0:
		return fmt.Errorf("%s needs --key FIELD[,FIELD]: the fields that tell one item from another", o.Format)
	case o.Format == Export && len(o.Key)+len(o.Columns) > 0:
		return errors.New("--key and --columns go with csv, tsv or jsonl: each record of an export brings its own key")
	case o.Format == Export && o.Job == "":
		return errors.New("an export needs a job: the one whose records are meant")
	case !keyed && len(o.Key) > 0:
		return fmt.Errorf("--key goes with csv, tsv or jsonl: in %s the whole record is the key", o.Format)
	case len(o.Columns) > 0 && o.Format != CSV && o.Format != TSV:
		return fmt.Errorf("--columns goes with csv or tsv, not with %s", o.Format)
	}
	if err := distinct(o.Key); err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	if len(o.Columns) == 0 {
		return nil
	}
	if n := len(o.Columns); n > maxColumns {
		return fmt.Errorf("--columns: %d names, at most %d are taken", n, maxColumns)
	}
	if err := distinct(o.Columns); err != nil {
		return fmt.Errorf("--columns: %w", err)
	}
	if err := allUTF8(o.Columns); err != nil {
		return fmt.Errorf("--columns: %w", err)
	}
	if _, err := positions(o.Key, o.Columns); err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	return nil
}

// distinct says which of names is empty or there twice.
func distinct(names []string) error {
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("name %d of %d is empty", i+1, len(names))
		}
		if seen[name] {
			return fmt.Errorf("%q is there twice", name)
		}
		seen[name] = true
	}
	return nil
}

// positions finds each key among the columns.
func positions(key, columns []string) ([]int, error) {
	at := make([]int, len(key))
	for i, name := range key {
		at[i] = slices.Index(columns, name)
		if at[i] < 0 {
			return nil, errors.New(missing(name, columns))
		}
	}
	return at, nil
}

// missing says that there is no such column, which there are, and which was
// probably meant.
func missing(name string, columns []string) string {
	const shown = 20
	var b strings.Builder
	fmt.Fprintf(&b, "no column %q; there is ", name)
	for i, column := range columns[:min(shown, len(columns))] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", column)
	}
	if more := len(columns) - shown; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	near := slices.IndexFunc(columns, func(c string) bool { return bare(c) == bare(name) })
	if near >= 0 && bare(name) != "" {
		fmt.Fprintf(&b, "; did you mean %q?", columns[near])
	}
	return b.String()
}

// bare is a name without what people get wrong in names: case, spaces,
// underscores, hyphens.
func bare(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "", "\t", "").Replace(strings.ToLower(name))
}
