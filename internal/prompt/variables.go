package prompt

import (
	"bytes"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/rules"
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
	node     *document.Node // its declaration
	text     text           // the default, if there is one
	config   *Configured    // source of the default that wins over text; may be nil
	required bool
}

// Source resolves the member config of the declaration of a variable. It returns
// nil after it has added a mistake to errs.
type Source func(declaration *document.Node, errs *document.Errors) *Configured

// DecodeVariables reads a prompt's variables: a mapping of names to {default,
// required, config, path, description}, each of which is optional. A nil node
// declares none. Mistakes are added to errs.
func DecodeVariables(n *document.Node, source Source, errs *document.Errors) *Variables {
	v := &Variables{index: make(map[string]int)}
	if n.IsNull() {
		return v
	}
	if n.Shape != document.Mapping {
		errs.Add(n, "variables must be a mapping of names to {default, required}, this is %s", n.Shape)
		return v
	}
	for _, m := range n.Members {
		name := m.Key.Text
		if !ValidName(name) {
			errs.Add(m.Key, "%q is not a variable name: a letter or _, then letters, digits, _, . or -", name)
			continue
		}
		s := slot{name: name, node: m.Key}
		before := errs.Len()
		if !m.Value.IsNull() && m.Value.CheckMembers(errs, "the variable "+name, "default", "required", "config", "path", "description") {
			s.decode(m.Value, errs.Len() > before, source, errs)
		}
		v.index[name] = len(v.slots)
		v.slots = append(v.slots, s)
	}
	return v
}

// decode reads the declaration of one variable. misspelt reports whether it has an
// unknown member, which may be the one that is missing.
func (s *slot) decode(n *document.Node, misspelt bool, source Source, errs *document.Errors) {
	if r := n.Get("required"); r != nil {
		s.required, _ = r.ReadBool(errs, "required")
	}
	if d := n.Get("description"); d != nil {
		d.ReadString(errs, "description")
	}
	if d := n.Get("default"); !d.IsNull() {
		if s.required {
			errs.Add(d, "the variable %s is required, so its default is never used: remove one of the two", s.name)
		}
		s.decodeDefault(d, errs)
	}
	config, path := n.Get("config"), n.Get("path")
	switch {
	case config.IsNull():
		if path != nil && !misspelt {
			errs.Add(path, "path needs config, the key of the remote configuration in whose value it leads")
		}
	case s.required:
		errs.Add(config, "the variable %s is required, so each request supplies it and no configuration is read: remove one of the two", s.name)
	case !n.Get("default").IsNull() && path.IsNull():
		errs.Add(n.Get("default"), "the whole value of a configuration is never missing, so the default of the variable %s is never used: remove one of the two, or add a path", s.name)
	default:
		s.config = source(n, errs)
	}
}

// decodeDefault reads a default. It is inserted like a value of a request: text
// verbatim, other values as compact JSON.
func (s *slot) decodeDefault(d *document.Node, errs *document.Errors) {
	raw := []byte(d.Text)
	if d.Shape != document.Scalar || !d.Quoted {
		if json := d.AppendJSON(nil, errs); d.Shape != document.Scalar || json[0] != '"' {
			raw = json
		}
	}
	s.text = newText(raw)
}

// Len returns the number of variables.
func (v *Variables) Len() int { return len(v.slots) }

// Names returns the declared names in the order of the declaration.
func (v *Variables) Names() []string {
	names := make([]string, len(v.slots))
	for i, s := range v.slots {
		names[i] = s.name
	}
	return names
}

// declares reports whether a name is declared.
func (v *Variables) declares(name []byte) bool {
	_, ok := v.index[string(name)]
	return ok
}

// Required reports whether a declared variable must be supplied.
func (v *Variables) Required(name string) bool {
	i, ok := v.index[name]
	return ok && v.slots[i].required
}

// Default returns the text of a variable that is not supplied, and whether a default
// was declared.
func (v *Variables) Default(name string) (string, bool) {
	i, ok := v.index[name]
	if !ok {
		return "", false
	}
	return string(v.slots[i].text.bytes), v.slots[i].text.bytes != nil
}

// Configured returns the remote configuration of a declared variable, or nil.
func (v *Variables) Configured(name string) *Configured {
	if i, ok := v.index[name]; ok {
		return v.slots[i].config
	}
	return nil
}

// All calls f for every variable in the order of the declaration.
func (v *Variables) All(f func(name string, declared *document.Node)) {
	for _, s := range v.slots {
		f(s.name, s.node)
	}
}

// Open calls f for each variable that is neither required nor has a default nor a
// configuration. If it is not supplied it is the empty string.
func (v *Variables) Open(f func(name string, declared *document.Node)) {
	for _, s := range v.slots {
		if !s.required && s.text.bytes == nil && s.config == nil {
			f(s.name, s.node)
		}
	}
}

// Values are the variables of one request, bound to a declaration. They can be reused
// (the zero value is ready) and are not safe for concurrent use. They hold views of
// the fastjson value that they were bound from and are valid as long as its parser.
//
// Several prompts of one request are bound one after the other. The text of each
// variable and its length in JSON are computed once for all of them.
type Values struct {
	decl       *Variables
	text       [][]byte // by slot; nil: empty for want of a default
	from       []int    // by slot: the member that supplied it; of a default, ^ its length in JSON
	undeclared int
	empty      int

	source  *fastjson.Value // of members
	members []member        // of the request
	sorted  bool            // members are in the order of their names
	buf     []byte          // compact JSON of members that are not text

	configured []*Configured // that were read
}

// member is one variable of a request.
type member struct {
	name    []byte
	value   *fastjson.Value
	text    []byte
	read    bool // text is set
	escaped int  // bytes of text in JSON; 0 before they are counted
}

