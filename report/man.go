package report

import (
	"fmt"
	"strings"
)

// ManPage is a manual page on its way to roff, man(7)'s language. Its texts are
// what --help shows: paragraphs at the margin are filled again by man, lines
// that are indented stay as they are.
//
// It is written by hand because cobra's own pages go through Markdown, which
// takes the *, _, < and the lists of these texts for its own.
type ManPage struct {
	Name     string // "batchq-enqueue"
	Section  int
	Date     string // "2026-11-30"; "" for none
	Source   string // "batchq v1.0"
	Short    string // one line
	Synopsis string // "" for none
	sections []manSection
}

type manSection struct{ title, text string }

// Add appends a section; one without text is left out.
func (p *ManPage) Add(title, text string) {
	if text = strings.Trim(text, "\n"); text != "" {
		p.sections = append(p.sections, manSection{title, text})
	}
}

// Roff is the page as a file of man(7).
func (p *ManPage) Roff() string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s %d %s %s %s\n", quoted(strings.ToUpper(p.Name)), p.Section, quoted(p.Date), quoted(p.Source), quoted("batchq manual"))
	b.WriteString(".nh\n.ad l\n") // words are typed as they stand: none is broken
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(p.Name), roff(p.Short))
	if p.Synopsis != "" {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n%s\n", roff(p.Synopsis))
	}
	for _, s := range p.sections {
		fmt.Fprintf(&b, ".SH %s\n", quoted(s.title))
		writeManText(&b, s.text)
	}
	return b.String()
}

// writeManText writes paragraphs, and blocks of indented lines as they stand.
func writeManText(b *strings.Builder, text string) {
	verbatim, begun := false, false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "":
			if verbatim {
				b.WriteString(".fi\n")
			}
			if begun {
				b.WriteString(".PP\n")
			}
			verbatim, begun = false, false
			continue
		case indented && !verbatim:
			b.WriteString(".nf\n")
		case !indented && verbatim:
			b.WriteString(".fi\n")
		}
		verbatim, begun = indented, true
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n") // man has a margin of its own
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// roff makes text mean itself: a backslash, a hyphen (which would become a
// typographic one, and could not be pasted into a shell), the quotes that
// typesetters bend, and a control character at the beginning of a line.
func roff(s string) string {
	s = roffEscapes.Replace(Safe(s))
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, `\(aq`) {
		s = `\&` + s
	}
	return s
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`, "…", "...", "÷", `\(di`, "×", `\(mu`)

// quoted is text as one argument of a macro.
func quoted(s string) string { return `"` + strings.ReplaceAll(roff(s), `"`, `\(dq`) + `"` }

// Written is which files a command has written: the document of `man --json`.
type Written struct {
	SchemaVersion int      `json:"schema_version"`
	Directory     string   `json:"directory"`
	Files         []string `json:"files"`
}

// NewWritten lists files by their names in a directory.
func NewWritten(dir string, files []string) Written {
	return Written{SchemaVersion: SchemaVersion, Directory: escapeInvalid(dir), Files: files}
}
