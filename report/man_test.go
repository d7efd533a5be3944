package report

import (
	"strings"
	"testing"
)

func TestManPage_Roff(t *testing.T) {
	p := &ManPage{Name: "batchq-x", Section: 1, Date: "2026-11-30", Source: `batchq "1"`, Short: "do it", Synopsis: "batchq x [flags]"}
	p.Add("EMPTY", "\n\n")
	p.Add("DESCRIPTION", `.TH is text, 'quoted' and "so"
--wide C:\new `+"`a` ~ ^ 15 ÷ 7…"+`

  .verbatim
    'more' -0
after it`)
	want := `.TH "BATCHQ\-X" 1 "2026\-11\-30" "batchq \(dq1\(dq" "batchq manual"
.nh
.ad l
.SH NAME
batchq\-x \- do it
.SH SYNOPSIS
batchq x [flags]
.SH "DESCRIPTION"
\&.TH is text, \(aqquoted\(aq and "so"
\-\-wide C:\enew \(gaa\(ga \(ti \(ha 15 \(di 7...
.PP
.nf
\&.verbatim
  \(aqmore\(aq \-0
.fi
after it
`
	if got := p.Roff(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	p.sections = nil
	p.Add("X", "'s\n \x1b[2J")
	if got := p.Roff(); !strings.Contains(got, "\n\\&\\(aqs\n") || !strings.Contains(got, `\ex1b[2J`) {
		t.Errorf("got:\n%s", got)
	}
}
