package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The system's own configuration, the last place that is looked at.
const systemFile = "/etc/batchq/" + FileName

// Find returns the path of the configuration to load: flag (--config), else
// $BATCHQ_CONFIG, else the first that exists of ./batchq.toml,
// $XDG_CONFIG_HOME/batchq/batchq.toml (~/.config where that is unset) and
// /etc/batchq/batchq.toml; "" when there is none. A file that was asked for
// and does not exist is an error, and so is one that can't be looked at.
func Find(flag string, getenv func(string) string) (path string, err error) {
	return find(flag, getenv, systemFile)
}

func find(flag string, getenv func(string) string, system string) (string, error) {
	for _, asked := range []struct{ path, source string }{{flag, "--config"}, {getenv("BATCHQ_CONFIG"), "$BATCHQ_CONFIG"}} {
		if asked.path == "" {
			continue
		}
		exists, err := stat(asked.path)
		if err == nil && !exists {
			err = errors.New("there is no such file")
		}
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", asked.source, asked.path, err)
		}
		return asked.path, nil
	}
	places := []string{FileName}
	if dir := userDir(getenv, "XDG_CONFIG_HOME", ".config"); dir != "" {
		places = append(places, filepath.Join(dir, "batchq", FileName))
	}
	for _, path := range append(places, system) {
		exists, err := stat(path)
		if err != nil {
			// Skipping it would silently work by other numbers.
			return "", fmt.Errorf("can't tell whether there is a configuration %s: %w", path, err)
		}
		if exists {
			return path, nil
		}
	}
	return "", nil
}

// stat says whether there is something at path.
func stat(path string) (bool, error) {
	_, err := os.Stat(path)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return false, nil
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err // the caller names the path
	}
	return false, err
}

// userDir returns the directory that an XDG variable names, or its default
// under HOME; "" without a HOME. Relative values are ignored, as the XDG Base
// Directory Specification wants it.
func userDir(getenv func(string) string, variable, underHome string) string {
	if dir := getenv(variable); filepath.IsAbs(dir) {
		return dir
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, underHome)
	}
	return ""
}

// DatabasePath returns the absolute path of the database, which need not exist,
// and who named it, for messages: flag (--db), else $BATCHQ_DB, else the file's
// `database`, else $STATE_DIRECTORY (which systemd sets), else
// $XDG_DATA_HOME/batchq/batchq.db (~/.local/share where that is unset). cfg may
// be nil. It is an error when none of them is given and there is no HOME.
func DatabasePath(flag string, cfg *Config, getenv func(string) string) (path, source string, err error) {
	switch {
	case flag != "":
		path, source = flag, "--db"
	case getenv("BATCHQ_DB") != "":
		path, source = getenv("BATCHQ_DB"), "$BATCHQ_DB"
	case cfg != nil && cfg.Database != "":
		path, source = cfg.Database, "database in "+cfg.Path
	case getenv("STATE_DIRECTORY") != "":
		// systemd lists several, separated by colons; the first is the main one.
		dir, _, _ := strings.Cut(getenv("STATE_DIRECTORY"), ":")
		path, source = filepath.Join(dir, databaseName), "$STATE_DIRECTORY"
	default:
		dir := userDir(getenv, "XDG_DATA_HOME", ".local/share")
		if dir == "" {
			return "", "", errors.New("no database is named and there is no HOME to look in: give --db PATH or set BATCHQ_DB")
		}
		path, source = filepath.Join(dir, "batchq", databaseName), "the default"
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", source, err)
	}
	return path, source, nil
}

// databaseName is what a database is called where only a directory is named.
const databaseName = "batchq.db"
