package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// node is a table, a key's value, or an element of an array, and the line on
// which it stands. go-toml's decoder gives no lines for values that it could
// decode, and stops at the first key that is declared twice: hence a tree of
// our own over its parser.
type node struct {
	parent *node
	key    string
	line   int
	kind   unstable.Kind // Table for every kind of table
	text   string        // a string's value; any other scalar as it is written
	items  []*node       // of an Array
	byKey  map[string]*node
	order  []*node // the same, in the file's order
	made   making
}

// making is how a table came to be, on which TOML makes depend what may still
// be added to it.
type making int8

const (
	implied  making = iota // by the header of a table inside it; may get its own
	byHeader               // by its own [header]; no second one
	byDots                 // by a dotted key; only dotted keys may add to it
	inline                 // between braces; closed
)

func newTable(parent *node, key string, line int, made making) *node {
	return &node{parent: parent, key: key, line: line, kind: unstable.Table, byKey: map[string]*node{}, made: made}
}

func (n *node) add(child *node) *node {
	n.byKey[child.key] = child
	n.order = append(n.order, child)
	return child
}

// bareKey matches the keys that TOML lets stand without quotes.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// path is the dotted key of n from the top of the file, as one would write it.
func (n *node) path() string {
	var parts []string
	for ; n.parent != nil; n = n.parent {
		if n.parent.kind == unstable.Array {
			continue // the elements of an array go by its key
		}
		parts = append(parts, keyText(n.key))
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// keyText is one part of a key as one would write it, shortened.
func keyText(key string) string {
	if len(key) <= maxShown && bareKey.MatchString(key) {
		return key
	}
	return show(key)
}

// tree builds the nodes of one document.
type tree struct {
	lines  []int // offset of each line's end
	data   []byte
	faults Faults
}

// parseTree turns TOML text into nodes. When the text is no TOML the root is
// nil and that is the only fault: what the rest means is not known then. Keys
// declared twice are faults beside a usable tree that has their first value.
func parseTree(data []byte) (*node, Faults) {
	// With no spare capacity, a position can be told from a sub-slice's capacity.
	t := &tree{data: data[:len(data):len(data)]}
	for i, b := range data {
		if b == '\n' {
			t.lines = append(t.lines, i)
		}
	}
	if !utf8.Valid(data) {
		return nil, Faults{{Line: t.lineAt(invalidAt(data)), Reason: "not valid UTF-8"}}
	}
	root := newTable(nil, "", 1, byHeader)
	current := root
	var p unstable.Parser
	p.Reset(t.data)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.KeyValue:
			t.keyValue(current, e)
		case unstable.Table:
			current = t.header(root, keyOf(e))
		case unstable.ArrayTable:
			key := keyOf(e)
			current = t.header(root, key)
			t.fault(current, "is an array of tables: write one pair of brackets, not two")
		}
	}
	if err := p.Error(); err != nil {
		return nil, Faults{t.syntax(err)}
	}
	return root, t.faults
}

// keyPart is one part of a dotted key.
type keyPart struct {
	text   string
	offset int
}

func keyOf(e *unstable.Node) []keyPart {
	var parts []keyPart
	for it := e.Key(); it.Next(); {
		parts = append(parts, keyPart{string(it.Node().Data), int(it.Node().Raw.Offset)})
	}
	return parts
}

// header opens the table of a [header] and returns it. One that may not be
// opened again is a fault, and what follows goes into a table that nobody reads.
func (t *tree) header(root *node, parts []keyPart) *node {
	at := root
	for i, part := range parts {
		line, last := t.lineAt(part.offset), i == len(parts)-1
		next := at.byKey[part.text]
		switch {
		case next == nil && last:
			next = at.add(newTable(at, part.text, line, byHeader))
		case next == nil:
			next = at.add(newTable(at, part.text, line, implied))
		case last && next.kind == unstable.Table && next.made == implied:
			next.made, next.line = byHeader, line
		case last || next.kind != unstable.Table || next.made == inline:
			t.twice(next, line)
			return newTable(next.parent, part.text, line, byHeader)
		}
		at = next
	}
	return at
}

// keyValue adds `a.b.c = value` under a table.
func (t *tree) keyValue(under *node, e *unstable.Node) {
	parts := keyOf(e)
	for _, part := range parts[:len(parts)-1] {
		line := t.lineAt(part.offset)
		next := under.byKey[part.text]
		switch {
		case next == nil:
			next = under.add(newTable(under, part.text, line, byDots))
		case next.kind != unstable.Table || next.made != byDots:
			t.twice(next, line)
			return
		}
		under = next
	}
	last := parts[len(parts)-1]
	line := t.lineAt(last.offset)
	if first := under.byKey[last.text]; first != nil {
		t.twice(first, line)
		return
	}
	under.add(t.value(under, last.text, line, e.Value()))
}

// value turns a parsed value into a node that stands on the given line, unless
// it knows its own.
func (t *tree) value(parent *node, key string, line int, v *unstable.Node) *node {
	if v.Kind == unstable.InlineTable {
		n := newTable(parent, key, line, inline)
		for it := v.Children(); it.Next(); {
			t.keyValue(n, it.Node())
		}
		return n
	}
	n := &node{parent: parent, key: key, line: line, kind: v.Kind}
	if v.Kind != unstable.Array {
		n.text = string(v.Data)
		return n
	}
	for it := v.Children(); it.Next(); {
		item := it.Node()
		itemLine := line
		if item.Raw.Length > 0 { // an array has none
			itemLine = t.lineAt(int(item.Raw.Offset))
		}
		n.items = append(n.items, t.value(n, "", itemLine, item))
	}
	return n
}

func (t *tree) twice(first *node, line int) {
	t.faults = append(t.faults, Fault{Line: line, Key: first.path(), Reason: fmt.Sprintf("declared twice: first on line %d", first.line)})
}

func (t *tree) fault(n *node, reason string) {
	t.faults = append(t.faults, Fault{Line: n.line, Key: n.path(), Reason: reason})
}

func (t *tree) syntax(err error) Fault {
	f := Fault{Line: len(t.lines) + 1, Reason: "not valid TOML: " + err.Error()}
	var at *unstable.ParserError
	if errors.As(err, &at) && cap(at.Highlight) > 0 {
		f.Line = t.lineAt(len(t.data) - cap(at.Highlight))
	}
	return f
}

// lineAt returns the line of an offset, counted from 1.
func (t *tree) lineAt(offset int) int {
	return sort.SearchInts(t.lines, offset) + 1
}

// invalidAt returns where the first byte stands that is no UTF-8.
// (bytes.IndexRune also stops at a replacement character that is spelt out.)
func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}
