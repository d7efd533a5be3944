package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"sync"
	"time"
)

// Source yields the records of a list, one at a time.
type Source interface {
	// Next returns the next record, or io.EOF. A *Rejected error stands for
	// one record, and the list goes on after it; any other error ends it.
	Next() (Record, error)
}

// Enqueuer is the part of a Queue that a Feed needs.
type Enqueuer interface {
	Enqueue(ctx context.Context, e Enqueue) (Enqueued, error)
}

// Record is one target of a list. Its slices are valid until the next Next.
type Record struct {
	Key     []byte
	Payload []byte // nil: none
	Where   Where
}

// Where is the place of a record, for messages.
type Where struct {
	Name string // of the file, "stdin", …
	Line int64  // from 1
}

func (w Where) String() string { return fmt.Sprintf("%s:%d", w.Name, w.Line) }

// Rejected is a record that can't become an item.
type Rejected struct {
	Where
	Reason string
}

func (r *Rejected) Error() string { return r.Where.String() + ": " + r.Reason }

// Feed says how a list of any length becomes items of one job and scope.
type Feed struct {
	Job, Scope  string
	Priority    int
	Delay       time.Duration // see NewItem
	At          time.Time
	OnDuplicate OnDuplicate
	DryRun      bool
	// Keep is how many records of each kind Fed names; the others are counted.
	Keep int
}

// Fed is what became of a list.
type Fed struct {
	Read int64 // records, the rejected ones among them

	Added, Duplicate, Conflict, Dead, Replaced, Requeued, Rejected int64
	DuplicateDone                                                  int64 // among Duplicate

	// The first few of those that did not go in.
	Rejects   []Rejected
	Conflicts []Named
	InDLQ     []Named
	// Stop is the record at which OnDuplicate Fail ended the list; nothing
	// after it was tried.
	Stop *Named
}

// Named is a record that a person has to look at.
type Named struct {
	Where
	Key []byte
}

const (
	// portionBytes bounds what a transaction carries besides MaxRows, so that
	// neither memory nor the lock's time grows with the payloads.
	portionBytes = 4 << 20
	// breath is the pause between two transactions, in which a heartbeat can
	// take the lock: it asks again every 10 ms at the latest.
	breath = time.Millisecond
	// lull is how long records of a slow producer wait for company.
	lull = 100 * time.Millisecond
)

// Run reads src to its end and adds what it yields to q, in transactions of at
// most MaxRows records with a breath between. Reading and inserting go side
// by side. A DryRun may have a nil q: a list that has nothing yet.
//
// An error of src, of q, or the end of ctx stops it; what Fed counts has gone
// in by then and stays, so that the same list again completes the work. After
// such an end src may still be waiting in Next in a goroutine of its own,
// which nothing can interrupt, and must not be used any more.
func (f *Feed) Run(ctx context.Context, q Enqueuer, src Source) (Fed, error) {
	in := &intake{filling: &portion{}, spare: &portion{}, ready: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{})}
	defer close(in.stop)
	go in.read(src)
	run := &feeding{Feed: f, bare: map[uint64]struct{}{}, loaded: map[uint64]uint64{}, seed: maphash.MakeSeed()}
	for {
		p, err := in.take(ctx)
		if err != nil {
			return run.fed, err
		}
		goOn, err := run.insert(ctx, q, p)
		if err != nil || !goOn {
			return run.fed, err
		}
		if p.end == io.EOF {
			return run.fed, nil
		}
		if p.end != nil {
			return run.fed, p.end
		}
		in.giveBack(p)
		time.Sleep(breath)
	}
}

// feeding is one Run.
type feeding struct {
	*Feed
	fed Fed
	// What a dry run would have made ready by now, as hashes: keys without a
	// payload, and keys with theirs. An item of the list itself can't be found
	// in the database then.
	bare   map[uint64]struct{}
	loaded map[uint64]uint64
	seed   maphash.Seed
}

// insert makes one transaction of a portion. goOn is false when the list ends
// at a duplicate.
func (r *feeding) insert(ctx context.Context, q Enqueuer, p *portion) (goOn bool, err error) {
	for i := range p.items {
		it := &p.items[i]
		it.Priority, it.Delay, it.At = r.Priority, r.Delay, r.At
	}
	outcomes := make([]Outcome, len(p.items)) // all Added, for a list that has nothing yet
	if len(p.items) > 0 && q != nil {
		e := Enqueue{Job: r.Job, Scope: r.Scope, Items: p.items, OnDuplicate: r.OnDuplicate, DryRun: r.DryRun}
		answer, err := q.Enqueue(ctx, e)
		if err != nil {
			return false, err
		}
		outcomes = answer.Outcomes
	}
	rejects := p.rejects
	for i, o := range outcomes {
		for len(rejects) > 0 && rejects[0].before <= i {
			r.reject(rejects[0].Rejected)
			rejects = rejects[1:]
		}
		if r.DryRun {
			o = r.rehearsed(&p.items[i], o)
		}
		r.count(o, &p.items[i], p.where[i])
		if o == Stopped {
			return false, nil
		}
	}
	for _, one := range rejects {
		r.reject(one.Rejected)
	}
	return true, nil
}

func (r *feeding) reject(one Rejected) {
	r.fed.Read++
	r.fed.Rejected++
	if len(r.fed.Rejects) < r.Keep {
		r.fed.Rejects = append(r.fed.Rejects, one)
	}
}

func (r *feeding) count(o Outcome, it *NewItem, where Where) {
	fed := &r.fed
	fed.Read++
	name := func(list []Named) []Named {
		if len(list) >= r.Keep {
			return list
		}
		return append(list, Named{where, bytes.Clone(it.Key)})
	}
	switch o {
	case Added:
		fed.Added++
	case Duplicate:
		fed.Duplicate++
	case DuplicateDone:
		fed.Duplicate++
		fed.DuplicateDone++
	case Conflict:
		fed.Conflict++
		fed.Conflicts = name(fed.Conflicts)
	case InDLQ:
		fed.Dead++
		fed.InDLQ = name(fed.InDLQ)
	case Replaced:
		fed.Replaced++
	case Requeued:
		fed.Requeued++
	case Stopped:
		fed.Stop = &Named{where, bytes.Clone(it.Key)}
	}
}

// rehearsed corrects a dry run's outcome for a key that the list has had
// before: it would be ready by now.
func (r *feeding) rehearsed(it *NewItem, o Outcome) Outcome {
	again, same := r.seen(it)
	switch {
	case !again && (o == Added || o == Replaced || o == Requeued):
		r.see(it)
		return o
	case !again:
		return o
	case r.OnDuplicate == Fail:
		return Stopped
	case r.OnDuplicate == Replace:
		r.see(it)
		return Replaced
	case !same:
		return Conflict
	}
	return Duplicate
}

// seen says whether the list has had a key, and whether with the same payload.
func (r *feeding) seen(it *NewItem) (again, same bool) {
	key := maphash.Bytes(r.seed, it.Key)
	if _, again := r.bare[key]; again {
		return true, it.Payload == nil
	}
	payload, again := r.loaded[key]
	return again, again && it.Payload != nil && payload == maphash.Bytes(r.seed, it.Payload)
}

func (r *feeding) see(it *NewItem) {
	key := maphash.Bytes(r.seed, it.Key)
	delete(r.bare, key)
	delete(r.loaded, key)
	if it.Payload == nil {
		r.bare[key] = struct{}{}
		return
	}
	r.loaded[key] = maphash.Bytes(r.seed, it.Payload)
}

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
	it := NewItem{Key: p.keep(rec.Key)}
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
	if cap(text) > portionBytes {
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
