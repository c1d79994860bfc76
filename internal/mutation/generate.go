package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"strconv"
)

// swaps maps each operator to its replacements. Some do not compile because of the
// operands' types; the compilation leaves them out.
var swaps = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD},
	token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.QUO},
	token.AND: {token.OR}, token.OR: {token.AND}, token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.INC: {token.DEC}, token.DEC: {token.INC},
	token.ADD_ASSIGN: {token.SUB_ASSIGN, token.ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.BREAK: {token.CONTINUE}, token.CONTINUE: {token.BREAK},
}

// words maps names that change like operators.
var words = map[string]string{"true": "false", "false": "true", "min": "max", "max": "min"}

// generator collects the mutants of a function.
type generator struct {
	dir      string
	file     *sourceFile
	function *ast.FuncDecl
	mutants  []*mutant
}

// generate returns the generated mutants of the package's functions.
func (p *source) generate() []*mutant {
	var mutants []*mutant
	for _, f := range p.files {
		for _, d := range f.tree.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || function.Body == nil || !f.here || !switchable(function) {
				continue
			}
			g := generator{dir: p.dir, file: f, function: function}
			g.body(function.Type, function.Body)
			mutants = append(mutants, g.mutants...)
		}
	}
	return mutants
}

// add adds the mutant that has text in place of the code between from and to.
func (g *generator) add(operator string, from, to token.Pos, text string) {
	line := g.file.set.Position(from).Line
	g.mutants = append(g.mutants, &mutant{
		dir: g.dir, tests: []string{g.dir},
		at:   fmt.Sprintf("%s/%s:%d", g.dir, filepath.Base(g.file.path), line),
		what: operator, in: functionName(g.function),
		file: g.file, function: g.function, start: g.file.offset(from), end: g.file.offset(to), text: text,
	})
}

func (g *generator) replace(operator string, n ast.Node, text string) {
	g.add(operator, n.Pos(), n.End(), text)
}

func (g *generator) swap(at token.Pos, operator token.Token) {
	for _, other := range swaps[operator] {
		g.add("operator", at, at+token.Pos(len(operator.String())), other.String())
	}
}

// body adds the mutants of a function's body, a function literal's included.
func (g *generator) body(of *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			g.body(n.Type, n.Body)
			return false
		case *ast.ArrayType:
			return n.Len == nil // a length is part of a type
		case *ast.BlockStmt:
			g.statements(n.List)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				g.cases(n.Body)
			}
		case *ast.CaseClause:
			g.statements(n.Body)
		case *ast.CommClause:
			g.statements(n.Body)
		case *ast.IfStmt:
			g.condition(n)
		case *ast.ReturnStmt:
			g.results(of, n)
		case *ast.CompositeLit:
			g.members(n)
		case ast.Expr:
			g.expression(n)
		}
		return true
	})
}

func (g *generator) expression(n ast.Expr) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		g.swap(n.OpPos, n.Op)
		if n.Op == token.LAND || n.Op == token.LOR {
			g.add("operand", n.Pos(), n.Y.Pos(), "")
			g.add("operand", n.X.End(), n.End(), "")
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			g.add("operator", n.Pos(), n.X.Pos(), "")
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			g.constant(n)
		}
	case *ast.Ident:
		if other, ok := words[n.Name]; ok {
			g.replace("operator", n, other)
		}
	}
}

func (g *generator) constant(n *ast.BasicLit) {
	v, err := strconv.ParseUint(n.Value, 0, 32)
	if err != nil {
		return
	}
	g.replace("constant", n, strconv.FormatUint(v+1, 10))
	if v > 0 {
		g.replace("constant", n, strconv.FormatUint(v-1, 10))
	}
}

// condition adds the negation of a condition, unless the change of an operator is one, and
// a branch that is never taken.
func (g *generator) condition(n *ast.IfStmt) {
	switch n.Cond.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
	default:
		g.replace("condition", n.Cond, "!("+g.file.textOf(n.Cond)+")")
	}
	g.replace("condition", n.Cond, "false")
}

// cases adds a case of a switch without a tag that is never taken.
func (g *generator) cases(body *ast.BlockStmt) {
	for _, s := range body.List {
		if c, ok := s.(*ast.CaseClause); ok && len(c.List) == 1 {
			g.replace("condition", c.List[0], "false")
		}
	}
}

// members adds the removal of each named member of a composite literal.
func (g *generator) members(n *ast.CompositeLit) {
	for i, e := range n.Elts {
		member, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		if _, ok := member.Key.(*ast.Ident); !ok {
			return
		}
		to := n.Rbrace
		if i+1 < len(n.Elts) {
			to = n.Elts[i+1].Pos()
		}
		g.add("member", e.Pos(), to, "")
	}
}

// results adds a return of no error.
func (g *generator) results(of *ast.FuncType, n *ast.ReturnStmt) {
	if of.Results == nil || len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	if name, ok := of.Results.List[len(of.Results.List)-1].Type.(*ast.Ident); !ok || name.Name != "error" || g.file.textOf(last) == "nil" {
		return
	}
	if len(n.Results) == of.Results.NumFields() {
		g.replace("error", last, "nil")
	}
}

// statements adds the removal of each statement that has an effect.
func (g *generator) statements(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.AssignStmt:
			g.swap(s.TokPos, s.Tok)
			if s.Tok == token.DEFINE || isBlank(s.Lhs) {
				continue
			}
		case *ast.IncDecStmt:
			g.swap(s.TokPos, s.Tok)
		case *ast.BranchStmt:
			if s.Label == nil {
				g.swap(s.Pos(), s.Tok)
			}
			if s.Tok == token.GOTO || s.Tok == token.FALLTHROUGH {
				continue
			}
		case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		default:
			continue
		}
		g.replace("statement", s, "")
	}
}

func isBlank(list []ast.Expr) bool {
	for _, e := range list {
		if name, ok := e.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}
