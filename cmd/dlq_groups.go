package cmd

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"batchq/report"
	"batchq/store"
)

// listGroups is dlq list --by.
func listGroups(ctx context.Context, a *app, o *dlqListOptions, from store.DeadReader, sel store.Selection) error {
	groups := report.NewDeadGroups(report.GroupBy(o.by), a.now())
	for page, err := range store.DeadPages(ctx, from, sel, false) {
		if err != nil {
			return err
		}
		groups.Add(page)
	}
	table := a.out.stdout.terminal && !a.out.json
	limit := o.limit
	if table && limit == 0 {
		limit = tableRows
	}
	groups.Sort(limit)
	var err error
	switch {
	case a.out.json:
		return a.out.document(groups)
	case table:
		err = a.out.result(func(w io.Writer) error { return groups.WriteTable(w, a.out.stdout.width()) })
	default:
		err = a.out.result(groups.WriteTabs)
	}
	if err != nil {
		return err
	}
	o.tellGroups(a, groups, sel.IDs != nil)
	return nil
}

// tellGroups says below the rows what they leave open. Items that were named by
// their ids are before the reader's eyes already.
func (o *dlqListOptions) tellGroups(a *app, d *report.DeadGroups, named bool) {
	if len(d.Groups) == 0 {
		a.out.note("no dead item%s", map[bool]string{true: " matches"}[named || o.restricted()])
		return
	}
	if d.More > 0 {
		a.out.note("and %s more: --limit %d shows them all", count(d.More, "group"), len(d.Groups)+d.More)
	}
	if d.Apart > 0 {
		a.out.must("and %s that fit none of them: with --job, --class, --error or --since there is less to tell apart", count(d.Apart, "item"))
	}
	if !named {
		a.out.note("a group is listed by what its row says, the first by: %s dlq list%s", a.self(), o.choosing(d.By, d.Groups[0]))
	}
}

// choosing are the flags that select the items of a group among those that the
// command line has selected already.
func (o *dlqListOptions) choosing(by report.GroupBy, g *report.DeadGroup) string {
	var b strings.Builder
	say := func(name, value string) { b.WriteString(" --" + name + " " + shellWord(value)) }
	own := map[string]bool{}
	for _, one := range []struct {
		name, value string
		alike       bool // in all items of the group
	}{
		{"job", g.Jobs[0], by != report.ByClass}, {"class", g.Classes[0], by != report.ByJob}, {"error", g.Part, by == report.ByError},
	} {
		if one.alike && one.value != "" {
			say(one.name, one.value)
			own[one.name] = true
		}
	}
	o.flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(selecting, f.Name) && !own[f.Name] {
			for _, value := range valuesOf(f) {
				say(f.Name, value)
			}
		}
	})
	return b.String()
}

// valuesOf is what was given for a flag, which may be repeatable.
func valuesOf(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}
