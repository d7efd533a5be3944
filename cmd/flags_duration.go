package cmd

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"batchq/jobs/config"
)

// duration is a flag's value that is written as in batchq.toml ("90s", "7d").
type duration struct {
	at *time.Duration
}

// durationVar declares a flag for a duration that can't be negative; *at
// holds the default, which help does not show when it is 0.
func durationVar(f *pflag.FlagSet, at *time.Duration, name, usage string) {
	f.Var(duration{at}, name, usage)
}

func (d duration) Set(s string) error {
	v, err := config.ParseDuration(s)
	if err != nil {
		return err
	}
	if v < 0 {
		return errors.New("it can't be negative")
	}
	*d.at = v
	return nil
}

func (d duration) String() string {
	if d.at == nil || *d.at == 0 {
		return ""
	}
	return d.at.String()
}

func (d duration) Type() string { return "DURATION" }
