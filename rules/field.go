package rules

import (
	"math"
	"slices"
	"strconv"

	"cel.dev/cel-go/cel"
	"github.com/cadenza-gateway/cadenza/internal/document"
)

// fieldType is the type of a field of the data model.
type fieldType uint8

const (
	booleanField fieldType = iota + 1
	dateField
	listField
	numberField
	stringField
)

// fieldTypes are the types' names, in the order of the constants.
var fieldTypes = []string{"boolean", "date", "list", "number", "string"}

// String returns the type's name in context.yaml.
func (t fieldType) String() string { return fieldTypes[t-1] }

// article returns the type's name as messages use it.
func (t fieldType) article() string { return "a " + t.String() }

// textFormat is the format of a string field's text.
type textFormat uint8

const (
	plainText textFormat = iota
	semverText
	addressText
)

// field is one field of the model, declared or computed.
type field struct {
	name     string
	node     *document.Node
	path     []string // of a declared field: the members to it; nil for the one of its name
	typ      fieldType
	format   textFormat
	language bool // match: language-range
	foldCase bool // text is compared without regard to case
	coerce   bool
	required bool
	trace    traceMode // of a declared field
	always   bool      // trace.always names it
	unknown  bool      // its type is not known
	// broken reports whether the declaration has a mistake, from which mistakes
	// of cells on the field may follow: they are not decoded.
	broken   bool
	min, max float64
	allowed  []string // the closed values as written, nil when open
	texts    map[string]struct{}
	numbers  map[int64]struct{}
	// gateway is the meaning of the name of one of the gateway's fields, else
	// nil.
	gateway *GatewayField
	// program computes the field; nil for a declared one.
	program cel.Program
	// cost is an upper bound of the program's cost, or 0 if that depends on the
	// context and is counted. grown is about how long a text it makes from
	// texts of one character.
	cost, grown uint64
	// reads are the slots of the declared fields the program reads.
	reads []int32
	// uses are the slots of the computed fields the program reads.
	uses []int32
	// readsNow is set where the program reads the instant of the request.
	readsNow bool
}

// textual reports whether any text can be a value of the field. Only quotes
// then show that a cell is a value and not a pattern.
func (f *field) textual() bool {
	return f.typ == listField || f.typ == stringField && f.format == plainText
}

// allowsText reports whether the field's closed values, if any, include a key.
func (f *field) allowsText(key string) bool {
	if f.texts == nil {
		return true
	}
	_, ok := f.texts[key]
	return ok
}

// allowsNumber reports whether a number is within the field's bounds and values.
func (f *field) allowsNumber(n float64) bool {
	if n < f.min || n > f.max {
		return false
	}
	if f.numbers == nil {
		return true
	}
	_, ok := f.numbers[numberKey(n)]
	return ok
}

// fieldMembers are the members a field of each type may have.
var fieldMembers = map[fieldType][]string{
	booleanField: {"type", "path", "required", "coerce", "trace"},
	dateField:    {"type", "path", "required", "coerce", "trace"},
	listField:    {"type", "path", "required", "coerce", "trace", "values", "ignore_case"},
	numberField:  {"type", "path", "required", "coerce", "trace", "values", "min", "max"},
	stringField:  {"type", "path", "required", "coerce", "trace", "values", "ignore_case", "format", "match"},
}

// decodeField reads one field.
func decodeField(name, n *document.Node, coerce bool, errs *document.Errors) (f field) {
	before := errs.Len()
	defer func() { f.broken = errs.Len() > before }()
	f = newField(name.Text, n, coerce)
	what := "the field " + strconv.Quote(name.Text)
	typ := n
	if n.Shape == document.Mapping {
		typ = n.Get("type")
		if typ == nil {
			errs.Add(n, "%s needs a type: boolean, date, list, number or string", what)
			f.unknown = true
			return f
		}
	}
	word, ok := typ.ReadWord(errs, "the type of "+what, fieldTypes...)
	if !ok {
		f.unknown = true
		return f
	}
	f.typ = fieldType(slices.Index(fieldTypes, word) + 1)
	if n.Shape == document.Mapping {
		f.decodeOptions(n, what, errs)
		f.decodeTrace(n.Get("trace"), errs)
	}
	if f.trace == 0 {
		f.trace = f.defaultTrace()
	}
	return f
}

// newField returns a field without options.
func newField(name string, n *document.Node, coerce bool) field {
	return field{name: name, node: n, typ: stringField, coerce: coerce, min: math.Inf(-1), max: math.Inf(1)}
}

