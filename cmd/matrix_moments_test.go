package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// momentsInSource lists every WHAT/MOMENT that a call of fault.Here in the
// product can name, and where. Where a name is handed on by a function's
// parameter, as write does, it is followed to that function's callers.
func momentsInSource(t *testing.T) map[string]token.Position {
	t.Helper()
	places := map[string]token.Position{}
	for _, p := range parseAll(t) {
		for _, c := range p.calls {
			if sel, ok := c.Fun.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Here" || len(c.Args) != 2 {
				continue
			} else if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "fault" {
				continue
			}
			whats, known := p.words(c.in, c.Args[0])
			moments, alsoKnown := p.words(c.in, c.Args[1])
			if !known || !alsoKnown {
				t.Errorf("%s: fault.Here is called with words that can't be followed to a literal", p.set.Position(c.Pos()))
			}
			for _, what := range whats {
				for _, moment := range moments {
					places[strings.ReplaceAll(what+"/"+moment, " ", "-")] = p.set.Position(c.Pos())
				}
			}
		}
	}
	return places
}

// parsed is one package's calls.
type parsed struct {
	set   *token.FileSet
	calls []call
}

// call is a call and the function in which it stands.
type call struct {
	*ast.CallExpr
	in *ast.FuncDecl
}

// parseAll reads the product's sources, a package a directory.
func parseAll(t *testing.T) map[string]*parsed {
	t.Helper()
	all := map[string]*parsed{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		p := all[filepath.Dir(path)]
		if p == nil {
			p = &parsed{set: token.NewFileSet()}
			all[filepath.Dir(path)] = p
		}
		f, err := parser.ParseFile(p.set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			in, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(in, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					p.calls = append(p.calls, call{c, in})
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// words are the strings that an argument can be in a function.
func (p *parsed) words(in *ast.FuncDecl, arg ast.Expr) (words []string, known bool) {
	switch arg := arg.(type) {
	case *ast.BasicLit:
		word, err := strconv.Unquote(arg.Value)
		return []string{word}, err == nil
	case *ast.Ident:
		n, ok := parameter(in, arg.Name)
		if !ok {
			return nil, false
		}
		for _, c := range p.calls {
			if called(c) != in.Name.Name || len(c.Args) <= n {
				continue
			}
			more, known := p.words(c.in, c.Args[n])
			if !known {
				return nil, false
			}
			words = append(words, more...)
		}
		return words, len(words) > 0
	}
	return nil, false
}

// parameter is the place of a name among a function's parameters.
func parameter(f *ast.FuncDecl, name string) (n int, ok bool) {
	for _, field := range f.Type.Params.List {
		for _, id := range field.Names {
			if id.Name == name {
				return n, true
			}
			n++
		}
	}
	return 0, false
}

// called is the name of what is called, without what it belongs to.
func called(c call) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
