package handler

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"batchq/jobs/fault"
)

const (
	// passPause lies between two looks at /proc.
	passPause = 10 * time.Millisecond
	// longestPause: with nothing new for a while there is no need to look so
	// often; the dead don't come back in a hurry.
	longestPause = 100 * time.Millisecond
	// quietPasses: how many passes in a row must find nothing. One is not
	// enough, because an environment reads empty during an exec.
	quietPasses = 2
)

// Reasons for which a process is not ended.
const (
	MayBeAnothers = "it may be another's: end it yourself if it belongs to the item"
	AnotherUsers  = "it is another user's"
)

// End ends the processes of orphans: TERM (and CONT, for what is stopped),
// KILL to what is left after killAfter, until two passes in a row find
// nothing. It returns what it could not end, each with its Reason: at once
// where all that is left is another user's or Doubtful, else 2 s after KILL.
// Each process gets one TERM; a Doubtful one is never signalled.
//
// err is ctx's cause, where it was cancelled first (left is then what was
// last seen), or why /proc can't be read: then nothing is known.
func End(ctx context.Context, orphans []Orphan, killAfter time.Duration) (left []Process, err error) {
	h := newHunt(orphans)
	h.killFrom(time.Now().Add(killAfter))
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return h.left, context.Cause(ctx)
		case <-pause.C:
		}
		if err := h.pass(time.Now()); err != nil {
			return h.left, err
		}
		if h.over {
			return h.left, nil
		}
		pause.Reset(time.Until(h.next))
	}
}

// hunt ends processes, one pass at a time, so that whoever drives it can go
// on with other things (an attempt's output) in between.
type hunt struct {
	orphans []Orphan
	// group is one whose members its driver signals, all at once: they get no
	// TERM from here.
	group int

	next time.Time // when the next pass is due
	over bool      // nothing is left, or nothing can be done about it
	left []Process // what the last pass found

	scan   scan
	began  time.Time // with the first that was found
	killAt time.Time
	giveUp time.Time        // set with the first KILL
	known  map[identity]int // all that was ever found, and whose it is
	told   map[identity]error
	quiet  int // passes in a row that found nothing that could be ended
	pause  time.Duration
}

// identity is a process and no other, on this boot.
type identity struct {
	pid   int
	start uint64
}

func newHunt(orphans []Orphan) *hunt {
	return &hunt{orphans: orphans, known: map[identity]int{}, told: map[identity]error{}, pause: passPause}
}

// killFrom says when TERM has had its time. It only ever comes sooner.
func (h *hunt) killFrom(at time.Time) {
	if h.killAt.IsZero() || at.Before(h.killAt) {
		h.killAt = at
		h.hurry()
	}
}

// hurry makes the next pass due now.
func (h *hunt) hurry() {
	h.next, h.pause = time.Time{}, passPause
}

func (h *hunt) killing(now time.Time) bool { return !now.Before(h.killAt) }

// pass looks for survivors and signals them. It sets next, over and left.
func (h *hunt) pass(now time.Time) error {
	found, err := h.scan.survivors(h.orphans, h.known)
	if err != nil {
		return err
	}
	took := time.Since(now)
	h.left = found
	if len(found) == 0 {
		h.quiet++
		h.over = h.quiet >= quietPasses
		h.next = now.Add(passPause)
		return nil
	}
	if h.began.IsZero() {
		h.began = now
	}
	killing, helpless, news := h.killing(now), 0, false
	for i := range found {
		p := &found[i]
		if p.Doubtful {
			p.Reason = MayBeAnothers
			if !p.unsettled() || now.Sub(h.began) >= dying {
				helpless++
			}
			continue
		}
		who := identity{p.PID, p.Start}
		h.known[who] = p.Orphan
		err, told := h.told[who]
		switch {
		case killing:
			err = p.signal(unix.SIGKILL)
			fault.Here("hunt", "killed")
		case !told && h.group != 0 && p.group == h.group:
			err = nil // its driver has told the whole group
		case !told:
			if err = p.signal(unix.SIGTERM); err == nil {
				_ = p.signal(unix.SIGCONT)
			}
			fault.Here("hunt", "told")
		}
		h.told[who] = err
		news = news || !told
		switch {
		case denied(err):
			helpless++
			p.Reason = AnotherUsers
		case err != nil:
			p.Reason = err.Error()
		case killing:
			p.Reason = "it is still there after KILL"
		}
	}
	if killing && h.giveUp.IsZero() {
		h.giveUp = now.Add(dying)
		news = true
	}
	if helpless == len(found) {
		h.quiet++ // twice: who is about to execute its command looks like a stranger
	} else {
		h.quiet = 0
	}
	h.over = h.quiet >= quietPasses || killing && !now.Before(h.giveUp)
	if news {
		h.pause = passPause
	} else {
		h.pause = min(h.pause*3/2, longestPause)
	}
	// A host with many processes must not spend itself on looking.
	h.next = now.Add(max(h.pause, 4*took))
	if !killing && h.next.After(h.killAt) {
		h.next = h.killAt
	}
	return nil
}
