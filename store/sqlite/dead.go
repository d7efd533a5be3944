package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// DeadLetters lists dead items with their last attempt, the longest dead first.
func (db *DB) DeadLetters(ctx context.Context, s store.Selection) (items []store.ItemRow, err error) {
	s.States = []jobs.State{jobs.Dead}
	err = db.read(ctx, "listing dead letters", func(sn *snapshot) error {
		cond, args := where(s, sn.now)
		return sn.rows("SELECT "+itemColumns+`, a.number, a.run, a.claim, a.class, a.exit_code, a.signal, a.http, a.reason, a.started, a.took, a.head, a.tail, a.omitted
			FROM `+itemTables+` LEFT JOIN attempt a ON a.item = i.id AND a.number = i.attempt
			WHERE `+cond+" ORDER BY i.finished, i.id LIMIT ?", append(args, limit(s.Limit)), func(scan func(...any) error) error {
			var a attemptColumns
			r, err := scanItem(scan, a.dest()...)
			r.Last = a.row()
			items = append(items, r)
			return err
		})
	})
	return items, err
}

// errPageFull ends the reading of a page that has become large enough.
var errPageFull = errors.New("the page is full")

// DeadPage lists a part of the dead-letter list, with payloads where they are
// wanted.
func (db *DB) DeadPage(ctx context.Context, r store.DeadRange) (page store.DeadPage, err error) {
	r.States = []jobs.State{jobs.Dead}
	page.Until = r.Until
	err = db.read(ctx, "reading the dead-letter list", func(sn *snapshot) error {
		if page.Until.IsZero() {
			var newest sql.NullInt64
			if err := sn.row("SELECT max(finished) FROM item WHERE state = 5", nil, &newest); err != nil {
				return err
			}
			page.Until = instant(newest)
		}
		err := sn.deadPage(r, &page)
		if errors.Is(err, errPageFull) {
			err = nil
		}
		return err
	})
	return page, err
}

// deadPage fills page. What attempts printed stays where it is: of a page of
// them it would be most.
func (sn *snapshot) deadPage(r store.DeadRange, page *store.DeadPage) error {
	cond, args := where(r.Selection, sn.now)
	paid, join := "0, NULL", ""
	if r.Payloads {
		paid, join = "p.item IS NOT NULL, p.body", " LEFT JOIN payload p ON p.item = i.id"
	}
	query := "SELECT " + itemColumns + `, a.number, a.run, a.claim, a.class, a.exit_code, a.signal, a.http, a.reason, a.started, a.took, NULL, NULL, 0, ` + paid + `
		FROM ` + itemTables + ` LEFT JOIN attempt a ON a.item = i.id AND a.number = i.attempt` + join + `
		WHERE ` + cond + " AND i.finished <= ? AND (i.finished, i.id) > (?, ?) ORDER BY i.finished, i.id LIMIT ?"
	args = append(args, page.Until.UnixMilli(), r.After.Finished.UnixMilli(), r.After.ID, pageRows(r.Limit))
	bytes := 0
	return sn.rows(query, args, func(scan func(...any) error) error {
		var a attemptColumns
		var paid bool
		var payload []byte
		it, err := scanItem(scan, append(a.dest(), &paid, &payload)...)
		if err != nil {
			return err
		}
		if it.Last = a.row(); paid {
			// An empty one is not the same as none; the driver reads both as nil.
			it.Payload = payload
			if payload == nil {
				it.Payload = []byte{}
			}
		}
		page.Items = append(page.Items, it)
		if bytes += len(it.Key) + len(it.Payload) + len(it.Reason); bytes >= store.PageBytes {
			return errPageFull
		}
		return nil
	})
}

// pageRows is how many rows a page of at most n has; 0 is no limit of its own.
func pageRows(n int) int {
	if n <= 0 {
		return store.MaxRows
	}
	return min(n, store.MaxRows)
}

// attemptColumns is an attempt of an outer join: all of it may be NULL.
type attemptColumns struct {
	number, run, claim, exit, started, took, omitted, http sql.NullInt64
	class, signal, reason                                  sql.NullString
	head, tail                                             []byte
}

func (a *attemptColumns) dest() []any {
	return []any{&a.number, &a.run, &a.claim, &a.class, &a.exit, &a.signal, &a.http, &a.reason, &a.started, &a.took, &a.head, &a.tail, &a.omitted}
}

func (a *attemptColumns) row() *store.AttemptRow {
	if !a.number.Valid {
		return nil
	}
	return &store.AttemptRow{
		Number: int(a.number.Int64), Run: a.run.Int64, Claim: a.claim.Int64, Class: jobs.Class(a.class.String),
		ExitCode: int(a.exit.Int64), Exited: a.exit.Valid, Signal: a.signal.String, Status: int(a.http.Int64), Reason: a.reason.String,
		Started: instant(a.started), Duration: time.Duration(a.took.Int64) * time.Microsecond,
		Output: jobs.Output{Head: a.head, Tail: a.tail, Omitted: a.omitted.Int64},
	}
}
