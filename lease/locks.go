package lease

import (
	"os"
	"path/filepath"
	"strings"
)

// LockFile is one that lies beside a database.
type LockFile struct {
	Path  string
	Token string // of its run
	Held  bool   // some process has it locked
}

// LockFiles lists the lock files of a database. It changes nothing.
func LockFiles(database string) (files []LockFile, err error) {
	entries, err := os.ReadDir(filepath.Dir(database))
	if err != nil {
		return nil, err
	}
	prefix := lockPath(database, "")
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(database), e.Name())
		token, ours := strings.CutPrefix(path, prefix)
		if !ours || !isToken(token) || !e.Type().IsRegular() {
			continue // a person may call a file of his own nearly the same
		}
		files = append(files, LockFile{Path: path, Token: token, Held: probe(path) == lives})
	}
	return files, nil
}
