package sqlite

import (
	"context"
	"slices"
	"time"

	"batchq/jobs"
	"batchq/jobs/fault"
	"batchq/store"
)

// The kinds of a pause, as the table calls them.
const (
	pauseAll  = "all"
	pauseLane = "lane"
	pauseJob  = "job"
)

// kindOf is how a target stands in the table.
func kindOf(t store.Target) (kind, name string) {
	switch {
	case t.Job != "":
		return pauseJob, t.Job
	case t.Lane != "":
		return pauseLane, t.Lane
	}
	return pauseAll, ""
}

func targetOf(kind, name string) store.Target {
	switch kind {
	case pauseJob:
		return store.Target{Job: name}
	case pauseLane:
		return store.Target{Lane: name}
	}
	return store.Target{}
}

// Pause holds targets back. From its commit on no run starts anything of them;
// what runs have claimed of them and not started is ready again, so that
// nothing waits for a lease until it is known to be out of every hand.
func (db *DB) Pause(ctx context.Context, targets []store.Target, by, reason string) error {
	var more bool
	err := db.write(ctx, "pausing", synced, func(t *tx) error {
		for _, target := range targets {
			kind, name := kindOf(target)
			err := t.exec(`INSERT INTO pause (kind, name, since, by, reason) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET by = excluded.by, reason = excluded.reason`, kind, name, t.now, by, reason)
			if err != nil {
				return err
			}
			fault.Here("pausing", "held")
		}
		// With it, so that an error means that nothing is paused.
		var err error
		more, err = t.takeBack(targets)
		return err
	})
	for err == nil && more {
		time.Sleep(store.Breath)
		err = db.write(ctx, "giving back what is claimed, after it was paused", unsynced, func(t *tx) (err error) {
			more, err = t.takeBack(targets)
			return err
		})
	}
	return err
}

// takeBack makes ready what is claimed of targets and not started, at most
// MaxRows of it; more says that there is more. It is free, and the run that
// held it learns of it when it wants to start it.
func (t *tx) takeBack(targets []store.Target) (more bool, err error) {
	left := store.MaxRows
	for _, target := range targets {
		freed, err := t.release(`SELECT i.id FROM item i INDEXED BY item_held JOIN job j ON j.id = i.job LEFT JOIN claim c ON c.id = i.claim
			WHERE i.claim IS NOT NULL AND i.state = 2 AND (?1 = '' OR j.name = ?1) AND (?2 = '' OR c.lane = ?2) LIMIT ?3`,
			target.Job, target.Lane, left)
		if left -= freed; err != nil || left == 0 {
			return true, err
		}
	}
	return false, nil
}

// Resume ends pauses and returns those that were there.
func (db *DB) Resume(ctx context.Context, targets []store.Target) (ended []store.Pause, err error) {
	err = db.write(ctx, "resuming", synced, func(t *tx) error {
		ended = nil
		all, err := t.pauses()
		if err != nil {
			return err
		}
		for _, p := range all {
			if targets != nil && !slices.Contains(targets, p.Target) {
				continue
			}
			kind, name := kindOf(p.Target)
			if err := t.exec("DELETE FROM pause WHERE kind = ? AND name = ?", kind, name); err != nil {
				return err
			}
			ended = append(ended, p)
			fault.Here("resuming", "ended")
		}
		return nil
	})
	return ended, err
}

// pausesQuery lists everything first, then lanes, then jobs.
const pausesQuery = "SELECT kind, name, since, by, reason FROM pause ORDER BY kind = 'job', kind = 'lane', name"

func (t *tx) pauses() (all []store.Pause, err error) {
	err = t.rows(pausesQuery, nil, scanPauses(&all))
	return all, err
}

func scanPauses(to *[]store.Pause) func(scan func(...any) error) error {
	return func(scan func(...any) error) error {
		var p store.Pause
		var kind, name string
		var since int64
		err := scan(&kind, &name, &since, &p.By, &p.Reason)
		p.Target, p.Since = targetOf(kind, name), time.UnixMilli(since).UTC()
		*to = append(*to, p)
		return err
	}
}

// InHand counts what of a target is claimed or running, and who has it.
func (db *DB) InHand(ctx context.Context, target store.Target) (in store.InHand, err error) {
	err = db.ownRead(ctx, "looking at what is held", func(t *tx) error {
		in = store.InHand{}
		args := []any{target.Job, target.Lane}
		// The index holds as many entries as items are held.
		err := t.row(`SELECT count(*) FROM item i INDEXED BY item_held JOIN job j ON j.id = i.job LEFT JOIN claim c ON c.id = i.claim
			WHERE i.claim IS NOT NULL AND i.state = ?3 AND (?1 = '' OR j.name = ?1) AND (?2 = '' OR c.lane = ?2)`,
			append(args, int64(jobs.Claimed)), &in.Claimed)
		if err != nil {
			return err
		}
		return t.rows(`SELECT s.run, min(s.started), count(*) FROM slot s JOIN job j ON j.id = s.job
			WHERE (?1 = '' OR j.name = ?1) AND (?2 = '' OR s.lane = ?2) GROUP BY s.run ORDER BY 2`, args,
			func(scan func(...any) error) error {
				h, err := scanHolder(scan)
				in.Holders = append(in.Holders, h)
				in.Running += int64(h.Slots)
				return err
			})
	})
	return in, err
}

func scanHolder(scan func(...any) error) (h store.Holder, err error) {
	var since int64
	err = scan(&h.Run, &since, &h.Slots)
	h.Since = time.UnixMilli(since).UTC()
	return h, err
}

// LaneNames lists every lane in which a job was worked last or has a slot.
func (db *DB) LaneNames(ctx context.Context) (names []string, err error) {
	err = db.ownRead(ctx, "listing lanes", func(t *tx) error {
		names = nil
		return t.rows("SELECT lane FROM job WHERE lane <> '' UNION SELECT lane FROM slot ORDER BY 1", nil, func(scan func(...any) error) error {
			var name string
			err := scan(&name)
			names = append(names, name)
			return err
		})
	})
	return names, err
}
