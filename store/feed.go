package store

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"io"
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
	// Scope, where it is set, and then Priority are the record's own, and count
	// instead of the Feed's.
	Scope    *string
	Priority int
	Where    Where
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

// Feed says how a list of any length becomes items of one job.
type Feed struct {
	Job         string
	Scope       string // this and Priority are those of records that bring none
	Priority    int
	Delay       time.Duration // see NewItem
	At          time.Time
	OnDuplicate OnDuplicate
	DryRun      bool
	// Tell, where it is set, is told after each transaction what has become of
	// the list so far.
	Tell func(Fed)
	// Each, where it is set, is told of every record that could become an item,
	// and what became of it. The item's slices are valid until it returns.
	Each func(it *NewItem, o Outcome)
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
	portionBytes = 2 << 20
	// Breath is the pause between two transactions of a long command, in which
	// a heartbeat can take the lock: it asks again every 10 ms at the latest.
	Breath = time.Millisecond
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
	in := newIntake()
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
		if f.Tell != nil {
			f.Tell(run.fed)
		}
		if p.end == io.EOF {
			return run.fed, nil
		}
		if p.end != nil {
			return run.fed, p.end
		}
		in.giveBack(p)
		time.Sleep(Breath)
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
		it.Delay, it.At = r.Delay, r.At
		if it.Scope == nil {
			it.Priority = r.Priority
		}
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
	if r.Each != nil {
		r.Each(it, o)
	}
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

// hash stands for a key in its scope.
func (r *feeding) hash(it *NewItem) uint64 {
	key := maphash.Bytes(r.seed, it.Key)
	if it.Scope != nil {
		key = maphash.Comparable(r.seed, [2]uint64{key, maphash.String(r.seed, *it.Scope)})
	}
	return key
}

// seen says whether the list has had a key, and whether with the same payload.
func (r *feeding) seen(it *NewItem) (again, same bool) {
	key := r.hash(it)
	if _, again := r.bare[key]; again {
		return true, it.Payload == nil
	}
	payload, again := r.loaded[key]
	return again, again && it.Payload != nil && payload == maphash.Bytes(r.seed, it.Payload)
}

func (r *feeding) see(it *NewItem) {
	key := r.hash(it)
	delete(r.bare, key)
	delete(r.loaded, key)
	if it.Payload == nil {
		r.bare[key] = struct{}{}
		return
	}
	r.loaded[key] = maphash.Bytes(r.seed, it.Payload)
}
