package cmd

import (
	"fmt"
	"strings"

	"batchq/jobs/input"
	"batchq/report"
)

// formatHelp is what `help input` says of one format.
type formatHelp struct {
	doc      string
	example  string
	rejected string
}

// formatHelps describes every format of input.Formats.
var formatHelps = map[input.Format]formatHelp{
	input.Lines: {
		"One key a line; blank lines count for nothing, and a CR at the end is taken off. The default where no extension says otherwise.",
		"printf 'C-1001\\nC-1002\\n' | batchq enqueue settlement",
		"a line that holds a NUL",
	},
	input.NUL: {
		"Keys that end with a NUL, for names that may hold a line feed. -0 is the same.",
		"find . -name '*.jpg' -print0 | batchq enqueue thumbs -0",
		"",
	},
	input.CSV: {
		"RFC 4180, with quotes and a header row, or --columns where there is none. The payload is the row as a JSON object. Files that end in .csv.",
		"batchq enqueue pos orders.csv --key store,order_id",
		"a row with more or fewer fields than columns, a quote that is never closed, an empty key, text that is no UTF-8",
	},
	input.TSV: {
		"Fields between tabs, without quoting; else as csv. Files that end in .tsv.",
		"batchq enqueue pos orders.tsv --key order_id",
		"as csv",
	},
	input.JSONL: {
		"One JSON object a line, which is the payload. Files that end in .jsonl or .ndjson.",
		"batchq enqueue mail list.jsonl --key id",
		"a line that is no JSON object, a key field that is missing or is no text, number, true or false",
	},
	// Written by another command, for this one.
	"export": {
		"JSON Lines as dlq export writes them: each line brings its own key, value, scope and priority.",
		"batchq enqueue pos pos.jsonl --format export --on-duplicate replace",
		"a line that is none of dlq export's",
	},
}

func inputText(width int) string {
	var b strings.Builder
	para := func(indent int, text string) {
		pad := strings.Repeat(" ", indent)
		b.WriteString(pad + report.Wrap(text, width, indent, indent) + "\n")
	}
	para(0, "enqueue JOB [FILE...] reads files, and standard input without FILE or for the FILE -. "+
		"--format says how they are cut, else the file's extension does; --item VALUE is one item as it stands.")
	for _, f := range input.Formats() {
		h := formatHelps[f]
		fmt.Fprintf(&b, "\n%s\n", f)
		para(2, h.doc)
		b.WriteString("    " + h.example + "\n")
		if h.rejected != "" {
			para(2, "Rejected: "+h.rejected+".")
		}
	}
	b.WriteString("\nKEYS\n")
	para(2, "--key FIELD[,FIELD] names what tells one item from another. Of several fields the key is "+
		"their values with / between them; a / or % in a value is then %2F or %25. A key is never empty and holds no NUL; "+
		"apart from that it is kept byte for byte.")
	b.WriteString("\nWHAT IS REJECTED\n")
	para(2, fmt.Sprintf("A record that can't become an item, or is longer than %d MiB, is told with its line and the reason. "+
		"The rest of the list goes in, and the exit status is 3. A file that can't be used at all (no such "+
		"column) ends the command.", input.DefaultMaxRecord>>20))
	return b.String()
}
