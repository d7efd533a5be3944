package handler

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

// Program says, without running anything, why a job's program could not be
// executed now: a directory or file that is not there, or not executable. ""
// where it could, and where that depends on the item. environ is the
// environment of the run that would start it. A later run may find it changed.
// searched is the PATH in which the program was not found; "" where it is another
// fault.
func Program(spec *jobs.Spec, environ []string) (fault, searched string) {
	if spec.Handler.HTTP != nil {
		return unsetVariable(spec.Handler.HTTP, environ), ""
	}
	argv := []string{"sh"}
	if spec.Handler.Shell == "" {
		argv = spec.Handler.Command[:1]
	}
	if HasPlaceholder(argv) {
		return "", ""
	}
	base, path := baseEnv(environ)
	x := &execution{Attempt: &Attempt{Spec: spec}, argv: argv, shared: buildSpecEnv(base, path, spec)}
	file, dir := argv[0], spec.Handler.Dir
	if dir != "" && unix.Faccessat(unix.AT_FDCWD, dir+"/.", unix.X_OK, unix.AT_EACCESS) != nil {
		return x.refused(unix.ENOENT)
	}
	if !strings.Contains(file, "/") {
		found, err := lookPath(lookup{file, x.shared.path, dir})
		if err != nil {
			return x.refused(unix.ENOENT)
		}
		file = found
	}
	var st unix.Stat_t
	file = inDir(file, dir)
	switch {
	case unix.Stat(file, &st) != nil, st.Mode&unix.S_IFMT == unix.S_IFDIR:
		return x.refused(unix.ENOENT)
	case unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS) != nil:
		return x.refused(unix.EACCES)
	}
	if interpreter := shebang(file); interpreter != "" && unix.Access(interpreter, unix.X_OK) != nil {
		return x.refused(unix.ENOENT)
	}
	return "", ""
}

// refused is cantExec with the PATH that it has looked through.
func (x *execution) refused(errno syscall.Errno) (fault, searched string) {
	fault = x.cantExec(errno)
	return fault, x.searched
}
