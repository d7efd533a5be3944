package report

import (
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// table is rows for people. Cells must be safe already (see Safe).
type table struct {
	columns []column
	rows    [][]string
}

// column is one column of a table.
type column struct {
	title  string
	right  bool // numbers stand on the right
	flex   bool // may be cut when the terminal is too narrow
	yields bool // is left out when the terminal is too narrow
	spare  bool // is left out where no row has anything in it
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

const (
	// minFlex is how far a column is cut where that is enough: less tells little.
	minFlex = 12
	// leastFlex is how far it is cut before the ends of lines are.
	leastFlex = 6
)

// write draws the table, at most width columns of the terminal wide: first
// flexible columns are cut, and what is still too long at the end of each line.
// A line that the terminal wraps is no row any more. Width 0 is a terminal
// without end.
func (t *table) write(w io.Writer, width int) error {
	t.yield(width)
	t.fit(width)
	align := make([]tw.Align, len(t.columns))
	titles := make([]string, len(t.columns))
	for i, c := range t.columns {
		titles[i], align[i] = c.title, tw.AlignLeft
		if c.right {
			align[i] = tw.AlignRight
		}
	}
	out := tablewriter.NewTable(&trimmer{w: w, width: width},
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off), // titles are written as they are meant
		tablewriter.WithRowAutoWrap(tw.WrapNone), // one item, one line
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off), // a key's spaces are part of it
		tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}),
		tablewriter.WithAlignment(align),
	)
	out.Header(titles)
	for _, row := range t.rows {
		if err := out.Append(row); err != nil {
			return err
		}
	}
	return out.Render()
}

// widths are those of the columns, and of all with the gaps between.
func (t *table) widths() (widths []int, total int) {
	const gap = 2
	widths = make([]int, len(t.columns))
	total = -gap
	for i, c := range t.columns {
		widths[i] = twwidth.Width(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], twwidth.Width(row[i]))
		}
		total += widths[i] + gap
	}
	return widths, total
}

// yield leaves out what is not needed, from the left.
func (t *table) yield(width int) {
	if width <= 0 {
		return
	}
	for i := 0; i < len(t.columns); {
		_, total := t.widths()
		blank := !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" })
		if c := t.columns[i]; !(c.yields && total > width || c.spare && blank) {
			i++
			continue
		}
		t.columns = slices.Delete(slices.Clone(t.columns), i, i+1)
		for r := range t.rows {
			t.rows[r] = slices.Delete(t.rows[r], i, i+1)
		}
	}
}

// fit cuts the flexible columns, the widest first, until the table fits or
// nothing is left to cut.
func (t *table) fit(width int) {
	if width <= 0 {
		return
	}
	widths, total := t.widths()
	for _, least := range []int{minFlex, leastFlex} {
		for ; total > width; total-- {
			widest := -1
			for i, c := range t.columns {
				if c.flex && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				break
			}
			widths[widest]--
		}
	}
	for i, c := range t.columns {
		if !c.flex {
			continue
		}
		t.columns[i].title = cutTo(c.title, widths[i])
		for _, row := range t.rows {
			row[i] = cutTo(row[i], widths[i])
		}
	}
}

// cutTo shortens s to a width on the terminal, where some characters take two
// columns.
func cutTo(s string, width int) string {
	if twwidth.Width(s) <= width {
		return s
	}
	w := 0
	for i, r := range s {
		n := twwidth.Width(string(r))
		if w+n > width-1 {
			return s[:i] + "…"
		}
		w += n
	}
	return s
}

// trimmer takes the padding off the ends of lines: a table that is pasted
// into a ticket should not carry it. Lines that are too long are cut.
type trimmer struct {
	w     io.Writer
	width int // of the terminal; 0: without end
	line  []byte
}

func (t *trimmer) Write(p []byte) (int, error) {
	for _, c := range p {
		if c != '\n' {
			t.line = append(t.line, c)
			continue
		}
		line := strings.TrimRight(string(t.line), " ")
		if t.width > 0 {
			line = cutTo(line, t.width)
		}
		t.line = t.line[:0]
		if _, err := io.WriteString(t.w, line+"\n"); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// writeTabs writes the rows separated by tabs, without titles, for the next
// program in a pipe.
func (t *table) writeTabs(w io.Writer) error {
	for _, row := range t.rows {
		if _, err := io.WriteString(w, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
