package cmd

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// Which test covers which case of public bug reports about job queues (river#N
// is an issue of riverqueue/river, and so on). The numbers are those of the
// project's list of such cases.
//
//	 1 river#1258           crash_kill_test.go TestCrash_Everything; lease/worker TestCrash_All
//	 3 procrastinate#1408   lanes_queues_test.go TestLanes_RescueBesideLongItems
//	 4 river#1318           queues_more_test.go TestQueues_ManyLiveLeases
//	 5 graphile/worker#254  crash_kill_test.go TestCrash_LastAttempt; lease/worker TestCrash_LastAttempt
//	 7 spring-batch#1473    crash_kill_test.go TestCrash_AfterSkips
//	 8 solid_queue#748      lease/worker TestFault_LockedAsItEnds; file_queues_test.go TestQueues_LockedBeyondTheWait
//	10 asynq#1144           file_queues_test.go TestQueues_ClaimDeleted; store/sqlite TestStray*
//	11 plainjob             queues_race_test.go TestQueues_LongerThanTheLease
//	13 DotNetWorkQueue#328  own_heartbeat_test.go TestOwn_HeartbeatBesideWriters; lease/worker TestFault_HeartbeatAmongWriters
//	14 titen#151            queues_race_test.go TestQueues_LongerThanTheLease; lease/worker TestWork_BatchOutlivesItsLease
//	16 delayed_job#554      own_stopped_test.go TestOwn_StoppedWhereNobodyCanEndIt; lease/worker TestLost_StoppedAndBack
//	19 solid_queue#568      own_heartbeat_test.go TestOwn_HeartbeatWhileStopping; lease/worker TestStop_HeartbeatInTheDrain
//	21 WeKnora#3462         work_signals.txtar; lease/worker TestRetry_Timeout
//	23 (common)             crash_kill_test.go TestCrash_RunnerAlone; lease/worker TestCrash_RunnerAlone
//	24 huey#123             queues_race_test.go TestQueues_EachOnce
//	26 sidekiq#4633         crash_kill_test.go TestCrash_Poison, work_policy.txtar; lease/worker TestCrash_Poison
//	30 river#1290           queues_test.go TestQueues_StoppedAtRandom, work_exit.txtar; lease/worker TestStop_*
//	31 river#698            jobs TestPolicy_Backoff
//	33 goqite               queues_more_test.go TestQueues_DefinitionRemoved; work_config.txtar
//	35 graphile/worker      lanes_queues_test.go TestLanes_RetriesAreSpread; jobs TestPolicy_Backoff_Spread
//	37 OneSSH#4             queues_lock_test.go TestQueues_LockHeld
//	40 murmur#122           queues_enqueue_test.go TestQueues_EnqueueKilled, enqueue_interrupted.txtar
//	41 gotosocial#2808      queues_lock_test.go TestQueues_LogBehindAReader; file_log_test.go TestFile_LogBehindAReaderAtWork
//	43 honker#80            file_deleted_test.go TestFile_LogNeverRemovedUnderAnybody; store/sqlite TestLock_SurvivesOtherOpens
//	44 scrutineer#124       queues_enqueue_test.go TestQueues_Many, operate_many.txtar
//	45 pg-boss#72           store/sqlite TestPlans_*, BenchmarkClaim
//	47 (measured)           queues_test.go TestQueues_Order; lease/worker TestWork_SerialOrder, storetest order.go
//	48 agentfield#1040      queues_test.go TestQueues_Zones
//	53 oban#1087            file_queues_test.go TestQueues_KilledBeforeItsCommit; store/sqlite TestEnqueue_KilledBeforeCommit
//	55 river#619            queues_test.go TestQueues_OneConflictOfAThousand, requeue.txtar
//	56 asynq#492            enqueue_conflict.txtar, stats.txtar
//	58 riverui#622          queues_more_test.go TestQueues_OldIDOfANewKey, queues_test.go TestQueues_OneConflictOfAThousand, requeue.txtar
//	62 backlite#10          enqueue_rejected.txtar; its killed half: TestQueues_EnqueueKilled, TestQueues_Many
//	63 sidekiq#5030         queues_test.go TestQueues_StoppedAtRandom; lease/worker TestStop_AtRandom
//	69 solid_queue#735      lanes_soak_test.go TestLanes_KilledAndRestarted, queues_race_test.go TestQueues_LimitAcrossRuns; lease/worker TestWidth_KillAndRestart
//	70 solid_queue#456      lanes_queues_test.go TestLanes_NoSlotStaysIdle; its time: testdata/bench/width
//	72 mosquito#167         lanes_queues_test.go TestLanes_NoProducerStarvesAnother
//	74 graphile/worker#99   lanes_queues_test.go TestLanes_OneSlowOfAHundred
//	77 sidekiq#6481         queues_more_test.go TestQueues_RequeueBesideAWorker
//	82 bull#2309            queues_upkeep_test.go TestQueues_PruneGoesByTheEnd, storetest prune.go
//	83 pg-boss#521          queues_upkeep_test.go TestQueues_PruneLeavesWhatWaits
//	85 (caps of others)     queues_upkeep_test.go TestQueues_DeadStay
//	87 pg-boss              queues_more_test.go TestQueues_LaterIsNoBacklog

// delayed selects delayed items; limit 0 is all of them.
func delayed(limit int) store.Selection {
	return store.Selection{States: []jobs.State{jobs.Delayed}, Limit: limit}
}

