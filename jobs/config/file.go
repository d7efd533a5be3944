package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// maxFile bounds a configuration: a file of more is not one.
const maxFile = 1 << 20

// Load reads, checks and parses the file at path (see Parse for what path is
// used for). An empty path stands for no file, and gives the defaults. The
// file must belong to the effective user or root and be writable by nobody
// else: who writes it says which programs run.
func Load(path string) (*Config, error) {
	if path == "" {
		return none(), nil
	}
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

func read(path string) ([]byte, error) {
	// Not to wait for ever for the writer of a named pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("can't read the configuration: %w", err)
	}
	defer f.Close()
	// What is asked is the open file, not the path, which may change meanwhile.
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("can't read the configuration: %w", err)
	}
	if err := trusted(path, info.Mode(), owner(info), os.Geteuid()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("can't read the configuration: %w", err)
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than 1 MiB: that is no configuration", path)
	}
	return data, nil
}

// trusted says why a file with this mode and owner must not be obeyed by euid.
func trusted(path string, mode fs.FileMode, uid, euid int) error {
	switch {
	case mode.IsDir():
		return fmt.Errorf("%s is a directory: a configuration is a file", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file: a configuration must be one", path)
	case uid != euid && uid != 0:
		return fmt.Errorf("%s belongs to user %d, neither to you (user %d) nor to root: it is not obeyed, since it says which programs run", path, uid, euid)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others (mode %04o), and it says which programs run: type `chmod go-w %s`", path, mode.Perm(), shellWord(path))
	}
	return nil
}

// owner returns the user who owns a file.
func owner(info fs.FileInfo) int {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1 // nobody's: refused
}

// shellWord quotes s so that it can be pasted into a shell.
func shellWord(s string) string {
	plain := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("/._-+:@%", c)
	}
	if s != "" && s[0] != '-' && strings.IndexFunc(s, func(c rune) bool { return !plain(c) }) < 0 {
		return s
	}
	if s != "" && s[0] == '-' {
		s = "./" + s // chmod would take it for an option
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
