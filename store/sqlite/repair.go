package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"batchq/jobs/fault"
	"batchq/store"
)

// Repair mends what Check finds where nothing can be lost by it. No item is
// deleted, and none changes its state: what is held stays so, for the next run
// to take back. Each step looks first without the write lock, and again with
// it; it changes at most MaxRows rows, and a heartbeat has its turn between two.
func (db *DB) Repair(ctx context.Context) (mended []string, err error) {
	say := func(what string, n int64) {
		if n > 0 {
			mended = append(mended, fmt.Sprintf("%s: %d", what, n))
		}
	}
	for _, m := range mends() {
		n, err := db.repeat(ctx, m.where, func(t *tx) (int64, error) { return m.run(t) })
		say(m.text, n)
		if err != nil {
			return mended, err
		}
	}
	for _, path := range db.companions() {
		if db.MendFile(path) {
			mended = append(mended, path+" is its owner's alone")
		}
	}
	return mended, nil
}

// mend is one kind of fault and its cure.
type mend struct {
	where string // a query that yields a row while there is something to mend
	text  string
	run   func(t *tx) (int64, error) // mends at most MaxRows of them
}

// mends lists the cures in the order in which they may hang on each other.
func mends() []mend {
	all := []mend{
		// A slot that lost its run is that of the claim under which its item runs.
		{where: "SELECT 1 FROM slot WHERE " + strandedSlot, text: "slots given to the run that holds their item", run: func(t *tx) (int64, error) {
			return t.change(`UPDATE slot SET run = (SELECT c.run FROM item i JOIN claim c ON c.id = i.claim WHERE i.id = slot.item)
				WHERE id IN (SELECT id FROM slot WHERE `+strandedSlot+` LIMIT ?)`, store.MaxRows)
		}},
		{where: lostRuns, text: "records made for runs that have none any more", run: (*tx).standIns},
		loose("slot", "id", idleSlot, "slots of items that do not run removed"),
	}
	for _, l := range []struct{ table, key, where, of string }{
		{"payload", "item", "item NOT IN (SELECT id FROM item)", "items"},
		{"attempt", "item, number", "item NOT IN (SELECT id FROM item)", "items"},
		// While there are items of it, somebody may still bring a job's name back.
		{"policy", "run, job", "run NOT IN (SELECT id FROM run) OR job NOT IN (SELECT id FROM job) AND job NOT IN (SELECT job FROM item)", "runs or jobs"},
		{"streak", "job, item", "job NOT IN (SELECT job FROM breaker)", "breakers"},
		{"breaker", "job", "job NOT IN (SELECT id FROM job)", "jobs"},
		{"throttle", "job", "job NOT IN (SELECT id FROM job)", "jobs"},
		{"pace", "job", "job NOT IN (SELECT id FROM job)", "jobs"},
		{"squeeze", "job", "job NOT IN (SELECT id FROM job)", "jobs"},
		{"daily", "job, lane, day", "job NOT IN (SELECT id FROM job) AND job NOT IN (SELECT job FROM item)", "jobs"},
		{"latency", "job, lane, day, bucket", "job NOT IN (SELECT id FROM job) AND job NOT IN (SELECT job FROM item)", "jobs"},
		{"tally", "job, scope", `(job NOT IN (SELECT id FROM job) OR scope NOT IN (SELECT id FROM scope))
			AND NOT EXISTS (SELECT 1 FROM item i WHERE i.job = tally.job AND i.scope = tally.scope)`, "jobs or scopes"},
	} {
		all = append(all, loose(l.table, l.key, l.where, fmt.Sprintf("rows of %s of %s that are not there removed", l.table, l.of)))
	}
	return append(all,
		mend{where: offBooks, text: "lists whose books were written anew", run: (*tx).rewriteBooks},
		loose("latency", "job, lane, day, bucket", "n < 1", "durations without a count removed"),
		mend{where: "SELECT 1 FROM daily WHERE " + negative, text: "negative counters set to 0", run: (*tx).raiseNegative},
		mend{where: overfull, text: "days whose successes were counted from their durations", run: (*tx).raiseDays},
		mend{where: shortCounters, text: "jobs whose counters were raised to what is known", run: (*tx).raiseJobs},
		mend{where: "SELECT 1 FROM book WHERE last_item < (SELECT max(id) FROM item) OR last_claim < " + highestClaim,
			text: "the last numbers given out corrected", run: func(t *tx) (int64, error) {
				return t.change("UPDATE book SET last_item = max(last_item, coalesce((SELECT max(id) FROM item), 0)), last_claim = max(last_claim, " + highestClaim + ")")
			}},
	)
}

// loose removes rows that belong to nothing.
func loose(table, key, where, text string) mend {
	return mend{where: "SELECT 1 FROM " + table + " WHERE " + where, text: text, run: func(t *tx) (int64, error) {
		return t.change(fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT %s FROM %s WHERE %s LIMIT ?)", table, key, key, table, where), store.MaxRows)
	}}
}

