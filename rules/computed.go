package rules

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/cadenza-gateway/cadenza/internal/document"
)

const (
	// maxExpression is how many bytes an expression may have.
	maxExpression = 4096
	// nowName is the instant of the request, unless a field has this name.
	nowName = "now"
	// presencePrefix begins the variable that present(name) reads. No field
	// can have such a name in an expression.
	presencePrefix = "@present:"
)

// celName is what CEL takes for a variable.
var celName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// celTypes are the CEL types of declared fields.
var celTypes = map[fieldType]*cel.Type{
	booleanField: cel.BoolType,
	dateField:    cel.TimestampType,
	listField:    cel.ListType(cel.StringType),
	numberField:  cel.DoubleType,
	stringField:  cel.StringType,
}

// decodeComputed compiles the computed fields. One may read those above it.
func (m *Model) decodeComputed(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		return
	}
	if n.Shape != document.Mapping {
		errs.Add(n, "computed must be a mapping of names to expressions, this is %s", n.Shape)
		return
	}
	if len(m.fields)+len(n.Members) > maxFields {
		errs.Add(n, "%d fields are declared and computed, at most %d are supported", len(m.fields)+len(n.Members), maxFields)
		return
	}
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), cel.Macros(presentMacro(m))}
	for i := range m.fields {
		options = append(options, m.fields[i].celVariables()...)
	}
	if _, taken := m.slots[nowName]; !taken && n.Get(nowName) == nil {
		options = append(options, cel.Variable(nowName, cel.TimestampType))
	}
	// cel-go reports no error for declarations that differ in name.
	env, err := cel.NewEnv(append(options, cel.StdLib())...)
	if err != nil {
		errs.Add(n, "computed fields are not possible: %v", err)
		return
	}
	for _, member := range n.Members {
		if !m.checkFieldName(member.Key, errs) {
			continue
		}
		if _, ok := m.slots[member.Key.Text]; ok {
			errs.Add(member.Key, "%q is a field already", member.Key.Text)
			continue
		}
		before := errs.Len()
		f := m.decodeExpression(env, member.Key, member.Value, errs)
		f.broken = errs.Len() > before
		m.slots[f.name] = int32(len(m.fields))
		m.fields = append(m.fields, f)
		if env, err = env.Extend(f.celVariables()...); err != nil {
			errs.Add(member.Key, "%q can't be used in expressions: %v", f.name, err)
			return
		}
	}
}

// celVariables declares a field and its presence to expressions.
func (f *field) celVariables() []cel.EnvOption {
	if !celName.MatchString(f.name) {
		return nil
	}
	typ := celTypes[f.typ]
	if f.unknown {
		typ = cel.DynType
	}
	return []cel.EnvOption{
		cel.Variable(f.name, typ),
		cel.Variable(presencePrefix+f.name, cel.BoolType),
	}
}

// presentMacro is present(field): whether the field has a value.
func presentMacro(m *Model) cel.Macro {
	return cel.GlobalMacro("present", 1, func(eh cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		if args[0].Kind() != ast.IdentKind {
			return nil, eh.NewError(args[0].ID(), "present takes the name of a field")
		}
		name := args[0].AsIdent()
		if _, ok := m.slots[name]; !ok {
			return nil, eh.NewError(args[0].ID(), "unknown field "+strconv.Quote(name))
		}
		return eh.NewIdent(presencePrefix + name), nil
	})
}

