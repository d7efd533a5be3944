package cmd

import (
	"batchq/lease"
	"batchq/report"
	"batchq/store"
)

// aliveAmong says of each run that has not written its end whether it lives.
func aliveAmong(database string, runs []store.RunInfo) map[int64]report.Life {
	life := map[int64]report.Life{}
	for _, r := range runs {
		switch lease.Look(database, r) {
		case lease.Alive:
			life[r.ID] = report.Alive
		case lease.Dead:
			life[r.ID] = report.Dead
		default:
			life[r.ID] = report.Unknown
		}
	}
	return life
}
