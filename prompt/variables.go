package prompt

import (
	"github.com/cadenza-gateway/cadenza/document"
	"github.com/cadenza-gateway/cadenza/jsontext"
	"github.com/valyala/fastjson"
)

// Variables are the declared variables of a prompt. They are immutable.
type Variables struct {
	slots []slot
	index map[string]int
}

// slot is one variable.
type slot struct {
	name     string
	node     *document.Node // where it is declared
	text     []byte         // the default
	given    bool           // a default was given
	required bool
}

// DecodeVariables reads a prompt's variables: a mapping of names to {default,
// required, description}, each of which may be left out. A nil node declares
// none. Mistakes are added to errs.
func DecodeVariables(n *document.Node, errs *document.Errors) *Variables {
	v := &Variables{index: make(map[string]int)}
	if n.IsNull() {
		return v
	}
	if n.Kind != document.Mapping {
		errs.Add(n, "variables must be a mapping of names to {default, required}, this is %s", n.Kind)
		return v
	}
	for _, m := range n.Members {
		name := m.Key.Text
		if !validName(name) {
			errs.Add(m.Key, "%q is not a variable name: a letter or _, then letters, digits, _, . or -", name)
			continue
		}
		s := slot{name: name, node: m.Key}
		if !m.Value.IsNull() && m.Value.CheckMembers(errs, "the variable "+name, "default", "required", "description") {
			s.decode(m.Value, errs)
		}
		v.index[name] = len(v.slots)
		v.slots = append(v.slots, s)
	}
	return v
}

// decode reads what is declared of one variable.
func (s *slot) decode(n *document.Node, errs *document.Errors) {
	if r := n.Get("required"); r != nil {
		s.required, _ = r.ReadBool(errs, "required")
	}
	if d := n.Get("description"); d != nil {
		d.ReadString(errs, "description")
	}
	d := n.Get("default")
	if d.IsNull() {
		return
	}
	if s.required {
		errs.Add(d, "the variable %s is required, so its default is never used: remove one of the two", s.name)
	}
	s.given = true
	if d.Kind == document.Scalar && d.Quoted {
		s.text = []byte(d.Text)
		return
	}
	// A default is inserted as the same value of a request would be: text as
	// it is, anything else as compact JSON.
	s.text = d.AppendJSON(nil, errs)
	if d.Kind == document.Scalar && s.text[0] == '"' {
		s.text = []byte(d.Text)
	}
}

// Len is the number of variables.
func (v *Variables) Len() int { return len(v.slots) }

// Names are the declared names in the order of the declaration.
func (v *Variables) Names() []string {
	names := make([]string, len(v.slots))
	for i, s := range v.slots {
		names[i] = s.name
	}
	return names
}

// Required tells whether a declared variable must be supplied.
func (v *Variables) Required(name string) bool {
	i, ok := v.index[name]
	return ok && v.slots[i].required
}

// Default returns the text that stands for a variable that is not supplied,
// and whether one was declared.
func (v *Variables) Default(name string) (string, bool) {
	i, ok := v.index[name]
	if !ok {
		return "", false
	}
	return string(v.slots[i].text), v.slots[i].given
}

// All calls f for every variable in the order of the declaration.
func (v *Variables) All(f func(name string, declared *document.Node)) {
	for _, s := range v.slots {
		f(s.name, s.node)
	}
}

// Open calls f for each variable that is neither required nor has a default:
// not supplied, it is the empty string.
func (v *Variables) Open(f func(name string, declared *document.Node)) {
	for _, s := range v.slots {
		if !s.required && !s.given {
			f(s.name, s.node)
		}
	}
}

// Values are the variables of one request, bound to a declaration. They are
// made for reuse (the zero value is ready) and not safe for concurrent use.
// They hold views of the fastjson value they were bound from and die with that
// value's parser.
type Values struct {
	text       [][]byte // by slot
	supplied   []bool   // by slot
	buf        []byte   // compact JSON of values that are not text
	undeclared int
	empty      int
	decl       *Variables
}

// Bind binds the variables of a request, replacing what values held. vars must
// be nil, null or an object; a null member counts as not supplied, and members
// that are not declared are ignored and counted. The error is a *MissingError.
func (v *Variables) Bind(vars *fastjson.Value, values *Values) error {
	values.reset(v)
	if vars != nil && vars.Type() == fastjson.TypeObject && vars.GetObject().Len() > 0 {
		vars.GetObject().Visit(func(name []byte, value *fastjson.Value) {
			i, ok := v.index[string(name)]
			if !ok {
				values.undeclared++
				return
			}
			values.set(i, value)
		})
	}
	for i := range v.slots {
		if values.supplied[i] {
			continue
		}
		s := &v.slots[i]
		if s.required {
			return &MissingError{Name: s.name}
		}
		values.text[i] = s.text
		if !s.given {
			values.empty++
		}
	}
	return nil
}

// set takes a variable's value.
func (values *Values) set(i int, value *fastjson.Value) {
	switch value.Type() {
	case fastjson.TypeNull:
		return
	case fastjson.TypeString:
		values.text[i] = value.GetStringBytes()
	default:
		// When buf grows, the texts before keep the array they were cut from.
		start := len(values.buf)
		values.buf = jsontext.AppendValue(values.buf, value)
		values.text[i] = values.buf[start:len(values.buf):len(values.buf)]
	}
	values.supplied[i] = true
}

// reset makes room for a declaration's variables and forgets the last request.
func (values *Values) reset(decl *Variables) {
	const keep = 64 << 10
	n := len(decl.slots)
	clear(values.text)
	clear(values.supplied)
	if cap(values.text) < n {
		values.text = make([][]byte, n)
		values.supplied = make([]bool, n)
	}
	values.text, values.supplied = values.text[:n], values.supplied[:n]
	if cap(values.buf) > keep {
		values.buf = nil
	}
	values.buf = values.buf[:0]
	values.undeclared, values.empty, values.decl = 0, 0, decl
}

// Reset lets go of the request's bytes. Pooled values call it before they rest.
func (values *Values) Reset() {
	if values.decl != nil {
		values.reset(values.decl)
	}
}

// Undeclared is how many variables the request supplied without need.
func (values *Values) Undeclared() int { return values.undeclared }

// Empty names the variables that are the empty string because neither the
// request nor the declaration says otherwise. It is nil for most requests.
func (values *Values) Empty() []string {
	if values.empty == 0 {
		return nil
	}
	names := make([]string, 0, values.empty)
	for i, s := range values.decl.slots {
		if !values.supplied[i] && !s.given && !s.required {
			names = append(names, s.name)
		}
	}
	return names
}

// Each calls f for every declared variable with the text that stands for it.
// The text must not be kept or changed.
func (values *Values) Each(f func(name string, text []byte, supplied bool)) {
	for i, text := range values.text {
		f(values.decl.slots[i].name, text, values.supplied[i])
	}
}

// AppendKey appends an unambiguous image of the supplied variables, for cache
// keys: two requests with the same image render alike.
func (values *Values) AppendKey(dst []byte) []byte {
	for i, text := range values.text {
		if !values.supplied[i] {
			dst = append(dst, 0)
			continue
		}
		n := uint64(len(text)) + 1
		for ; n >= 0x80; n >>= 7 {
			dst = append(dst, byte(n)|0x80)
		}
		dst = append(dst, byte(n))
		dst = append(dst, text...)
	}
	return dst
}
