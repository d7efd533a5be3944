package report

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"batchq/store"
)

// GroupBy says what makes items of the dead-letter list alike.
type GroupBy string

const (
	ByError GroupBy = "error" // job, class, and reason without what differs from item to item
	ByClass GroupBy = "class"
	ByJob   GroupBy = "job"
)

// GroupsBy lists every way to group.
func GroupsBy() []GroupBy { return []GroupBy{ByError, ByClass, ByJob} }

const (
	// groupsKept bounds the memory: where reasons can't be told from ids, every
	// item would be a group of its own.
	groupsKept = 10_000
	// textKept is how much of a group's text is kept, in characters.
	textKept = 300
	// examplesKept is how many items of a group are named.
	examplesKept = 3
)

// DeadGroups is the dead-letter list with like items folded into one row: the
// document of `dlq list --by --json`, once it is sorted.
type DeadGroups struct {
	SchemaVersion int          `json:"schema_version"`
	By            GroupBy      `json:"by"`
	Items         int          `json:"items"` // in all groups, those left out too
	Groups        []*DeadGroup `json:"groups"`
	More          int          `json:"more"` // groups that --limit left out
	// Apart counts items that fit no group when there were groupsKept of them.
	Apart int `json:"apart"`

	known map[groupKey]*DeadGroup
	now   time.Time
}

// DeadGroup is one row of it: items that are alike.
type DeadGroup struct {
	Count    int      `json:"count"`
	Jobs     []string `json:"jobs"`    // sorted; one, except by class
	Classes  []string `json:"classes"` // sorted; one, except by job
	Text     string   `json:"text"`    // the reason, with # and … for what differs; "" unless by error
	Part     string   `json:"part"`    // of the reason, for --error; "" when there is none
	First    string   `json:"first"`   // dead since; the longest
	Last     string   `json:"last"`
	Examples []int64  `json:"examples"` // ids, the last dead first

	last time.Time
}

type groupKey struct{ job, class, text string }

// NewDeadGroups begins with no item.
func NewDeadGroups(by GroupBy, now time.Time) *DeadGroups {
	return &DeadGroups{SchemaVersion: SchemaVersion, By: by, Groups: []*DeadGroup{}, known: map[groupKey]*DeadGroup{}, now: now}
}

// Add folds dead items in, the longest dead first.
func (d *DeadGroups) Add(rows []store.ItemRow) {
	for i := range rows {
		r := &rows[i]
		d.Items++
		g := d.group(r)
		if g == nil {
			d.Apart++
			continue
		}
		if g.Count++; g.Count == 1 {
			g.First = timestamp(r.Finished)
		}
		g.last, g.Last = r.Finished, timestamp(r.Finished)
		g.Jobs, g.Classes = with(g.Jobs, r.Job), with(g.Classes, string(r.Class))
		g.Examples = append([]int64{r.ID}, g.Examples[:min(len(g.Examples), examplesKept-1)]...)
	}
}

// group is the one that r belongs to; nil when it would be one too many.
func (d *DeadGroups) group(r *store.ItemRow) *DeadGroup {
	var k groupKey
	var m masked
	switch d.By {
	case ByError:
		m = mask(r.Reason)
		k = groupKey{r.Job, string(r.Class), Short(m.text, textKept)}
	case ByClass:
		k.class = string(r.Class)
	case ByJob:
		k.job = r.Job
	}
	g := d.known[k]
	if g == nil && len(d.known) < groupsKept {
		g = &DeadGroup{Text: k.text, Part: m.part, Jobs: []string{}, Classes: []string{}, Examples: []int64{}}
		d.known[k] = g
	}
	return g
}

// with is a sorted list with word in it.
func with(list []string, word string) []string {
	if i, there := slices.BinarySearch(list, word); !there {
		return slices.Insert(list, i, word)
	}
	return list
}

// Sort makes the rows, the most frequent first, at most limit of them; 0 is all.
func (d *DeadGroups) Sort(limit int) {
	d.Groups = slices.AppendSeq(d.Groups[:0], maps.Values(d.known)) // never nil: JSON says []
	slices.SortFunc(d.Groups, func(a, b *DeadGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.last.Compare(a.last), cmp.Compare(b.Examples[0], a.Examples[0]))
	})
	if limit > 0 && len(d.Groups) > limit {
		d.More = len(d.Groups) - limit
		d.Groups = d.Groups[:limit]
	}
}

// WriteTable draws the groups for a terminal of the given width.
func (d *DeadGroups) WriteTable(w io.Writer, width int) error {
	if len(d.Groups) == 0 {
		return nil
	}
	count, last, example := column{title: "COUNT", right: true}, column{title: "LAST", yields: true}, column{title: "EXAMPLE", right: true}
	var t table
	switch d.By {
	case ByError:
		t.columns = []column{count, {title: "JOB", flex: true}, {title: "CLASS"}, last, example, {title: "REASON", flex: true}}
	case ByClass:
		t.columns = []column{count, {title: "CLASS"}, last, example, {title: "JOBS", flex: true}}
	case ByJob:
		t.columns = []column{count, {title: "JOB", flex: true}, last, example, {title: "CLASSES", flex: true}}
	}
	d.fill(&t, func(g *DeadGroup) string { return Moment(g.last, d.now) })
	return t.write(w, width)
}

// WriteTabs writes the same columns for the next program, with times in UTC.
func (d *DeadGroups) WriteTabs(w io.Writer) error {
	var t table
	d.fill(&t, func(g *DeadGroup) string { return g.Last })
	return t.writeTabs(w)
}

func (d *DeadGroups) fill(t *table, last func(*DeadGroup) string) {
	for _, g := range d.Groups {
		count, example := strconv.Itoa(g.Count), number(g.Examples[0])
		jobs, classes := Safe(strings.Join(g.Jobs, ", ")), strings.Join(g.Classes, ", ")
		switch d.By {
		case ByError:
			t.add(count, jobs, classes, last(g), example, g.Text)
		case ByClass:
			t.add(count, classes, last(g), example, jobs)
		case ByJob:
			t.add(count, jobs, last(g), example, classes)
		}
	}
}
