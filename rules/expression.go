package rules

import (
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"github.com/cadenza-gateway/cadenza/internal/document"
)

// compileExpression parses and checks an expression, and returns its mistakes.
//
// A whole number in an expression is an int to CEL, and a number of the context
// a double. CEL orders the two (n < 3), but refuses n == 3 and n * 2. So an int
// becomes a double if the other operand is one.
func (m *Model) compileExpression(env *cel.Env, text string) (*cel.Ast, []*common.Error) {
	parsed, issues := env.Parse(text)
	if issues.Err() != nil {
		return nil, syntaxMistakes(text, issues.Errors())
	}
	for {
		checked, issues := env.Check(parsed)
		if issues.Err() == nil {
			return checked, nil
		}
		mistakes := issues.Errors()
		widened := false
		for _, e := range mistakes {
			widened = widen(parsed.NativeRep(), e) || widened
		}
		if !widened {
			for _, e := range mistakes {
				e.Message = m.celMessage(env, parsed.NativeRep(), e)
			}
			return nil, mistakes
		}
	}
}

// widened are the operators whose operands must have the same type.
var widened = []string{
	operators.Add, operators.Subtract, operators.Multiply, operators.Divide,
	operators.Equals, operators.NotEquals, operators.Conditional, operators.In,
}

// arithmetic are the operators whose result has the type of the operands.
var arithmetic = widened[:4]

// widen makes doubles of the int operands for which an operator beside doubles
// was refused, and reports whether there were any.
func widen(tree *ast.AST, mistake *common.Error) bool {
	_, operands, ok := strings.Cut(mistake.Message, "' applied to '(")
	call := exprByID(tree, mistake.ExprID)
	if !ok || call == nil || call.Kind() != ast.CallKind || !slices.Contains(widened, call.AsCall().FunctionName()) {
		return false
	}
	operands, _, _ = strings.Cut(operands, ")'")
	kinds, args := strings.Split(operands, ", "), call.AsCall().Args()
	if len(kinds) != len(args) {
		return false
	}
	double := func(s string) bool { return s == "double" || s == "list(double)" }
	if !slices.ContainsFunc(kinds, double) {
		return false
	}
	// In the calls around it, literals are made doubles at once. Otherwise a
	// long sum would be checked again for each of its numbers.
	for outer, ok := call.Parent(); ok && outer.Kind() == ast.CallKind && slices.Contains(arithmetic, outer.AsCall().FunctionName()); outer, ok = outer.Parent() {
		for _, arg := range outer.AsCall().Args() {
			if arg.Kind() == ast.LiteralKind {
				toDouble(tree, arg)
			}
		}
	}
	done := false
	for i, arg := range args {
		switch {
		case kinds[i] == "int":
			toDouble(tree, arg)
			done = true
		case kinds[i] == "list(int)" && arg.Kind() == ast.ListKind:
			for _, item := range arg.AsList().Elements() {
				toDouble(tree, item)
			}
			done = true
		}
	}
	return done
}

// toDouble turns an expression that gives an int into one that gives a double.
func toDouble(tree *ast.AST, e ast.Expr) {
	factory := ast.NewExprFactory()
	if e.Kind() == ast.LiteralKind {
		if n, ok := e.AsLiteral().(types.Int); ok {
			e.SetKindCase(factory.NewLiteral(e.ID(), types.Double(n)))
		}
		return
	}
	inner := factory.NewUnspecifiedExpr(ast.MaxID(tree) + 1)
	inner.SetKindCase(e)
	e.SetKindCase(factory.NewCall(e.ID(), "double", inner))
}

// exprByID finds a part of an expression.
func exprByID(tree *ast.AST, id int64) ast.NavigableExpr {
	found := ast.MatchDescendants(ast.NavigateAST(tree), func(e ast.NavigableExpr) bool { return e.ID() == id })
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// celMessage replaces the messages of cel-go that name its internals.
func (m *Model) celMessage(env *cel.Env, tree *ast.AST, mistake *common.Error) string {
	s, _, _ := strings.Cut(mistake.Message, " (in container ")
	if name, ok := strings.CutPrefix(s, "undeclared reference to '"); ok {
		name = strings.TrimSuffix(name, "'")
		if e := exprByID(tree, mistake.ExprID); e != nil && e.Kind() == ast.CallKind {
			return "unknown function " + strconv.Quote(name) + functionHint(name, env)
		}
		if name+"." == budgetWord || name+"." == healthWord {
			return name + " is no field of an expression: budget.LIMIT and health.PROVIDER are fields of cells, give them in when: or in a segment"
		}
		known := []string{nowName}
		for i := range m.fields {
			if celName.MatchString(m.fields[i].name) {
				known = append(known, m.fields[i].name)
			}
		}
		hint := document.DidYouMean(name, known)
		if document.Nearest(name, known) == "" {
			hint += ", if it is text, write " + strconv.Quote(name) + " with the quotes"
		}
		return "unknown field " + strconv.Quote(name) + hint
	}
	return overloadMessage(s)
}

// functionNames returns the functions that an expression can call by their names.
func functionNames(env *cel.Env) []string {
	names := []string{"present"}
	for name := range env.Functions() {
		if celName.MatchString(name) && name[0] != '_' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
