package jobs

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// Item is one target of one job. (Job, Scope, Key) identifies it among those
// that have not been dropped or pruned; ID identifies it for ever.
type Item struct {
	ID       int64
	Job      string
	Scope    string
	Key      []byte // the idempotency key as it came; any bytes, never empty
	Payload  []byte // what the command reads on stdin; nil where there is none
	State    State
	Priority int // each step is a head start of PriorityStep
	// Generation counts the lives of the key: it grows when a payload is
	// replaced or a finished item is made ready again.
	Generation int
	Attempt    int // attempts started so far; never reset
	Failures   int // charged to the item; reset by requeue
	Crashes    int // runs that died while it was running; reset by requeue
	Defers     int // times it asked to be put off; reset by requeue
	Due        time.Time
}

// PriorityStep is the head start that one step of priority gives. It is a
// bounded advantage, so that a low priority is late but never starves.
const PriorityStep = time.Minute

// MaxPriority bounds a priority either way, so that a rank (due − priority ×
// PriorityStep, in milliseconds) can't overflow for any time that we accept.
const MaxPriority = 1_000_000

// IdempotencyKey is what a job hands to other systems so that they can
// recognise a repetition: the same on every attempt of one generation of the
// item, another after its payload was replaced or a done item was made ready
// again. database is the database's own random identity, so that a test copy
// never shares keys with production. 32 hexadecimal digits.
func (it *Item) IdempotencyKey(database string) string {
	h := sha256.New()
	h.Write([]byte(database))
	var n [16]byte
	binary.BigEndian.PutUint64(n[:8], uint64(it.ID))
	binary.BigEndian.PutUint64(n[8:], uint64(it.Generation))
	h.Write(n[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}
