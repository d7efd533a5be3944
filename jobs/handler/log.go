package handler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// openLog makes the file for an attempt's whole output. Its name is made of
// the job's name and of numbers only: no key can lead out of the directory.
func openLog(a *Attempt) (*os.File, error) {
	job := a.Item.Job
	// Names are checked where jobs are declared. A path is no place to trust that.
	if job == "" || job == "." || job == ".." || filepath.Base(job) != job {
		return nil, fmt.Errorf("the job's name %q is no name for a directory", job)
	}
	dir := filepath.Join(a.LogDir, job)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL | syscall.O_NOFOLLOW
	name := fmt.Sprintf("%d-%d", a.Item.ID, a.Item.Attempt)
	f, err := os.OpenFile(filepath.Join(dir, name+".log"), flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		// Another database, or one restored from a backup, has had this item.
		// Its log is not ours to overwrite; a claim's number never comes again.
		f, err = os.OpenFile(filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, a.Claim)), flags, 0o600)
	}
	return f, err
}