// decodeExpression compiles one computed field, written as an expression or as
// a mapping with expr and how its text is compared.
func (m *Model) decodeExpression(env *cel.Env, name, n *document.Node, errs *document.Errors) field {
	f := newField(name.Text, n, m.coerce)
	what := "the computed field " + strconv.Quote(name.Text)
	expr := n
	if n.Shape == document.Mapping {
		n.CheckMembers(errs, what, "expr", "type", "values", "ignore_case", "format", "match", "min", "max", "trace")
		if mode := n.Get("trace"); mode != nil {
			errs.Add(mode, "trace does not apply to %s, of which nothing is recorded: give it to the fields that the expression reads", what)
		}
		expr = n.Get("expr")
	}
	text, ok := expr.ReadString(errs, "the expression of "+what)
	if !ok {
		return f
	}
	if len(text) > maxExpression {
		errs.Add(expr, "the expression of %s has %d bytes, at most %d are supported", what, len(text), maxExpression)
		return f
	}
	checked, mistakes := m.compileExpression(env, text)
	if mistakes != nil {
		f.unknown = true
		for _, e := range mistakes {
			errs.Add(expr, "the expression of %s, character %d: %s", what, max(e.Location.Column(), 0)+1, e.Message)
		}
		return f
	}
	if f.typ, ok = typeOf(checked.OutputType()); !ok {
		errs.Add(expr, "the expression of %s gives %s: it must give a bool, number, string, timestamp or list of strings",
			what, checked.OutputType())
		f.typ = stringField
		return f
	}
	if t := n.Get("type"); t != nil && n.Shape == document.Mapping {
		if word, ok := t.ReadWord(errs, "the type of "+what, fieldTypes...); ok && word != f.typ.String() {
			errs.Add(t, "%s gives %s, not %s", what, f.typ.article(), word)
		}
	}
	if n.Shape == document.Mapping {
		options := &document.Node{Shape: document.Mapping, Pos: n.Pos}
		for _, member := range n.Members {
			if !slices.Contains([]string{"expr", "type", "trace"}, member.Key.Text) {
				options.Members = append(options.Members, member)
			}
		}
		f.decodeOptions(options, what, errs)
	}
	m.program(env, &f, checked, expr, errs)
	return f
}

// program plans an expression and collects the declared fields it reads.
func (m *Model) program(env *cel.Env, f *field, checked *cel.Ast, expr *document.Node, errs *document.Errors) {
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	root := ast.NavigateAST(checked.NativeRep())
	small, fixed, err := m.costOf(env, checked)
	if err == nil && small > maxCost {
		errs.Add(expr, "the expression of %q takes up to %d steps even where every text and list has one character or element, at most %d are possible: do less in it, or in the computed fields that it reads",
			f.name, small, maxCost)
		return
	}
	if f.cost = fixed; f.cost == 0 {
		options = append(options, celCosts()...)
	}
	if f.typ == stringField && len(ast.MatchDescendants(root, ast.FunctionMatcher(operators.Add))) > 0 {
		f.grown = 10 * small
	}
	program, err := env.Program(checked, options...)
	if err != nil {
		errs.Add(expr, "the expression of %q: %v", f.name, err)
		return
	}
	f.program = program
	for _, ident := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		slot, ok := m.slots[strings.TrimPrefix(ident.AsIdent(), presencePrefix)]
		if !ok {
			// Any other identifier is a variable of a loop, or the instant.
			f.readsNow = f.readsNow || ident.AsIdent() == nowName
			continue
		}
		if int(slot) < m.declared {
			f.reads = append(f.reads, slot)
		} else {
			f.uses = append(f.uses, slot)
			f.grown = max(f.grown, m.fields[slot].grown)
			f.reads = append(f.reads, m.fields[slot].reads...)
			f.readsNow = f.readsNow || m.fields[slot].readsNow
		}
	}
	slices.Sort(f.reads)
	f.reads = slices.Compact(f.reads)
}

// typeOf returns the field type an expression of a CEL type gives.
func typeOf(t *cel.Type) (fieldType, bool) {
	switch t.Kind() {
	case types.BoolKind:
		return booleanField, true
	case types.DoubleKind, types.IntKind, types.UintKind:
		return numberField, true
	case types.StringKind:
		return stringField, true
	case types.TimestampKind:
		return dateField, true
	case types.ListKind:
		return listField, len(t.Parameters()) == 1 && t.Parameters()[0].Kind() == types.StringKind
	}
	return 0, false
}

