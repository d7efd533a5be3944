package store

import (
	"context"
	"errors"
	"sync"
	"time"
)

// intake hands portions from the goroutine that reads to the one that
// inserts. There are two: one is filled while the other is inserted.
type intake struct {
	mu      sync.Mutex
	filling *portion
	spare   *portion // nil while it is being inserted

	ready chan struct{} // a portion is full, or the list has ended
	room  chan struct{} // there is room again
	stop  chan struct{} // nobody takes portions any more
}

func newIntake() *intake {
	return &intake{filling: &portion{}, spare: &portion{},
		ready: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{})}
}

// portion is what one transaction takes.
type portion struct {
	items   []NewItem
	where   []Where // of items
	rejects []placed
	text    []byte // what keys and payloads point into
	size    int
	full    bool
	end     error // set when the list has ended with this portion
}

// placed is a rejected record and how many items stand before it.
type placed struct {
	Rejected
	before int
}

func (p *portion) empty() bool { return len(p.items) == 0 && len(p.rejects) == 0 }

// takes says whether n more bytes fit. One record always does, so that a
// large one gets a transaction of its own.
func (p *portion) takes(n int) bool {
	return p.empty() || len(p.items)+len(p.rejects) < MaxRows && p.size+n <= portionBytes
}

func (p *portion) add(rec Record) {
	it := NewItem{Key: p.keep(rec.Key), Scope: rec.Scope, Priority: rec.Priority}
	if rec.Payload != nil {
		it.Payload = p.keep(rec.Payload)
	}
	p.items, p.where = append(p.items, it), append(p.where, rec.Where)
	p.size += len(rec.Key) + len(rec.Payload)
}

// keep copies b. When text has to grow, what points into the old one stays valid.
func (p *portion) keep(b []byte) []byte {
	from := len(p.text)
	p.text = append(p.text, b...)
	return p.text[from:len(p.text):len(p.text)]
}

func (p *portion) reset() {
	text := p.text[:0]
	if cap(text) > 2*portionBytes { // as far as append may round up
		text = nil // one giant must not weigh on what follows
	}
	clear(p.items)
	*p = portion{items: p.items[:0], where: p.where[:0], rejects: p.rejects[:0], text: text}
}

// read fills portions until the list ends.
func (in *intake) read(src Source) {
	for {
		rec, err := src.Next()
		var rejected *Rejected
		if err != nil && !errors.As(err, &rejected) {
			in.mu.Lock()
			in.filling.end = err
			in.mu.Unlock()
			signal(in.ready)
			return
		}
		if !in.put(rec, rejected) {
			return
		}
	}
}

// put adds a record to the portion that is being filled, when there is room.
// It is false when nobody takes portions any more.
func (in *intake) put(rec Record, rejected *Rejected) bool {
	for {
		in.mu.Lock()
		p := in.filling
		if p.takes(len(rec.Key) + len(rec.Payload)) {
			if rejected != nil {
				p.rejects = append(p.rejects, placed{*rejected, len(p.items)})
			} else {
				p.add(rec)
			}
			in.mu.Unlock()
			return true
		}
		p.full = true
		in.mu.Unlock()
		signal(in.ready)
		select {
		case <-in.room:
		case <-in.stop:
			return false
		}
	}
}

// take waits for a portion: a full one, the last one, or what has come when
// the producer is slow.
func (in *intake) take(ctx context.Context) (*portion, error) {
	timer := time.NewTimer(lull)
	defer timer.Stop()
	late := false
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		in.mu.Lock()
		p := in.filling
		if p.end != nil || p.full || late && !p.empty() {
			if p.end == nil {
				in.filling, in.spare = in.spare, nil
			}
			in.mu.Unlock()
			signal(in.room)
			return p, nil
		}
		in.mu.Unlock()
		select {
		case <-in.ready:
		case <-timer.C:
			late = true
			timer.Reset(lull)
		case <-ctx.Done():
		}
	}
}

// giveBack makes an inserted portion the spare one again.
func (in *intake) giveBack(p *portion) {
	p.reset()
	in.mu.Lock()
	in.spare = p
	in.mu.Unlock()
}

// signal wakes whoever waits on c, now or next time.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
