package config

import (
	"testing"
	"time"
)

// Who leaves out the unit of an age must not be led to seconds: followed to the
// letter that deletes nearly everything.
func TestParseAge(t *testing.T) {
	for text, want := range map[string]string{
		"30": `"30" has no unit: write "30d" for days`,
		"1":  `"1" has no unit: write "1d" for days`,
		"x":  `"x" is not a duration: write one like "500ms", "60s", "1h30m" or "7d"`,
	} {
		if _, err := ParseAge(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if d, err := ParseAge("30d"); err != nil || d != 30*24*time.Hour {
		t.Errorf("30d is %v, %v", d, err)
	}
}