// ResolveName returns the value of a field by its name.
func (a *activation) ResolveName(name string) (any, bool) {
	b := a.binding
	field, presence := strings.CutPrefix(name, presencePrefix)
	slot, ok := b.model.slots[field]
	if !ok {
		if name == nowName {
			return timestampOf(b.values[b.model.nowSlot()].key), true
		}
		return nil, false
	}
	b.resolve(slot)
	v := &b.values[slot]
	if presence {
		return types.Bool(v.state == present), true
	}
	if v.state != present {
		return nil, false
	}
	switch b.model.fields[slot].typ {
	case booleanField:
		return types.Bool(v.key == 1), true
	case dateField:
		return timestampOf(v.key), true
	case listField:
		return types.NewStringList(types.DefaultTypeAdapter, v.list), true
	case numberField:
		return types.Double(numberOf(v.key)), true
	}
	return types.String(v.text), true
}

// timestampOf returns the instant of a date's key as CEL has it.
func timestampOf(key int64) types.Timestamp {
	return types.Timestamp{Time: time.UnixMicro(key).UTC()}
}

// errNotComputed is a result that its type promised not to occur.
var errNotComputed = errors.New("rules: unexpected result of an expression")

// compute evaluates a computed field. A failure leaves it missing. It is only
// noted where all fields that the expression reads have a value.
func (b *Binding) compute(f *field, slot int32) {
	if f.program == nil {
		return
	}
	reason := ""
	out, err := b.evaluate(f)
	if err == nil {
		reason, err = b.setResult(f, slot, out)
	}
	if err != nil && !slices.ContainsFunc(f.reads, func(s int32) bool { return b.values[s].state != present }) {
		reason = NoteComputedFailed
	}
	if reason != "" {
		b.note(f.name, reason)
	}
}

// errCost is the failure of an expression for which a request has no work left.
var errCost = errors.New("rules: the computed fields of the request take too much")

// evaluate evaluates an expression, unless the request's work is used up, and
// counts its cost.
func (b *Binding) evaluate(f *field) (ref.Val, error) {
	if b.computed >= maxRequestCost {
		return nil, errCost
	}
	out, details, err := f.program.Eval(&b.activation)
	switch cost := details.ActualCost(); {
	case cost != nil:
		b.computed += *cost
	case f.cost > 0:
		b.computed += f.cost
	default:
		b.computed += maxCost
	}
	return out, err
}

// setResult binds the result of an expression.
func (b *Binding) setResult(f *field, slot int32, out ref.Val) (string, error) {
	switch v := out.(type) {
	case types.Bool:
		return b.setBoolean(slot, bool(v)), nil
	case types.Double:
		return b.setComputedNumber(f, slot, float64(v))
	case types.Int:
		return b.setComputedNumber(f, slot, float64(v))
	case types.Uint:
		return b.setComputedNumber(f, slot, float64(v))
	case types.String:
		return b.setText(f, slot, string(v)), nil
	case types.Timestamp:
		return b.setDate(slot, dateKey(v.Time)), nil
	case traits.Lister:
		// CEL does not count the work of joining lists: it is counted here.
		size, ok := v.Size().(types.Int)
		if !ok || b.computed+uint64(size) > maxRequestCost {
			return "", errCost
		}
		b.computed += uint64(size)
		start, reason := len(b.items), ""
		for it := v.Iterator(); it.HasNext() == types.True; {
			s, ok := it.Next().(types.String)
			if !ok {
				return "", errNotComputed
			}
			if r := b.appendItem(f, string(s)); r != "" {
				reason = r
			}
		}
		b.setList(slot, start)
		return reason, nil
	}
	return "", errNotComputed
}

// setComputedNumber binds a number that, unlike JSON's, may be NaN or infinite.
func (b *Binding) setComputedNumber(f *field, slot int32, n float64) (string, error) {
	if n-n != 0 {
		return "", errNotComputed
	}
	return b.setNumber(f, slot, n), nil
}
