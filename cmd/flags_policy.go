package cmd

import (
	"github.com/spf13/pflag"

	"batchq/jobs"
)

// policyFlags override what a job's declaration allows. Only flags that were
// given count.
type policyFlags struct {
	flags  *pflag.FlagSet
	policy jobs.Policy // what was given, and nothing else
	rate   jobs.Rate
}

func (p *policyFlags) register(f *pflag.FlagSet) {
	p.flags = f
	durationVar(f, &p.policy.Timeout, "timeout", "longest one attempt may take; 0: any time (1h unless the job says otherwise)")
	durationVar(f, &p.policy.KillAfter, "kill-after", "time from TERM to KILL when an attempt is ended (5s)")
	f.IntVar(&p.policy.MaxAttempts, "max-attempts", 0, "`N` failures at which an item goes to the dead-letter list (8)")
	f.IntVar(&p.policy.MaxCrashes, "max-crashes", 0, "`N` crashes of its run at which an item goes to the dead-letter list (3)")
	durationVar(f, &p.policy.BackoffBase, "backoff-base", "longest delay before the first retry; doubles with each (10s)")
	durationVar(f, &p.policy.BackoffCap, "backoff-cap", "longest delay before any retry (15m)")
	f.Var(rateValue{&p.rate}, "rate", `most attempts of a job that may start in a time, over all runs, like "20/s"`)
}

// apply changes what the flags name in a job, and says as a usage error what
// then makes no sense.
func (p *policyFlags) apply(spec *jobs.Spec) error {
	to := &spec.Policy
	given := func(name string) bool { return p.flags.Changed(name) }
	if given("timeout") {
		to.Timeout = p.policy.Timeout
	}
	if given("kill-after") {
		to.KillAfter = p.policy.KillAfter
	}
	if given("max-attempts") {
		to.MaxAttempts = p.policy.MaxAttempts
	}
	if given("max-crashes") {
		to.MaxCrashes = p.policy.MaxCrashes
	}
	// Who gives one end of the backoff is not asked for the other: it moves along.
	if given("backoff-base") {
		to.BackoffBase = p.policy.BackoffBase
		if !given("backoff-cap") {
			to.BackoffCap = max(to.BackoffCap, to.BackoffBase)
		}
	}
	if given("backoff-cap") {
		to.BackoffCap = p.policy.BackoffCap
		if !given("backoff-base") {
			to.BackoffBase = min(to.BackoffBase, to.BackoffCap)
		}
	}
	if given("rate") {
		spec.Rate = p.rate
	}
	if err := to.Validate(); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// rateValue is a flag's value that is written as in batchq.toml ("20/s").
type rateValue struct {
	at *jobs.Rate
}

func (r rateValue) Set(s string) (err error) {
	*r.at, err = jobs.ParseRate(s)
	return err
}

func (r rateValue) String() string {
	if r.at == nil { // pflag asks a zero value for what it need not show
		return ""
	}
	return r.at.String()
}

func (r rateValue) Type() string { return "RATE" }
