package cmd

import (
	"batchq/jobs/handler"
	"batchq/report"
	"batchq/store"
)

// aliveAmong says of each run that has not written its end whether it lives.
// It asks for the process only and touches no lock: a look must not get in the
// way of a run that rescues another.
func aliveAmong(runs []store.RunInfo) map[int64]report.Life {
	boot, bootErr := handler.BootID()
	ns, nsErr := handler.PIDNamespace()
	life := map[int64]report.Life{}
	for _, r := range runs {
		switch {
		case bootErr == nil && r.BootID != boot:
			life[r.ID] = report.Dead // nothing survives a boot
		case bootErr != nil || nsErr != nil || r.PIDNS != ns:
			life[r.ID] = report.Unknown
		case sameProcess(r):
			life[r.ID] = report.Alive
		default:
			life[r.ID] = report.Dead
		}
	}
	return life
}

// sameProcess says whether the process that the run was is still there.
func sameProcess(r store.RunInfo) bool {
	start, err := handler.StartTime(r.PID)
	return err == nil && start == r.PIDStart
}
