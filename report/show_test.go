package report

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"batchq/jobs"
	"batchq/store"
)

// shown is a story under construction: an item of job pos at noon, which a live
// run could work.
type shown struct {
	store.Story
	Around
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)

func newShown(state jobs.State) *shown {
	declared := &jobs.Spec{Name: "pos", Lane: "parallel", Policy: jobs.DefaultPolicy()}
	worked := *declared
	s := &shown{
		Story: store.Story{Now: noon, PayloadBytes: -1, Spec: &worked, Runs: []store.RunInfo{{ID: 12, PID: 4711, Command: []string{"work"}}}},
		Around: Around{Declared: declared, NoJob: "there is no batchq.toml", Lanes: map[string]int{"parallel": 2}, Pools: map[string]int{"db": 15},
			Life: map[int64]Life{12: Alive, 9: Dead}, Takers: map[int64]bool{12: true, 9: true}, Self: "batchq"},
	}
	it := &s.Story.Item
	it.ID, it.Job, it.Key, it.State, it.Created, it.Due = 7, "pos", []byte("k"), state, noon.Add(-time.Hour), noon.Add(-time.Hour)
	switch state {
	case jobs.Ready, jobs.Delayed:
		s.Line = &store.Line{}
	case jobs.Claimed, jobs.Running:
		s.Grip = &store.Grip{Claim: 5, Run: store.RunInfo{ID: 12, PID: 4711}, Since: noon.Add(-time.Minute), Until: noon.Add(time.Minute)}
	}
	if state == jobs.Running {
		it.Attempt, it.Started = 2, noon.Add(-time.Minute)
		s.Grip.Slot = &store.SlotRow{Run: 12, Job: "pos", Lane: "parallel", Item: 7, Attempt: 2, Since: it.Started, PID: 4800}
		s.Slots = []store.SlotRow{*s.Grip.Slot}
	}
	return s
}

// slot is one in use by another item.
func (s *shown) slot(run int64, job, lane string, uses map[string]int, orphan bool) {
	n := int64(len(s.Slots))
	s.Slots = append(s.Slots, store.SlotRow{Run: run, Job: job, Lane: lane, Uses: uses, Item: 100 + n, Since: noon.Add(time.Duration(n-30) * time.Minute), Orphan: orphan})
}

// orphaned makes it one that run 9 has left behind.
func (s *shown) orphaned(left Remains) {
	s.Grip.Slot.Orphan, s.Remains = true, &left
	s.Grip.Orphan = &store.Orphan{Owner: store.RunInfo{ID: 9}, Policy: jobs.DefaultPolicy()}
}

