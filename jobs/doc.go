// Package jobs holds the words of batchq and the rules that need nothing but
// values: what an item is, which states it moves through, how a job is
// declared, and what the outcome of an attempt means.
//
// It is pure. It reads no clock, opens no file and knows no SQL: everything
// it decides is decided from its arguments, so every rule can be tested by
// calling it.
//
// An item travels one way:
//
//	jobs/input → store.Enqueue → store.Claim → store.Advance (start)
//	→ jobs/handler → Policy.Judge → store.Advance (settle) → report
package jobs
