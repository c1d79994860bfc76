package rules

import (
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// member is a member of a context, or of an object in it, at which paths of
// fields end or through which they lead. The paths user.plan and user.address.zip
// make the tree
//
//	user (below: plan, address (below: zip))
type member struct {
	path  string
	slots []int32 // the fields whose path ends here
	below map[string]*member
}

// decodePath reads where in the context a field is.
func decodePath(n *document.Node, errs *document.Errors) []string {
	text, ok := n.ReadString(errs, "path")
	if !ok {
		return nil
	}
	path := strings.Split(text, ".")
	for _, name := range path {
		if name == "" || len(text) > maxNameLen {
			errs.Add(n, "a path must name members with dots between them, such as address.country, this is %q", shorten(text))
			return nil
		}
	}
	return path
}

// members returns the members that lead to the field in the context.
func (f *field) members() []string {
	if f.path == nil {
		return []string{f.name}
	}
	return f.path
}

// member returns where in the context the field is, as people write it.
func (f *field) member() string { return strings.Join(f.members(), ".") }

// nestFields builds the tree of the paths of fields.
func (m *Model) nestFields() {
	root := &member{}
	for slot := range m.fields {
		at := root
		for i, name := range m.fields[slot].path {
			next := at.below[name]
			if next == nil {
				next = &member{path: strings.Join(m.fields[slot].path[:i+1], ".")}
				if at.below == nil {
					at.below = make(map[string]*member)
				}
				at.below[name] = next
			}
			at = next
		}
		if at != root {
			at.slots = append(at.slots, int32(slot))
		}
	}
	m.nested = root.below
}

// bindNested binds a member of the context to the fields whose paths end or
// lead there.
func (b *Binding) bindNested(n *member, v *fastjson.Value) *BindError {
	var refused *BindError
	for _, slot := range n.slots {
		if e := b.bindField(slot, v); refused == nil {
			refused = e
		}
	}
	if n.below == nil || v.Type() == fastjson.TypeNull {
		return refused
	}
	object, err := v.Object()
	if err != nil {
		if e := b.noObject(n, v); refused == nil {
			refused = e
		}
		return refused
	}
	object.Visit(func(name []byte, v *fastjson.Value) {
		var e *BindError
		if next := n.below[string(name)]; next != nil {
			e = b.bindNested(next, v)
		} else if b.model.onUnknown != ignorePolicy {
			e = b.unknownField(n.path + "." + string(name))
		}
		if refused == nil {
			refused = e
		}
	})
	return refused
}

// noObject notes a mismatch for each field below a member that is no object.
func (b *Binding) noObject(n *member, v *fastjson.Value) *BindError {
	m := b.model
	for i := range m.fields[:m.sent] {
		if f := &m.fields[i]; strings.HasPrefix(f.member(), n.path+".") && f.path != nil {
			b.note(f.name, NoteTypeMismatch)
		}
	}
	if !m.strict {
		return nil
	}
	return &BindError{Field: n.path, Message: "context." + n.path + " must be an object, this is " + describeJSON(v)}
}

// NoField is a context of which no member is a field. An empty one would be no
// context.
const NoField = `{"other":1}`

// ContextJSON writes a context from the values of the declared fields: JSON in
// the order of FieldNames, then of GatewayNames, empty for none. A context with no field has another
// member, because without any it would be no context.
func (m *Model) ContextJSON(values []string) string {
	var root contextObject
	for i, v := range values {
		if v == "" {
			continue
		}
		root.set(m.fields[i].members(), v)
	}
	if root.members == nil {
		return NoField
	}
	return string(root.append(nil))
}

// contextObject is an object of a context on its way to text.
type contextObject struct {
	members []contextMember
}

// contextMember is a member with a value or with members of its own.
type contextMember struct {
	name   string
	value  string
	object *contextObject
}

// set gives the member at a path its value. Where several fields are read from
// the same place, or one from within another, the first one has it.
func (o *contextObject) set(path []string, value string) {
	var at *contextMember
	for i := range o.members {
		if o.members[i].name == path[0] {
			at = &o.members[i]
		}
	}
	switch last := len(path) == 1; {
	case at == nil && last:
		o.members = append(o.members, contextMember{name: path[0], value: value})
	case at == nil:
		below := new(contextObject)
		o.members = append(o.members, contextMember{name: path[0], object: below})
		below.set(path[1:], value)
	case at.object != nil && !last:
		at.object.set(path[1:], value)
	}
}

func (o *contextObject) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, quoteJSON(m.name)...), ':')
		if m.object != nil {
			dst = m.object.append(dst)
		} else {
			dst = append(dst, m.value...)
		}
	}
	return append(dst, '}')
}
