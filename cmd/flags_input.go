package cmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"batchq/jobs/input"
)

// inputFlags say where records come from and how they are cut.
type inputFlags struct {
	flags   *pflag.FlagSet
	nul     bool
	format  string
	key     []string
	columns []string
	items   []string
}

func (i *inputFlags) register(f *pflag.FlagSet) {
	i.flags = f
	f.BoolVarP(&i.nul, "null", "0", false, "items end with a NUL instead of a newline, as find -print0 writes them")
	f.StringVar(&i.format, "format", "", "`FORMAT` of the input: lines, nul, csv, tsv, jsonl, or export for what dlq export wrote; else the file's extension says it, else lines")
	f.StringSliceVar(&i.key, "key", nil, "the `FIELD`[,FIELD] that tell one item from another; for csv, tsv and jsonl")
	f.StringSliceVar(&i.columns, "columns", nil, "the `NAME`[,NAME] of the columns, for a csv or tsv without a header row")
	f.StringArrayVar(&i.items, "item", nil, "one item, the `VALUE` itself (repeatable)")
}

// exported says whether the records are those of an export, which bring what
// flags would say of others.
func (i *inputFlags) exported() bool { return i.format == string(input.Export) }

// list returns the list that the flags and files describe for a job; "-" is
// stdin, and so is naming nothing at all. It looks at every file first, so that a slip in
// the last name does not leave half of a list behind.
func (i *inputFlags) list(job string, files []string, stdin io.Reader) (*list, error) {
	if err := exclusive(i.flags, "null", "format"); err != nil {
		return nil, err
	}
	if len(files) == 0 && len(i.items) == 0 {
		files = []string{stdinName}
	}
	l := &list{stdin: stdin}
	for _, item := range i.items {
		if item == "" {
			return nil, usagef("--item: a key is never empty")
		}
		l.items = append(l.items, []byte(item))
	}
	if len(files) == 0 && (i.flags.Changed("format") || i.nul || len(i.key)+len(i.columns) > 0) {
		return nil, usagef("--item takes the value as it stands: --format, -0, --key and --columns go with files or standard input")
	}
	if i.exported() && len(i.items) > 0 {
		return nil, usagef("--item and --format export exclude each other: a record of an export brings its own scope and priority")
	}
	for _, name := range files {
		o, err := i.optionsFor(job, name)
		if err != nil {
			return nil, err
		}
		if name == stdinName && l.readsStdin() {
			return nil, usagef("- is there twice: standard input can be read once")
		}
		l.files = append(l.files, inputFile{name, o})
	}
	known := len(i.items) == 0
	for _, f := range l.files {
		size, err := f.look()
		if err != nil {
			return nil, err
		}
		l.size += size
		known = known && size > 0
	}
	if !known {
		l.size = 0
	}
	return l, nil
}

// stdinName is how standard input is called among files.
const stdinName = "-"

func (i *inputFlags) optionsFor(job, file string) (input.Options, error) {
	o := input.Options{Job: job, Key: i.key, Columns: i.columns}
	if file != stdinName {
		o.Name, o.Format = file, input.FormatOf(file)
	}
	switch {
	case i.nul:
		o.Format = input.NUL
	case i.format != "":
		format, err := input.ParseFormat(i.format)
		if err != nil {
			return o, meant(usagef("--format: %w", err), i.format, texts(input.Formats()))
		}
		o.Format = format
	}
	// It reads nothing yet: its errors are about the options.
	if _, err := input.NewReader(strings.NewReader(""), o); err != nil {
		return o, usagef("%w", err)
	}
	return o, nil
}

// inputFile is one file of a list.
type inputFile struct {
	name    string
	options input.Options
}

// look says whether the file can be read, as far as that can be told without
// reading: opening a named pipe would wait for its writer. size is 0 where it
// is not known.
func (f inputFile) look() (size int64, err error) {
	if f.name == stdinName {
		return 0, nil
	}
	info, err := os.Stat(f.name)
	switch {
	case err != nil:
		return 0, unreadable(f.name, err)
	case info.IsDir():
		return 0, fmt.Errorf("%s is a directory: name the files in it", f.name)
	case !info.Mode().IsRegular():
		return 0, nil
	}
	r, err := os.Open(f.name)
	if err != nil {
		return 0, unreadable(f.name, err)
	}
	return info.Size(), r.Close()
}

// unreadable names the file once; os puts it into the error too.
func unreadable(name string, err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("can't read %s: %w", name, err)
}
