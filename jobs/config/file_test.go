package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// write puts text into a file of a fresh directory.
func write(t *testing.T, mode fs.FileMode, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // past the umask
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	path := write(t, 0o644, job)
	cfg, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, cfg.Path, path)
	diff(t, cfg.Names, []string{"a"})
}

func TestLoad_NoFile(t *testing.T) {
	cfg, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	diff(t, cfg.Path, "")
	diff(t, cfg.Lanes, map[string]int{"serial": 1})
	diff(t, cfg.Batch, 100)
	diff(t, len(cfg.Arithmetic()), 1)
}

func TestLoad_Refused(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	byGroup, byOthers := write(t, 0o664, job), write(t, 0o602, job)
	large := write(t, 0o600, strings.Repeat("#\n", 1<<19)+"\n")
	faulty := write(t, 0o600, "x = 1\n")
	missing := filepath.Join(dir, "missing")
	for _, c := range []struct{ path, want string }{
		{missing, "can't read the configuration: open " + missing + ": no such file or directory"},
		{dir, dir + " is a directory: a configuration is a file"},
		{pipe, pipe + " is not a regular file: a configuration must be one"},
		{byGroup, byGroup + " can be written by others (mode 0664), and it says which programs run: type `chmod go-w " + byGroup + "`"},
		{byOthers, byOthers + " can be written by others (mode 0602), and it says which programs run: type `chmod go-w " + byOthers + "`"},
		{large, large + " is larger than 1 MiB: that is no configuration"},
		{faulty, faulty + ":1: x: unknown key"},
	} {
		cfg, err := Load(c.path)
		if err == nil || err.Error() != c.want || cfg != nil {
			t.Errorf("got\n%v\nwant\n%s", err, c.want)
		}
	}
	if _, err := Load(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v hides that the file does not exist", err)
	}
}

func TestLoad_LargestIsRead(t *testing.T) {
	if _, err := Load(write(t, 0o600, strings.Repeat("#\n", 1<<19))); err != nil {
		t.Error(err)
	}
}

func TestLoad_Unreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	path := write(t, 0o000, job)
	_, err := Load(path)
	if want := "can't read the configuration: open " + path + ": permission denied"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTrusted_Owner(t *testing.T) {
	for _, c := range []struct {
		uid, euid int
		ok        bool
	}{{1000, 1000, true}, {0, 1000, true}, {0, 0, true}, {1000, 0, false}, {1001, 1000, false}, {-1, 1000, false}} {
		err := trusted("f", 0o644, c.uid, c.euid)
		if (err == nil) != c.ok {
			t.Errorf("file of %d read by %d: %v", c.uid, c.euid, err)
		}
	}
	diff(t, trusted("f", 0o644, 1001, 1000).Error(),
		"f belongs to user 1001, neither to you (user 1000) nor to root: it is not obeyed, since it says which programs run")
}

func TestShellWord(t *testing.T) {
	for in, want := range map[string]string{
		"/etc/b.toml": "/etc/b.toml", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "-x": "'./-x'", "a;b": "'a;b'",
	} {
		diff(t, shellWord(in), want)
	}
}
