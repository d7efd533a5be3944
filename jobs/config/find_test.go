package config

import (
	"os"
	"path/filepath"
	"testing"
)

// env makes a getenv of pairs.
func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

// touch makes an empty file and its directories.
func touch(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every place exists; taken away one by one, from the first to the last, the
// next one counts.
func TestFind_Order(t *testing.T) {
	dir := t.TempDir()
	home, xdg, cwd := filepath.Join(dir, "home"), filepath.Join(dir, "xdg"), filepath.Join(dir, "cwd")
	flag := touch(t, dir, "flag.toml")
	asked := touch(t, dir, "env.toml")
	touch(t, cwd, "batchq.toml")
	ofXDG := touch(t, xdg, "batchq", "batchq.toml")
	ofHome := touch(t, home, ".config", "batchq", "batchq.toml")
	system := touch(t, dir, "system.toml")
	t.Chdir(cwd)
	vars := map[string]string{"BATCHQ_CONFIG": asked, "XDG_CONFIG_HOME": xdg, "HOME": home}
	want := func(flag, path string) {
		t.Helper()
		got, err := find(flag, env(vars), system)
		if err != nil || got != path {
			t.Errorf("%q, %v, want %q", got, err, path)
		}
	}
	want(flag, flag)
	want("", asked)
	delete(vars, "BATCHQ_CONFIG")
	want("", "batchq.toml")
	os.Remove("batchq.toml")
	want("", ofXDG)
	vars["XDG_CONFIG_HOME"] = "relative" // to be ignored, says the specification
	want("", ofHome)
	vars["XDG_CONFIG_HOME"] = ""
	want("", ofHome)
	delete(vars, "HOME")
	want("", system)
	os.Remove(system)
	want("", "")
}

func TestFind_Errors(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		flag string
		vars map[string]string
		want string
	}{
		{"no.toml", nil, "--config no.toml: there is no such file"},
		{"", map[string]string{"BATCHQ_CONFIG": "no.toml"}, "$BATCHQ_CONFIG no.toml: there is no such file"},
	} {
		got, err := find(c.flag, env(c.vars), "nowhere")
		if err == nil || err.Error() != c.want || got != "" {
			t.Errorf("%q, %v, want %s", got, err, c.want)
		}
	}
	// A place that can't be looked at is not one where nothing is.
	if err := os.Symlink("batchq.toml", "batchq.toml"); err != nil {
		t.Fatal(err)
	}
	_, err := find("", env(nil), "nowhere")
	if want := "can't tell whether there is a configuration batchq.toml: too many levels of symbolic links"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestDatabasePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	cfg := &Config{Path: "/c/batchq.toml", Database: "/c/file.db"}
	vars := map[string]string{"BATCHQ_DB": "env.db", "STATE_DIRECTORY": "/state:/other", "XDG_DATA_HOME": "/xdg", "HOME": "/home/u"}
	want := func(flag string, cfg *Config, path, source string) {
		t.Helper()
		got, by, err := DatabasePath(flag, cfg, env(vars))
		if err != nil || got != path || by != source {
			t.Errorf("%q by %q, %v, want %q by %q", got, by, err, path, source)
		}
	}
	want("flag.db", cfg, filepath.Join(dir, "flag.db"), "--db")
	want("", cfg, filepath.Join(dir, "env.db"), "$BATCHQ_DB")
	delete(vars, "BATCHQ_DB")
	want("", cfg, "/c/file.db", "database in /c/batchq.toml")
	want("", &Config{}, "/state/batchq.db", "$STATE_DIRECTORY")
	delete(vars, "STATE_DIRECTORY")
	want("", nil, "/xdg/batchq/batchq.db", "the default")
	vars["XDG_DATA_HOME"] = "relative"
	want("", nil, "/home/u/.local/share/batchq/batchq.db", "the default")
	delete(vars, "HOME")
	_, _, err := DatabasePath("", nil, env(vars))
	if want := "no database is named and there is no HOME to look in: give --db PATH or set BATCHQ_DB"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
