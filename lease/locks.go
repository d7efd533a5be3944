package lease

import (
	"maps"
	"slices"
)

// LockFile is one that lies beside a database.
type LockFile struct {
	Path  string
	Token string // of its run
	Held  bool   // some process has it locked
}

// LockFiles lists the lock files of a database, by name. It changes nothing.
func LockFiles(database string) (files []LockFile, err error) {
	paths, err := lockFiles(database)
	for _, token := range slices.Sorted(maps.Keys(paths)) {
		files = append(files, LockFile{Path: paths[token], Token: token, Held: probe(paths[token]) == lives})
	}
	return files, err
}
