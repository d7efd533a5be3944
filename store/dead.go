package store

import (
	"context"
	"iter"
	"time"
)

// PageBytes bounds a page of dead items besides MaxRows, so that large payloads
// don't fill the memory. One item always fits.
const PageBytes = 2 << 20

// DeadRange asks for one page of the dead-letter list: what comes after one
// place in it, up to another.
type DeadRange struct {
	Selection // States does not count; Limit is the page's
	// After is the last item of the page before; the zero place for the first page.
	After DeadPlace
	// Until is what the first page has answered; zero for the first page.
	Until time.Time
	// Payloads says whether the items come with theirs.
	Payloads bool
}

// DeadPlace is where an item stands in the list.
type DeadPlace struct {
	Finished time.Time
	ID       int64
}

// DeadPage is the longest dead items of a range, at most MaxRows of them and
// about PageBytes. One without items is the end.
type DeadPage struct {
	Items []ItemRow // without what their last attempts printed
	// Until is when the last item died that was in the list at the first page:
	// what is set aside while pages are read is not part of them.
	Until time.Time
}

// DeadReader is the part of a Reader that DeadPages needs.
type DeadReader interface {
	DeadPage(ctx context.Context, r DeadRange) (DeadPage, error)
}

// DeadPages reads all that s names in the dead-letter list, the longest dead
// first. Each page is of a moment of its own, so that whoever reads slowly holds
// nothing up; an item that is moved before its page is read is passed over.
// An error is the last thing that it yields.
func DeadPages(ctx context.Context, from DeadReader, s Selection, payloads bool) iter.Seq2[[]ItemRow, error] {
	return func(yield func([]ItemRow, error) bool) {
		r := DeadRange{Selection: s, Payloads: payloads}
		for left := s.Limit; ; {
			r.Limit = min(left, MaxRows)
			p, err := from.DeadPage(ctx, r)
			if err != nil {
				yield(nil, err)
				return
			}
			n := len(p.Items)
			if n == 0 || !yield(p.Items, nil) {
				return
			}
			if left -= n; s.Limit > 0 && left <= 0 {
				return
			}
			last := &p.Items[n-1]
			r.After, r.Until = DeadPlace{last.Finished, last.ID}, p.Until
		}
	}
}
