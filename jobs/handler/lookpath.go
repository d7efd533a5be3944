package handler

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// lookup is what the place of a command depends on.
type lookup struct{ name, path, dir string }

// find returns the file to execute for argv[0]. A name with a slash is a path,
// relative to the job's directory, because the kernel changes there first. One
// without is looked for in the attempt's own PATH, as a shell would after cd:
// a relative entry of PATH is relative to that directory too. What was found
// is remembered; fresh asks to look again.
func (r *Runner) find(l lookup, fresh bool) (file string, err error) {
	if strings.Contains(l.name, "/") {
		return l.name, nil
	}
	if !fresh {
		r.mu.Lock()
		file, ok := r.paths[l]
		r.mu.Unlock()
		if ok {
			return file, nil
		}
	}
	if file, err = lookPath(l); err != nil {
		return "", err
	}
	r.mu.Lock()
	if len(r.paths) >= maxSpecEnvs {
		clear(r.paths) // argv[0] may hold a placeholder: another one each time
	}
	r.paths[l] = file
	r.mu.Unlock()
	return file, nil
}

// lookPath is execvp's search. It differs from os/exec.LookPath in that it
// takes PATH and the directory as arguments, and in that "permission denied"
// is told only where nothing further on can be executed.
func lookPath(l lookup) (string, error) {
	result := error(unix.ENOENT)
	if l.name == "" {
		return "", result
	}
	for _, dir := range filepath.SplitList(l.path) {
		if dir == "" {
			dir = "."
		}
		file := filepath.Join(dir, l.name)
		if !strings.Contains(file, "/") {
			file = "./" + file
		}
		seen := inDir(file, l.dir)
		var st unix.Stat_t
		if err := unix.Stat(seen, &st); err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		if unix.Faccessat(unix.AT_FDCWD, seen, unix.X_OK, unix.AT_EACCESS) != nil {
			result = unix.EACCES
			continue
		}
		return file, nil
	}
	return "", result
}

// inDir is where a process in dir finds path.
func inDir(path, dir string) string {
	if dir == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