// repeat runs a cure until nothing of the kind is found any more.
func (db *DB) repeat(ctx context.Context, where string, run func(*tx) (int64, error)) (all int64, err error) {
	for {
		var found bool
		err := db.read(ctx, "repair", func(s *snapshot) error {
			return s.row("SELECT EXISTS ("+where+")", nil, &found)
		})
		if err != nil || !found {
			return all, err
		}
		var n int64
		err = db.write(ctx, "repair", synced, func(t *tx) (err error) {
			n, err = run(t)
			return err
		})
		all += n
		if err != nil || n == 0 { // somebody else was faster, or it can't be helped
			return all, err
		}
		fault.Here("repair", "step")
		if err := store.Breathe(ctx); err != nil {
			return all, err
		}
	}
}

// strandedSlot is true of a slot whose run has no record, while its item runs
// under the claim of one that has.
const strandedSlot = `run NOT IN (SELECT id FROM run)
	AND EXISTS (SELECT 1 FROM item i JOIN claim c ON c.id = i.claim JOIN run r ON r.id = c.run WHERE i.id = slot.item AND i.state = 3)`

// lostRuns are the runs of which only what they hold is on record.
const lostRuns = `SELECT run AS id FROM claim WHERE run NOT IN (SELECT id FROM run)
	UNION SELECT run FROM slot WHERE run NOT IN (SELECT id FROM run) AND NOT (` + idleSlot + `)
	UNION SELECT orphan FROM slot WHERE orphan IS NOT NULL AND orphan NOT IN (SELECT id FROM run) AND NOT (` + idleSlot + `)`

// standIns makes a record for each run that lost its own, as one that has
// ended: what it held is then taken over like that of any other run. It is said
// to have been on the host and boot of the last run known, or what it left
// behind would be taken for ended by a reboot.
func (t *tx) standIns() (n int64, err error) {
	var lost []int64
	err = t.rows(lostRuns+" LIMIT ?", []any{store.MaxRows}, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		lost = append(lost, id)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, id := range lost {
		err := t.exec(`INSERT INTO run (id, token, pid, pid_start, boot, pid_ns, session, host, file, schema, command, started, ended, outcome)
			SELECT ?1, ?2, 0, 0, coalesce(max(boot), ''), coalesce(max(pid_ns), ''), coalesce(max(session), -1), coalesce(max(host), ''), coalesce(max(file), ''),
				?3, '[]', ?4, ?4, 'its record was lost' FROM (SELECT * FROM run ORDER BY id DESC LIMIT 1)`,
			id, strings.ToLower(rand.Text()), schemaVersion, t.now)
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// rewriteBooks counts again, with the write lock in hand, and writes what it
// finds; what was pruned can't be counted any more and is taken as it stands.
func (t *tx) rewriteBooks() (n int64, err error) {
	var all []off
	err = t.rows(offBooks+" LIMIT ?", []any{store.MaxRows}, func(scan func(...any) error) error {
		var o off
		err := scan(o.dest()...)
		all = append(all, o)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, o := range all {
		f := o.found
		done, err := t.change(`INSERT INTO tally (job, scope, enqueued, ready, delayed, claimed, running, done, dead, dropped, pruned)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0 WHERE EXISTS (SELECT 1 FROM job WHERE id = ?1) AND EXISTS (SELECT 1 FROM scope WHERE id = ?2)
			ON CONFLICT DO UPDATE SET enqueued = ?3 + max(pruned, 0), pruned = max(pruned, 0), ready = ?4, delayed = ?5, claimed = ?6, running = ?7, done = ?8, dead = ?9, dropped = ?10`,
			o.job, o.scope, f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7])
		if err != nil {
			return n, err
		}
		n += done
	}
	return n, nil
}

func (t *tx) raiseNegative() (int64, error) {
	return t.change(`UPDATE daily SET done = max(done, 0), retries = max(retries, 0), timeouts = max(timeouts, 0), dead = max(dead, 0),
		crashes = max(crashes, 0), lapses = max(lapses, 0), stale = max(stale, 0), duplicates = max(duplicates, 0), conflicts = max(conflicts, 0)
		WHERE (job, lane, day) IN (SELECT job, lane, day FROM daily WHERE `+negative+" LIMIT ?)", store.MaxRows)
}

func (t *tx) raiseDays() (int64, error) {
	return t.change(`INSERT INTO daily (job, lane, day, done) SELECT job, lane, day, n FROM (`+overfull+`) WHERE job IN (SELECT id FROM job) LIMIT ?
		ON CONFLICT DO UPDATE SET done = excluded.done`, store.MaxRows)
}

// raiseJobs books what was not counted on the day on which that was found.
func (t *tx) raiseJobs() (n int64, err error) {
	var all []short
	err = t.rows(shortCounters+" LIMIT ?", []any{store.MaxRows}, func(scan func(...any) error) error {
		var c short
		err := scan(c.dest()...)
		all = append(all, c)
		return err
	})
	for _, c := range all {
		var lack [4]int64
		for i := range lack {
			lack[i] = max(0, c.known[i]-c.counted[i])
		}
		h := t.event(c.job, c.lane)
		h.done, h.dead, h.crashes, h.timeouts = h.done+lack[0], h.dead+lack[1], h.crashes+lack[2], h.timeouts+lack[3]
		n++
	}
	return n, err
}