func TestShow_Why(t *testing.T) {
	none, readme := store.RunInfo{}, readme(t)
	for _, c := range []struct {
		name  string
		state jobs.State
		set   func(*shown)
		want  []string // "code: words", in order
	}{
		{"Free", jobs.Ready, func(*shown) {}, []string{"free: nothing is in its way: a run that works job pos starts it as soon as it looks (at work: run 12)"}},
		{"NoRun", jobs.Ready, func(s *shown) { s.Runs = nil }, []string{"no_run: no run is at work"}},
		{"OnlyADeadRun", jobs.Ready, func(s *shown) { s.Runs[0].ID = 9 }, []string{"no_run: no run is at work"}},
		{"NoRunThatTakesIt", jobs.Ready, func(s *shown) { s.Takers = nil }, []string{"no_run: no run that is at work takes it (at work: run 12)"}},
		{"NoRunThatTakesItBesideOneThatDoes", jobs.Ready, func(s *shown) { s.Runs = append(s.Runs, store.RunInfo{ID: 13}) },
			[]string{"free: nothing is in its way: a run that works job pos starts it as soon as it looks (at work: run 12)"}},
		{"FullAndNoRunThatTakesIt", jobs.Ready, func(s *shown) {
			s.Takers = nil
			s.slot(12, "a", "parallel", nil, false)
			s.slot(12, "b", "parallel", nil, false)
		}, []string{"lane_full: lane parallel is full: 2 of 2, run 12", "no_run: no run that is at work takes it (at work: run 12)"}},
		{"ClaimedInAnotherNamespace", jobs.Claimed, func(s *shown) { s.Elsewhere = map[int64]bool{12: true} },
			[]string{"claimed: run 12 (pid 4711 in another pid namespace) has claimed it"}},
		{"RunningInAnotherNamespace", jobs.Running, func(s *shown) { s.Elsewhere = map[int64]bool{12: true} },
			[]string{"running: run 12 (pid 4711 in another pid namespace) has it at work since 11:59:00, for 1m00s: attempt 2, process 4800 there;"}},
		{"Behind", jobs.Ready, func(s *shown) { s.Line.Before = 1 }, []string{"behind: 1 item of job pos starts before it"}},
		{"FarBehind", jobs.Ready, func(s *shown) { s.Line.Before, s.Line.More = 1000, true }, []string{"behind: more than 1000 items of job pos start before it"}},
		{"Undeclared", jobs.Ready, func(s *shown) { s.Declared, s.Takers = nil, nil }, []string{"undeclared: job pos is not declared: there is no batchq.toml", "no_run: no run that is at work takes it (at work: run 12)"}},
		{"UndeclaredAndWorked", jobs.Ready, func(s *shown) { s.Declared, s.Runs[0].Command = nil, []string{"work", "pos", "--", "x"} }, []string{"free: "}},
		{"LaneFull", jobs.Ready, func(s *shown) {
			s.slot(12, "a", "parallel", nil, false)
			s.slot(13, "b", "serial", nil, false)
			s.slot(12, "b", "parallel", nil, false)
		}, []string{"lane_full: lane parallel is full: 2 of 2, run 12 since 11:30 (2 items)"}},
		{"LaneFullOfTheDead", jobs.Ready, func(s *shown) {
			s.slot(9, "a", "parallel", nil, false)
			s.slot(12, "b", "parallel", nil, true)
		}, []string{"lane_full: lane parallel is full: 2 of 2, run 9, which is dead, since 11:30 (item 100 of job a), run 12 for what a dead run left behind since 11:31 (item 101 of job b)"}},
		{"LaneFullOfMany", jobs.Ready, func(s *shown) {
			for run := range int64(6) {
				s.slot(20+run, "a", "parallel", nil, false)
			}
		}, []string{"lane_full: lane parallel is full: 6 of 2, run 20 since 11:30 (item 100 of job a), run 21 since 11:31 (item 101 of job a), run 22 since 11:32 (item 102 of job a), run 23 since 11:33 (item 103 of job a), and 2 more runs"}},
		{"LaneOfNobodysLimit", jobs.Ready, func(s *shown) { // it was declared on a command line
			s.Lanes, s.Declared.Lane = nil, "other"
			s.slot(12, "a", "other", nil, false)
		}, []string{"free: "}},
		{"UndeclaredRunsWhereItRan", jobs.Ready, func(s *shown) {
			s.Declared, s.Story.Lane, s.Runs[0].Command = nil, "serial", []string{"work", "pos"}
			s.slot(12, "a", "serial", nil, false)
		}, []string{"lane_full: lane serial is full: 1 of 1, run 12 since 11:30"}},
		{"JobFull", jobs.Ready, func(s *shown) {
			s.Declared.InFlight = 1
			s.slot(12, "pos", "parallel", nil, false)
		}, []string{"job_full: job pos is at its own limit: 1 of 1 in flight, run 12 since 11:30 (item 100 of job pos)"}},
		{"PoolFull", jobs.Ready, func(s *shown) {
			s.Declared.Uses = map[string]int{"db": 7, "unknown": 3}
			s.slot(12, "a", "serial", map[string]int{"db": 9}, false)
		}, []string{"pool_full: pool db is full: 9 of 15 in use, and it takes 7, run 12 since 11:30 (item 100 of job a)"}},
		{"PoolKept", jobs.Ready, func(s *shown) {
			s.Declared.Uses = map[string]int{"db": 7}
			s.Kept = &store.Kept{Job: "big", Uses: map[string]int{"db": 9}, Until: noon.Add(time.Minute)}
		}, []string{"pool_kept: pool db is kept free until 12:01:00 for job big, which has waited longer: 0 of 15 in use, and it takes 7"}},
		{"PoolHasRoom", jobs.Ready, func(s *shown) {
			s.Declared.Uses = map[string]int{"db": 7}
			s.slot(12, "a", "serial", map[string]int{"db": 8}, false)
			s.Kept = &store.Kept{Job: "big", Uses: map[string]int{"other": 9}}
		}, []string{"free: "}},
		{"Crashed", jobs.Ready, func(s *shown) { s.Crashed = []store.SlotRow{{Item: 3, Run: 12}} },
			[]string{"crashed: its run has died under it before, and item 3, to which that has happened too, is in flight in run 12"}},
		{"Rate", jobs.Ready, func(s *shown) {
			s.Declared.Rate, s.NextStart = jobs.Rate{Count: 1, Per: time.Hour}, noon.Add(time.Hour)
		}, []string{"rate: the rate of job pos, 1/h, lets the next one start in 59m59s"}},
		{"RateOfAnotherTime", jobs.Ready, func(s *shown) { // before the clock was set back, or the rate was changed
			s.Declared.Rate, s.NextStart = jobs.Rate{Count: 1, Per: time.Hour}, noon.Add(2*time.Hour)
		}, []string{"free: "}},
		{"NoRateAnyMore", jobs.Ready, func(s *shown) { s.NextStart = noon.Add(time.Hour) }, []string{"free: "}},
		{"Breaker", jobs.Ready, func(s *shown) {
			s.Breaker = &store.Breaker{Opened: noon.Add(-time.Second), Until: noon.Add(time.Minute), Times: 1, Reason: "exit 75"}
		}, []string{"breaker: job pos is held until 12:01, opened once, last failure: exit 75"}},
		{"NoBreakerAnyMore", jobs.Ready, func(s *shown) {
			s.Declared.Policy.Breaker.Failures = 0
			s.Breaker = &store.Breaker{Opened: noon.Add(-time.Second), Until: noon.Add(time.Minute), Times: 1}
		}, []string{"free: "}},
		{"PausedElsewhere", jobs.Ready, func(s *shown) {
			s.Pauses = []store.Pause{{Target: store.Target{Lane: "serial"}}, {Target: store.Target{Job: "other"}}}
		}, []string{"free: "}},
		{"DelayedAndPaused", jobs.Delayed, func(s *shown) {
			s.Item.Due = noon.Add(time.Minute)
			s.Attempts = []store.AttemptRow{{Number: 1, Class: jobs.ClassTimeout, Reason: "timed out after 1h0m0s"}}
			s.Pauses = []store.Pause{{Target: store.Target{Lane: "parallel"}, Since: noon, By: "ann"}}
		}, []string{"delayed: it waits until 12:01:00, in 1m00s, after attempt 1 (timeout): timed out after 1h0m0s", "paused: lane parallel is paused since 12:00 by ann"}},
		{"DueAndNotMoved", jobs.Delayed, func(*shown) {}, []string{"due: it was due at 11:00:00, 1h00m ago", "free: "}},
		{"Claimed", jobs.Claimed, func(s *shown) { s.slot(12, "a", "parallel", nil, false); s.slot(12, "a", "parallel", nil, false) },
			[]string{"claimed: run 12 (pid 4711) has claimed it at 11:59:00, 1m00s ago, and not started it yet; the lease runs until 12:01:00 unless it is renewed", "lane_full: "}},
		{"ClaimedByOneWhoHangs", jobs.Claimed, func(s *shown) { s.Grip.Until = noon.Add(-time.Second) }, []string{"claimed: ", "lapsed: the lease ran out at 11:59:59: run 12 hangs or is stopped"}},
		{"ClaimedElsewhere", jobs.Claimed, func(s *shown) { s.Life = nil }, []string{"claimed: run 12 (pid 4711), of which can't be told from here whether it lives, has claimed it"}},
		{"ClaimedByTheDead", jobs.Claimed, func(s *shown) { s.Life[12] = Dead }, []string{"run_dead: run 12 (pid 4711), which had claimed it, is dead: the next work makes it ready again, free"}},
		{"ClaimedByTheEnded", jobs.Claimed, func(s *shown) { s.Grip.Run.Ended = noon }, []string{"run_dead: run 12 (pid 4711), which had claimed it, has ended: "}},
		{"ClaimedByNobody", jobs.Claimed, func(s *shown) { s.Grip.Run = none }, []string{"run_dead: it is claimed, and no run in the book holds it: the next work takes it back"}},
		{"Running", jobs.Running, func(*shown) {}, []string{"running: run 12 (pid 4711) has it at work since 11:59:00, for 1m00s: attempt 2, process 4800; its timeout ends it at 12:59:00, in 59m00s"}},
		{"RunningWithoutATimeout", jobs.Running, func(s *shown) { s.Spec.Policy.Timeout, s.Grip.Slot.PID = 0, 0 }, []string{"running: run 12 (pid 4711) has it at work since 11:59:00, for 1m00s: attempt 2, its process not on record yet; it has no timeout"}},
		{"RunningTooLong", jobs.Running, func(s *shown) { s.Spec.Policy.Timeout = time.Second }, []string{"running: run 12 (pid 4711) has it at work since 11:59:00, for 1m00s: attempt 2, process 4800; its timeout was over at 11:59:01"}},
		{"RunningWithoutASlot", jobs.Running, func(s *shown) { s.Grip.Slot, s.Slots = nil, nil }, []string{"running: run 12 (pid 4711) has it at work since 11:59:00"}},
		{"RunningUnderTheDead", jobs.Running, func(s *shown) { s.Life[12] = Dead },
			[]string{"run_dead: run 12 (pid 4711), which started it at 11:59:00 (attempt 2), is dead: the next work ends what it left behind, and makes the item ready again (crash 1 of 3)"}},
		{"RunningUnderTheDeadForTheLastTime", jobs.Running, func(s *shown) { s.Life[12], s.Item.Crashes = Dead, 2 },
			[]string{"run_dead: run 12 (pid 4711), which started it at 11:59:00 (attempt 2), is dead: the next work ends what it left behind, and sets the item aside, because its run died while it was running (crash 3 of 3)"}},
		{"RunningUnderNobody", jobs.Running, func(s *shown) { s.Grip.Run = none }, []string{"run_dead: it is running, and no run in the book holds it"}},
		{"LeftBehind", jobs.Running, func(s *shown) {
			s.orphaned(Remains{Processes: []Process{{PID: 31, Name: "sh"}, {PID: 32, Name: "x\x1b", Reason: "it is another user's"}}})
		}, []string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: it stays held until what that left behind has ended",
			"process: process 31 (sh) lives: a run that looks ends it", `process: process 32 (x\x1b) lives and is not ended from here: it is another user's`}},
		{"LeftNothing", jobs.Running, func(s *shown) { s.orphaned(Remains{}) }, []string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: nothing of that is left, and the next look of a run makes it ready again"}},
		{"LeftBeforeABoot", jobs.Running, func(s *shown) { s.orphaned(Remains{Booted: true}) }, []string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: nothing of that is left"}},
		{"LeftElsewhere", jobs.Running, func(s *shown) { s.orphaned(Remains{Elsewhere: true}) },
			[]string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: it began in another pid namespace, where nobody can be asked from here: it stays held until its timeout is over, at 12:59:05, in 59m05s"}},
		{"LeftElsewhereLongAgo", jobs.Running, func(s *shown) { s.orphaned(Remains{Elsewhere: true}); s.Grip.Slot.Since = noon.Add(-2 * time.Hour) },
			[]string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 10:00:00: nothing of that is left"}},
		{"LeftElsewhereForGood", jobs.Running, func(s *shown) { s.orphaned(Remains{Elsewhere: true}); s.Grip.Orphan.Policy.Timeout = 0 },
			[]string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: it began in another pid namespace, where nobody can be asked from here, and has no timeout: it stays held until a person drops it"}},
		{"LeftByACopy", jobs.Running, func(s *shown) {
			s.orphaned(Remains{Processes: []Process{{PID: 31, Name: "sh", Doubtful: true, Reason: "it is at work"}}})
			s.Grip.Orphan.Owner.Foreign = true
		}, []string{"left_behind: run 9, which started it, worked another copy of this database, and run 12 has taken over attempt 2, begun at 11:59:00: it stays held until what that left behind has ended",
			"process: process 31 (sh), which may belong to it, lives and is not ended from here: it is at work"}},
		{"RunningInACopy", jobs.Running, func(s *shown) { s.Life[12], s.Grip.Run.Foreign = Dead, true },
			[]string{"run_dead: run 12 (pid 4711), which started it at 11:59:00 (attempt 2), worked another copy of this database: the next work"}},
		{"LeftWithUs", jobs.Running, func(s *shown) { s.orphaned(Remains{Within: true}) },
			[]string{"left_behind: run 9, which started it, is dead, and run 12 has taken over attempt 2, begun at 11:59:00: it stays held as long as this lives, because who asks is a part"}},
		{"LeftUnseen", jobs.Running, func(s *shown) { s.orphaned(Remains{Failed: "/proc: no such file"}); s.Grip.Orphan.Owner.ID = 0 },
			[]string{"left_behind: the run that started it is dead, and run 12 has taken over attempt 2, begun at 11:59:00: what it left behind can't be looked for: /proc: no such file"}},
		{"Done", jobs.Done, func(s *shown) {
			s.Item.Attempt, s.Item.Started, s.Item.Finished = 1, noon.Add(-90*time.Second), noon.Add(-time.Minute)
		},
			[]string{"done: attempt 1 was done at 11:59:00, 1m00s ago, in 30s"}},
		{"Dead", jobs.Dead, func(s *shown) {
			s.Item.Finished, s.Item.Class, s.Item.Reason = noon, jobs.ClassPermanent, "exit 65: bad\x1b"
		},
			[]string{`dead: it was set aside at 12:00:00, 0s ago (permanent): exit 65: bad\x1b`}},
		{"Dropped", jobs.Dropped, func(s *shown) { s.Item.Finished = noon }, []string{"dropped: it was taken out of the list at 12:00:00, 0s ago; its key is free"}},
		{"DroppedAndThereAnew", jobs.Dropped, func(s *shown) { s.Item.Finished, s.Successor = noon, 9 }, []string{"dropped: it was taken out of the list at 12:00:00, 0s ago; its key is item 9 now"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShown(c.state)
			c.set(s)
			doc := NewShow(&s.Story, s.Around, noon)
			var got []string
			for i, w := range doc.Why {
				text := w.Code + ": " + w.Text
				if i < len(c.want) && strings.HasPrefix(text, c.want[i]) {
					text = c.want[i]
				}
				got = append(got, text)
				if !strings.Contains(readme, "`"+w.Code+"`") {
					t.Errorf("README.md does not name the code %s", w.Code)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkScreen(t, doc)
		})
	}
}

// An item that is ready because its command can't be run does not only wait
// for a run: the next one fails alike.
func TestShow_Broken(t *testing.T) {
	attempt := func(class jobs.Class, reason string) store.AttemptRow {
		return store.AttemptRow{Number: 2, Class: class, Reason: reason, Started: noon.Add(-time.Minute), Duration: time.Second}
	}
	for _, c := range []struct {
		name string
		set  func(*shown)
		want []string
	}{
		{"Broken", func(s *shown) {
			s.Runs, s.Attempts = nil, []store.AttemptRow{attempt(jobs.ClassBroken, "./gone.sh: no such file")}
		},
			[]string{"attempt 2 could not run its command, at 11:59:01, 59s ago: ./gone.sh: no such file -> batchq check", "no run is at work -> batchq work pos"}},
		{"Suspect", func(s *shown) {
			s.Declared, s.Runs, s.Attempts = nil, nil, []store.AttemptRow{attempt(jobs.ClassSuspect, "exit 127: x: not found")}
		},
			[]string{"attempt 2 could not find or execute its command, or one that this calls, at 11:59:01, 59s ago: exit 127: x: not found",
				"job pos is not declared: there is no batchq.toml -> batchq work pos -- COMMAND {}", "no run is at work"}},
		{"BesideARunThatTakesIt", func(s *shown) { s.Attempts = []store.AttemptRow{attempt(jobs.ClassBroken, "gone")} },
			[]string{"attempt 2 could not run its command, at 11:59:01, 59s ago: gone -> batchq check"}},
		{"AnEarlierAttempt", func(s *shown) {
			s.Item.Attempt, s.Runs, s.Attempts = 3, nil, []store.AttemptRow{attempt(jobs.ClassBroken, "gone")}
		}, []string{"no run is at work -> batchq work pos"}},
		{"AnotherClass", func(s *shown) { s.Runs, s.Attempts = nil, []store.AttemptRow{attempt(jobs.ClassFree, "stopped")} },
			[]string{"no run is at work -> batchq work pos"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShown(jobs.Ready)
			s.Item.Attempt = 2
			c.set(s)
			doc := NewShow(&s.Story, s.Around, noon)
			var got []string
			for _, w := range doc.Why {
				text := w.Text
				for _, h := range w.Hints {
					text += " -> " + h.Command
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			checkScreen(t, doc)
		})
	}
}

// readme is what README.md says of show's document.
func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n- `show`: ")
	part, _, _ := strings.Cut(after, "\n- `")
	return part
}

// checkScreen wants whole lines of at most 80 columns that no terminal obeys,
// but for commands and output; and a document without a null where a list is.
func checkScreen(t *testing.T, s Show) {
	t.Helper()
	var b strings.Builder
	if err := s.WriteText(&b, 0); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		line, whole := strings.CutSuffix(line, "\n")
		if !whole || Safe(line) != line || !utf8.ValidString(line) {
			t.Errorf("line %q", line)
		}
		if n := twwidth.Width(line); n > 80 && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "  | ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if err := WriteJSON(&b, s); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{`"why": null`, `"history": null`, `"hints": null`, `"processes": null`} {
		if strings.Contains(b.String(), list) {
			t.Errorf("%s in\n%s", list, b.String())
		}
	}
}

// Whom to ask next: the commands are those of this database, and only what
// helps is suggested.
func TestShow_Hints(t *testing.T) {
	for _, c := range []struct {
		name  string
		state jobs.State
		set   func(*shown)
		want  []string
	}{
		{"Dead", jobs.Dead, func(*shown) {}, []string{"batchq --db x dlq show 7", "batchq --db x requeue 7", "batchq --db x drop 7"}},
		{"LeftBehind", jobs.Running, func(s *shown) {
			s.orphaned(Remains{Processes: []Process{{PID: 31, Name: "sh", Reason: "it is another user's"}}})
		},
			[]string{"batchq --db x drop 7", "kill 31"}},
		{"LeftBehindAndNobodyAtWork", jobs.Running, func(s *shown) { s.Life[12] = Dead; s.orphaned(Remains{Processes: []Process{{PID: 31, Name: "sh"}}}) },
			[]string{"batchq --db x work pos", "batchq --db x drop 7"}},
		{"DeadRunBesideALiveOne", jobs.Claimed, func(s *shown) { s.Grip.Run.ID = 9 }, nil},
		{"Paused", jobs.Ready, func(s *shown) {
			s.Pauses = []store.Pause{{}, {Target: store.Target{Lane: "parallel"}}, {Target: store.Target{Job: "pos"}}}
		}, []string{"batchq --db x resume --all", "batchq --db x resume --lane parallel", "batchq --db x resume pos"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShown(c.state)
			s.Self = "batchq --db x"
			c.set(s)
			var got []string
			for _, w := range NewShow(&s.Story, s.Around, noon).Why {
				for _, h := range w.Hints {
					got = append(got, h.Command)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each attempt on record, what it printed with a mark before each line, and
// those of which nothing is kept.
func TestShow_Attempts(t *testing.T) {
	s := newShown(jobs.Done)
	it := &s.Item
	it.Attempt, it.Started, it.Finished, it.Key = 7, noon.Add(-2*time.Second), noon, []byte("k\xff\x1b[2J")
	s.Attempts = []store.AttemptRow{
		{Number: 2, Run: 3, Class: jobs.ClassRetry, Exited: true, ExitCode: 75, Reason: "exit 75: " + strings.Repeat("word ", 20), Started: noon.Add(-time.Hour), Duration: 1500 * time.Millisecond,
			Output: jobs.Output{Head: []byte("\x1b[31mred\nhalf"), Tail: []byte(" a line\n\nlast")}},
		{Number: 5, Run: 4, Class: jobs.ClassRetry, Signal: "SIGKILL", Reason: "killed by SIGKILL", Started: noon.Add(-time.Minute),
			Output: jobs.Output{Head: []byte("begin\xff\n"), Omitted: 2048, Tail: []byte("end\r\n")}},
	}
	doc := NewShow(&s.Story, s.Around, noon)
	var b strings.Builder
	if err := doc.WriteText(&b, 0); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(b.String(), "\n\nattempt")
	want := ` 1: nothing is on record

attempt 2: retry, run 3, begun 11:00:00, took 1.5s
  exit 75: word word word word word word word word word word word word word word
    word word word word word word` + " " + `
  | \x1b[31mred
  | half a line
  | 
  | last

attempts 3 to 4: nothing is on record

attempt 5: retry, run 4, begun 11:59:00, took 0s
  killed by SIGKILL
  | begin\xff
  … 2.0 KiB left out …
  | end\r

attempt 6: nothing is on record

attempt 7: done, begun 11:59:58, took 2.0s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkScreen(t, doc)

	b.Reset()
	if err := WriteJSON(&b, doc); err != nil {
		t.Fatal(err)
	}
	var back Show
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil {
		t.Fatal(err)
	}
	first, second, last := back.History[0], back.History[1], back.History[2]
	if o := first.Output; *first.ExitCode != 75 || o.Head != "\x1b[31mred\nhalf" || o.HeadBase64 != "" || o.Tail != " a line\n\nlast" {
		t.Errorf("%+v %+v", first, o)
	}
	if o := second.Output; second.ExitCode != nil || second.Signal != "SIGKILL" || o.Head != `begin\xff`+"\n" || o.HeadBase64 != "YmVnaW7/Cg==" || o.Omitted != 2048 {
		t.Errorf("%+v %+v", second, o)
	}
	if last.Class != "done" || last.Run != nil || last.Output != nil || last.Seconds != 2 {
		t.Errorf("%+v", last)
	}
	if strings.ContainsRune(b.String(), 0x1b) || back.Base64 != "a/8bWzJK" {
		t.Errorf("%q %q", back.Base64, b.String())
	}
}

// A key with wide characters, or without a space, breaks no line of ours.
func TestShow_Fold(t *testing.T) {
	for _, width := range []int{0, 40, 200} {
		s := newShown(jobs.Ready)
		s.Item.Key = []byte(strings.Repeat("日本 ", 60))
		var b strings.Builder
		if err := NewShow(&s.Story, s.Around, noon).WriteText(&b, width); err != nil {
			t.Fatal(err)
		}
		most := 0
		for line := range strings.Lines(b.String()) {
			if !strings.HasPrefix(line, "idempotency") && !strings.HasPrefix(line, "    ") {
				most = max(most, twwidth.Width(strings.TrimSuffix(line, "\n")))
			}
		}
		if limit := map[int]int{0: 80, 40: 40, 200: 80}[width]; most > limit {
			t.Errorf("width %d: a line of %d columns in\n%s", width, most, b.String())
		}
	}
}

func TestBearers(t *testing.T) {
	var rows []store.ItemRow
	for i := range 12 {
		rows = append(rows, store.ItemRow{Item: jobs.Item{ID: int64(20 - i), Scope: strings.Repeat("s\x1b", i), State: jobs.Done}})
	}
	got := Bearers(rows)
	if len(got) != 11 || got[0] != "item 20, no scope: done" || got[1] != `item 19, scope s\x1b: done` || got[10] != "and 2 older ones" {
		t.Errorf("%q", got)
	}
	if got := Bearers(rows[:2]); len(got) != 2 || slices.Contains(got, "and") {
		t.Errorf("%q", got)
	}
}
