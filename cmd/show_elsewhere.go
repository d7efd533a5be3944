package cmd

import (
	"batchq/jobs/handler"
	"batchq/store"
)

// elsewhere are the runs whose pids are those of another pid namespace of this
// boot: a person who types kill with such a number here hits a stranger.
func elsewhere(runs []store.RunInfo) map[int64]bool {
	boot, err := handler.BootID()
	if err != nil {
		return nil
	}
	ns, err := handler.PIDNamespace()
	if err != nil {
		return nil
	}
	there := map[int64]bool{}
	for i := range runs {
		if r := &runs[i]; r.ID != 0 && r.BootID == boot && r.PIDNS != ns {
			there[r.ID] = true
		}
	}
	return there
}