// decodeOptions reads the members of a field other than its type.
func (f *field) decodeOptions(n *document.Node, what string, errs *document.Errors) {
	known := fieldMembers[f.typ]
	for _, m := range n.Members {
		name := m.Key.Text
		if slices.Contains(known, name) {
			continue
		}
		if slices.ContainsFunc([]fieldType{listField, numberField, stringField}, func(t fieldType) bool {
			return slices.Contains(fieldMembers[t], name)
		}) {
			errs.Add(m.Key, "%s does not apply to %s, which is %s", name, what, f.typ.article())
			continue
		}
		errs.Add(m.Key, "unknown member %q in %s%s", name, what, document.DidYouMean(name, known))
	}
	readFlag := func(member string, into *bool) {
		if v := n.Get(member); v != nil && slices.Contains(known, member) {
			if on, ok := v.ReadBool(errs, member); ok {
				*into = on
			}
		}
	}
	if v := n.Get("path"); v != nil {
		f.path = decodePath(v, errs)
	}
	readFlag("required", &f.required)
	readFlag("coerce", &f.coerce)
	readFlag("ignore_case", &f.foldCase)
	if f.typ == stringField {
		f.decodeText(n, errs)
	}
	if f.typ == numberField {
		if v := n.Get("min"); v != nil {
			f.min, _ = v.ReadFloat(errs, "min", math.Inf(-1), math.Inf(1))
		}
		if v := n.Get("max"); v != nil {
			if most, ok := v.ReadFloat(errs, "max", math.Inf(-1), math.Inf(1)); ok {
				f.max = most
			}
		}
		if f.min > f.max {
			errs.Add(n.Get("min"), "min of %s is above its max", what)
		}
	}
	if v := n.Get("values"); v != nil && slices.Contains(known, "values") {
		f.decodeValues(v, what, errs)
	}
}

// decodeText reads the options of a string.
func (f *field) decodeText(n *document.Node, errs *document.Errors) {
	if v := n.Get("format"); v != nil {
		switch word, _ := v.ReadWord(errs, "format", "semver", "ip"); word {
		case "semver":
			f.format = semverText
		case "ip":
			f.format = addressText
		}
	}
	if v := n.Get("match"); v != nil {
		word, _ := v.ReadWord(errs, "match", "exact", "language-range")
		f.language = word == "language-range"
		// RFC 4647, section 2: language tags are compared without regard to case.
		f.foldCase = f.foldCase || f.language
	}
	if f.format != plainText {
		for _, name := range []string{"match", "ignore_case"} {
			if v := n.Get(name); v != nil {
				errs.Add(v, "%s does not go together with format", name)
			}
		}
		f.language, f.foldCase = false, false
	}
}

// decodeValues reads the closed list of a field's values.
func (f *field) decodeValues(n *document.Node, what string, errs *document.Errors) {
	if n.Shape != document.Sequence || len(n.Items) == 0 {
		errs.Add(n, "values of %s must be a list of at least one value, such as [free, pro]", what)
		return
	}
	var (
		allowed []string
		texts   = make(map[string]struct{})
		numbers = make(map[int64]struct{})
	)
	for _, item := range n.Items {
		if item.Shape != document.Scalar || item.IsNull() {
			errs.Add(item, "a value of %s must be a single value", what)
			continue
		}
		before := len(texts) + len(numbers)
		if f.typ == numberField {
			v, ok := parseNumber(item.Text)
			if !ok || !f.allowsNumber(v) {
				errs.Add(item, "%q is not a number %s allows", item.Text, what)
				continue
			}
			numbers[numberKey(v)] = struct{}{}
		} else {
			key, ok := f.textKey(item.Text)
			if !ok {
				errs.Add(item, "%q is not %s", item.Text, f.expected())
				continue
			}
			texts[key] = struct{}{}
		}
		if len(texts)+len(numbers) == before {
			errs.Add(item, "%q is listed twice in values of %s", item.Text, what)
			continue
		}
		allowed = append(allowed, item.Text)
	}
	if len(allowed) == 0 {
		return
	}
	f.allowed = allowed
	if f.typ == numberField {
		f.numbers = numbers
	} else {
		f.texts = texts
	}
}

// textKey returns the key of a text as a definition gives it.
func (f *field) textKey(s string) (string, bool) {
	switch f.format {
	case semverText:
		v, ok := parseVersion(s, !f.coerce)
		if !ok {
			return "", false
		}
		return string(v.appendKey(nil)), true
	case addressText:
		a, ok := parseAddress(s)
		if !ok {
			return "", false
		}
		return string(appendAddressKey(nil, a)), true
	}
	if f.foldCase {
		return fold(s), true
	}
	return s, true
}

// expected describes the values that the field takes, for messages.
func (f *field) expected() string {
	switch {
	case f.format == semverText:
		return "a version such as 2.1.3"
	case f.format == addressText:
		return "an IP address"
	case f.typ == booleanField:
		return "true or false"
	case f.typ == dateField:
		return "a date such as 2026-01-31 or 2026-01-31T12:00:00Z"
	case f.typ == listField:
		return "a list of text"
	case f.typ == numberField:
		return "a number"
	}
	return "text"
}
