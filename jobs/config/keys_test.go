package config

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What the table says a default is must be what one gets without the key.
func TestKeys_DefaultsAreTrue(t *testing.T) {
	without := parse(t, job)
	for _, k := range Keys() {
		if k.Default == "" {
			continue
		}
		with := parse(t, fmt.Sprintf("[defaults]\n%s = %s\n[jobs.a]\nshell = 's'\n", k.Name, k.Default))
		with.Jobs["a"].Source = without.Jobs["a"].Source
		with.Jobs["a"].Handler.Source = without.Jobs["a"].Handler.Source
		with.settings, without.settings = nil, nil // where it stands differs
		if d := cmp.Diff(without, with, cmp.AllowUnexported(Config{}), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s = %s is not the default (-without +with)\n%s", k.Name, k.Default, d)
		}
	}
}

func TestKeys_EachIsWhole(t *testing.T) {
	seen := map[string]Place{}
	for _, k := range Keys() {
		if k.Name == "" || k.In == 0 || k.Doc == "" || k.Type() == "" {
			t.Errorf("%q lacks something: %q %v %q", k.Name, k.Doc, k.In, k.Type())
		}
		if seen[k.Name]&k.In != 0 {
			t.Errorf("%s stands twice in %s", k.Name, seen[k.Name]&k.In)
		}
		seen[k.Name] |= k.In
	}
	diff(t, (Top | Defaults | Job | Lane).String(), "the top of the file or [defaults] or [jobs.NAME] or [lanes.NAME]")
}
