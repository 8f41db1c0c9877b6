package levels

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// clocks are functions of package time that read the clock or wait.
var clocks = map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true, "NewTimer": true, "NewTicker": true, "Tick": true}

// inspect looks at all syntax of a package, tests aside; at is where that is.
func inspect(t *testing.T, p pkg, look func(n ast.Node, at func() token.Position)) {
	t.Helper()
	for _, name := range p.GoFiles {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			look(n, func() token.Position { return set.Position(n.Pos()) })
			return true
		})
	}
}

// checkSource finds goroutines and clocks in a pure package.
func checkSource(t *testing.T, p pkg) {
	t.Helper()
	inspect(t, p, func(n ast.Node, at func() token.Position) {
		switch n := n.(type) {
		case *ast.GoStmt:
			t.Errorf("%s: a pure package starts a goroutine", at())
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && clocks[n.Sel.Name] {
				t.Errorf("%s: a pure package uses time.%s", at(), n.Sel.Name)
			}
		}
	})
}

// findings is where findings are made: elsewhere somebody could forget the severity.
const findings = module + "internal/model"

// checkFindings finds findings that no constructor made.
func checkFindings(t *testing.T, p pkg) {
	t.Helper()
	if p.ImportPath == findings {
		return
	}
	inspect(t, p, func(n ast.Node, at func() token.Position) {
		if literal, ok := n.(*ast.CompositeLit); ok && isFinding(literal) {
			t.Errorf("%s: a finding is made by model.Collector, model.ErrorOf or model.WarningOf", at())
		}
	})
}

// isFinding is whether a literal is a model.Finding, or a model.Findings with
// elements that leave their type out.
func isFinding(n *ast.CompositeLit) bool {
	typ, ok := n.Type.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	if x, ok := typ.X.(*ast.Ident); !ok || x.Name != "model" {
		return false
	}
	switch typ.Sel.Name {
	case "Finding":
		return true
	case "Findings":
		return slices.ContainsFunc(n.Elts, func(e ast.Expr) bool { c, ok := e.(*ast.CompositeLit); return ok && c.Type == nil })
	}
	return false
}