const (
	// linearMembers is the number of members up to which a linear search is faster
	// than sorting.
	linearMembers = 16
	// keepMembers and keepText are the capacities up to which values keep
	// their buffers for the next request.
	keepMembers = 1024
	keepText    = 64 << 10
)

// Bind binds the variables of a request, replacing the content of values. vars must
// be nil, null or an object. A null member counts as not supplied. Undeclared
// members are ignored and counted. The error is a *MissingError.
//
// The defaults from remote configurations are the ones for the context that is
// bound to b. Only the ones that a reads are looked up, so that a configuration
// counts as read if its value is sent; nil reads all.
//
// Bind takes the same vars for the same variables. So Reset must be called before
// another request's variables are bound.
func (v *Variables) Bind(vars *fastjson.Value, b *rules.Binding, a *Answer, values *Values) error {
	values.begin(v)
	values.take(vars)
	declared := 0
	for i := range v.slots {
		s := &v.slots[i]
		at := values.find(s.name)
		if at >= 0 {
			declared++
			if m := &values.members[at]; m.value.Type() != fastjson.TypeNull {
				values.text[i], values.from[i] = values.textOf(m), at
				continue
			}
		}
		if s.required {
			return &MissingError{Name: s.name}
		}
		t := &s.text
		if s.config != nil {
			t = values.configure(s, b, a == nil || a.reads(i))
		}
		values.text[i], values.from[i] = t.bytes, ^t.escaped
		if t.bytes == nil {
			values.empty++
		}
	}
	values.undeclared = len(values.members) - declared
	return nil
}

// BoundTo reports whether values are bound to a declaration already.
func (values *Values) BoundTo(v *Variables) bool { return values.decl == v }

// begin sizes values for a declaration's variables.
func (values *Values) begin(decl *Variables) {
	n := len(decl.slots)
	clear(values.text)
	if cap(values.text) < n {
		values.text = make([][]byte, n)
		values.from = make([]int, n)
	}
	values.text, values.from = values.text[:n], values.from[:n]
	values.undeclared, values.empty, values.decl = 0, 0, decl
	values.forgetRead()
}

// take reads which variables a request has, unless it did before.
func (values *Values) take(vars *fastjson.Value) {
	if vars != nil && vars == values.source {
		return
	}
	values.forget()
	if vars == nil || vars.Type() != fastjson.TypeObject {
		return
	}
	values.source = vars
	vars.GetObject().Visit(func(name []byte, value *fastjson.Value) {
		values.members = append(values.members, member{name: name, value: value})
	})
	if values.sorted = len(values.members) > linearMembers; values.sorted {
		slices.SortFunc(values.members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	}
}

// find returns the index of the member with the name, or -1.
func (values *Values) find(name string) int {
	if !values.sorted {
		for i := range values.members {
			if string(values.members[i].name) == name {
				return i
			}
		}
		return -1
	}
	at, found := slices.BinarySearchFunc(values.members, name, func(m member, name string) int {
		switch {
		case string(m.name) == name:
			return 0
		case string(m.name) < name:
			return -1
		}
		return 1
	})
	if !found {
		return -1
	}
	return at
}

// textOf returns the text of a member that is not null.
func (values *Values) textOf(m *member) []byte {
	switch {
	case m.read:
	case m.value.Type() == fastjson.TypeString:
		m.text = m.value.GetStringBytes()
	default:
		// When buf grows, earlier texts keep the array that they were cut from.
		start := len(values.buf)
		values.buf = jsontext.AppendValue(values.buf, m.value)
		m.text = values.buf[start:len(values.buf):len(values.buf)]
	}
	m.read = true
	return m.text
}

// escapedLen returns how many bytes a variable has in JSON.
func (values *Values) escapedLen(slot int) int {
	at := values.from[slot]
	if at < 0 {
		return ^at
	}
	m := &values.members[at]
	if m.escaped == 0 {
		m.escaped = jsontext.EscapedLen(m.text)
	}
	return m.escaped
}

// forget drops a request's members.
func (values *Values) forget() {
	clear(values.members)
	if cap(values.members) > keepMembers {
		values.members = nil
	}
	if cap(values.buf) > keepText {
		values.buf = nil
	}
	values.source, values.members, values.buf, values.sorted = nil, values.members[:0], values.buf[:0], false
}

// Reset drops the request's bytes. It is called before values go back to a pool.
func (values *Values) Reset() {
	clear(values.text)
	values.forget()
	values.text, values.from = values.text[:0], values.from[:0]
	values.undeclared, values.empty, values.decl = 0, 0, nil
	values.forgetRead()
}

// Text returns the text of a variable by its slot. It must not be kept or changed.
func (values *Values) Text(slot int) []byte { return values.text[slot] }

// Undeclared returns how many variables of the request are not declared.
func (values *Values) Undeclared() int { return values.undeclared }

// AppendUndeclared appends the names of the variables that are not declared, in the
// order of the request or, if they are many, of their names. It appends as many as
// names has capacity for. They are valid as long as values are.
func (values *Values) AppendUndeclared(names [][]byte) [][]byte {
	for i := range values.members {
		if len(names) == cap(names) {
			break
		}
		if name := values.members[i].name; !values.decl.declares(name) {
			names = append(names, name)
		}
	}
	return names
}

// Empty returns the variables that are the empty string because they are not supplied
// and have no default, or one that leads to no value of a configuration. It is nil for
// most requests.
func (values *Values) Empty() []string {
	if values.empty == 0 {
		return nil
	}
	names := make([]string, 0, values.empty)
	for i, s := range values.decl.slots {
		if values.from[i] < 0 && values.text[i] == nil {
			names = append(names, s.name)
		}
	}
	return names
}