// TERM loses or stalls running jobs (sidekiq#5030, litejob, bayes-platform#794),
// or counts against them (river#1290): at any moment nothing is lost, what had
// not finished waits when the run is gone, and nobody is charged.
func TestQueues_StoppedAtRandom(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", logged+"say start\nsleep 0.0$((key % 9))\nsay end\n")
	const n = 60
	s.enqueue("j", sequence(n))
	line := []string{"work", "j", "--lane", "parallel", "-j", "3", "--grace", "5ms", "--max-attempts", "1", "--", "./item.sh"}
	var before []finished
	for range short(10, 50) {
		p := s.start(s.command(line...))
		if s.rand.IntN(4) > 0 {
			s.until("it has begun", func() bool { return p.ended() || len(s.lines("log")) > 0 })
		}
		time.Sleep(time.Duration(s.rand.Int64N(int64(100 * time.Millisecond))))
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		r := p.wait()
		// Before it listens, TERM ends it as any other program; at the end
		// there may be nothing left.
		if r.code != 143 && r.code != 0 {
			t.Errorf("stopped by TERM: %s", r)
		}
		got := s.totals()
		if got["claimed"]+got["running"]+got["delayed"]+got["dead"] > 0 || got["ready"]+got["done"] != n {
			t.Fatalf("after a stop: %v", got)
		}
		before = append(before, s.settledBefore())
	}
	s.want(0, line...)
	events := s.log()
	s.notBeside(events)
	s.notAgain(events, before)
	ends := runs(events, "end")
	for _, it := range s.items(store.Selection{}) {
		if it.State != jobs.Done || it.Failures+it.Crashes != 0 || ends[string(it.Key)] == 0 {
			t.Errorf("item %s is %s: %d failures, %d crashes, %d ends", it.Key, it.State, it.Failures, it.Crashes, ends[string(it.Key)])
		}
	}
	s.tidy()
}

// UPDATE … RETURNING knows no order: a batch ran in the order of its rows.
// Here it runs by priority, and first come first served within one.
func TestQueues_Order(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.write("item.sh", "#!/bin/sh\necho $1 >>ran\n")
	var want []string
	for _, priority := range []int{0, -2, 7, 3} {
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprintf("p%d-%d", priority, i))
		}
		s.enqueue("j", keys, fmt.Sprintf("--priority=%d", priority))
	}
	for _, priority := range []int{7, 3, 0, -2} {
		for i := range 20 {
			want = append(want, fmt.Sprintf("p%d-%d", priority, i))
		}
	}
	s.want(0, "work", "j", "--batch", "30", "--", "./item.sh")
	if got := s.lines("ran"); !slices.Equal(got, want) {
		t.Errorf("order: %v", got)
	}
	s.tidy()
}

// Times as text across zones: a fresh job was reaped, and the wrong ones purged
// (agentfield#1040, conductor#1497, DotNetWorkQueue#317). Here one command runs
// in Los Angeles, one in Kolkata, one in UTC: nothing is early, ages are right.
func TestQueues_Zones(t *testing.T) {
	t.Parallel()
	s := setup(t)
	in := func(zone, stdin string, args ...string) result {
		t.Helper()
		c := s.command(args...)
		c.Env = append(c.Env, "TZ="+zone)
		c.Stdin = strings.NewReader(stdin)
		return s.result(c)
	}
	const west, east = "America/Los_Angeles", "Asia/Kolkata"
	s.expect(in(west, "now", "enqueue", "j"), 0)
	s.expect(in(west, "later", "enqueue", "j", "--delay", "1h"), 0)
	local := time.Now().In(zone(t, west)).Add(time.Hour).Format("2006-01-02 15:04:05")
	s.expect(in(west, "at", "enqueue", "j", "--at", local), 0)
	r := in(east, "", "work", "j", "--", "sh", "-c", "exit 65")
	if r.code != 3 || r.stdout != "done 0, dead 1, left 2 (2 delayed)\n" {
		t.Error(r)
	}
	for _, it := range s.items(delayed(0)) {
		if wait := time.Until(it.Due); wait < 50*time.Minute || wait > time.Hour {
			t.Errorf("%s is due in %s", it.Key, wait)
		}
	}
	for _, zone := range []string{west, east, "UTC"} {
		if r := in(zone, "", "dlq", "list", "--since", "10m"); !strings.Contains(r.stdout, "\tnow\t") {
			t.Errorf("in %s: %s", zone, r)
		}
		if r := in(zone, "", "requeue", "--all", "--since", "10m", "--dry-run"); r.stdout != "dry run: requeued 1\n  j: 1 dead\n" {
			t.Errorf("in %s: %s", zone, r)
		}
	}
	s.expect(in(east, "waits", "enqueue", "j"), 0)
	var seconds float64
	for line := range strings.Lines(s.want(0, "stats", "--json").stdout) {
		_, _ = fmt.Sscanf(strings.TrimSpace(line), `"oldest_waiting_seconds": %f`, &seconds)
	}
	if seconds < 0 || seconds > patience.Seconds() {
		t.Errorf("the oldest has waited %vs", seconds)
	}
	s.tidy()
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// One key in conflict kept everything from moving (river PR#619, oban#1416):
// the old ID of a dropped key that is there anew is refused by name, and the
// 999 others move.
func TestQueues_OneConflictOfAThousand(t *testing.T) {
	t.Parallel()
	s := setup(t)
	s.enqueue("j", sequence(1000), "--delay", "1h")
	var ids []string
	old := ""
	for _, it := range s.items(delayed(0)) {
		ids = append(ids, fmt.Sprint(it.ID))
		if string(it.Key) == "500" {
			old = fmt.Sprint(it.ID)
		}
	}
	s.want(0, "drop", old)
	s.enqueue("j", []string{"500"})
	r := s.want(3, append([]string{"requeue", "--state", "delayed"}, ids...)...)
	if r.stdout != "requeued 999, refused 1\n" || r.stderr != "batchq: refused: item "+old+": it was dropped, and its key is item 1001 now\n" {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"ready": 1000, "dropped": 1})
	s.tidy()
}
