package cmd

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"batchq/jobs/input"
	"batchq/store"
)

// list is the records that a command line names, one after another: values,
// then files. It is a store.Source.
type list struct {
	items [][]byte
	files []inputFile
	stdin io.Reader

	given   int // items handed out
	current *input.Reader
	name    string // of current
	close   func() error

	size int64        // of all files together, in bytes; 0: nobody knows
	read atomic.Int64 // of it
}

// share is how much of the list has been read, 0 to 1; 0 also where nobody knows.
func (l *list) share() float64 {
	if l.size == 0 {
		return 0
	}
	return min(1, float64(l.read.Load())/float64(l.size))
}

// counted counts what is read of a list.
type counted struct {
	io.Reader
	list *list
	end  error // once the end is read, it stays: a terminal would ask for it again
}

func (c *counted) Read(p []byte) (n int, err error) {
	if c.end != nil {
		return 0, c.end
	}
	n, c.end = c.Reader.Read(p)
	c.list.read.Add(int64(n))
	return n, c.end
}

func (l *list) readsStdin() bool {
	return slices.ContainsFunc(l.files, func(f inputFile) bool { return f.name == stdinName })
}

// readsTerminal says whether a person would have to type the records.
func (l *list) readsTerminal() bool {
	f, ok := l.stdin.(*os.File)
	return ok && l.readsStdin() && term.IsTerminal(int(f.Fd()))
}

// inBackground says whether the terminal would have to be typed at by a person
// who has put the command into the background: a read would stop it, so that
// not even a signal could end it.
func (l *list) inBackground() bool {
	if !l.readsTerminal() {
		return false
	}
	group, err := unix.IoctlGetInt(int(l.stdin.(*os.File).Fd()), unix.TIOCGPGRP)
	return err == nil && group != unix.Getpgrp()
}

func (l *list) Next() (store.Record, error) {
	if l.given < len(l.items) {
		l.given++
		return store.Record{Key: l.items[l.given-1], Where: store.Where{Name: "--item", Line: int64(l.given)}}, nil
	}
	for {
		if l.current == nil {
			if err := l.open(); err != nil {
				return store.Record{}, err
			}
		}
		rec, err := l.current.Next()
		var rejected *input.Rejected
		var unusable *input.Unusable
		switch {
		case err == nil:
			return store.Record{Key: rec.Key, Payload: rec.Payload, Scope: rec.Scope, Priority: rec.Priority,
				Where: store.Where{Name: l.name, Line: rec.Line}}, nil
		case err == io.EOF:
			if err := l.next(); err != nil {
				return store.Record{}, err
			}
		case errors.As(err, &rejected):
			return store.Record{}, &store.Rejected{Where: store.Where{Name: l.name, Line: rejected.Line}, Reason: rejected.Reason}
		case errors.As(err, &unusable):
			return store.Record{}, err
		default:
			return store.Record{}, unreadable(l.name, err)
		}
	}
}

// open begins the next file; io.EOF when there is none.
func (l *list) open() error {
	if len(l.files) == 0 {
		return io.EOF
	}
	f := l.files[0]
	in, name := l.stdin, "stdin"
	l.close = func() error { return nil }
	if f.name != stdinName {
		file, err := os.Open(f.name)
		if err != nil {
			return unreadable(f.name, err)
		}
		in, name, l.close = file, f.name, file.Close
	}
	r, err := input.NewReader(&counted{Reader: in, list: l}, f.options)
	if err != nil {
		return err
	}
	l.current, l.name = r, name
	return nil
}

// next ends the current file.
func (l *list) next() error {
	err := l.close()
	l.current, l.files = nil, l.files[1:]
	if err != nil {
		return unreadable(l.name, err)
	}
	return nil
}
