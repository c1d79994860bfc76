package openai

import (
	"bytes"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Member is a member that a request may have, with what becomes of it. P reads a request
// of the dialect.
type Member[P any] struct {
	Path string
	Fate dialect.Fate
	Only string // the one value of a member that is Fixed
	// Note says what it becomes, or why it does not. Errors end with that of a member
	// that is Fixed or Refused.
	Note string
	// Read reads the member. Where it is nil the fate says all: what is Forwarded is the
	// parameter with the name, and what is Mapped an object whose members have rows of
	// their own.
	Read func(p P, v *fastjson.Value) *wire.Error
}

// Members are all members that a dialect's requests may have. Any other is refused.
type Members[P any] struct {
	List []Member[P]
	at   map[string]*Member[P]
}

// NewMembers returns the members of a list.
func NewMembers[P any](list []Member[P]) Members[P] {
	all := Members[P]{list, make(map[string]*Member[P], len(list))}
	for i := range list {
		all.at[list[i].Path] = &list[i]
	}
	return all
}

// Read reads the members of an object of a request into p and c. prefix is the object's
// path with a dot; empty for the request's own.
func (all *Members[P]) Read(p P, c *dialect.Call, prefix string, o *fastjson.Object) (err *wire.Error) {
	o.Visit(func(key []byte, v *fastjson.Value) {
		if err != nil || v.Type() == fastjson.TypeNull {
			return
		}
		m := all.at[prefix+string(key)]
		if m == nil || bytes.IndexByte(key, '.') >= 0 {
			err = Unknown(prefix, string(key))
			return
		}
		if m.Read != nil {
			err = m.Read(p, v)
			return
		}
		switch m.Fate {
		case dialect.Forwarded:
			_, err = Parameter(prefix, o, m.Path[len(prefix):], v, c)
		case dialect.Mapped:
			var inner *fastjson.Object
			if inner, err = Object(m.Path, v); err == nil {
				err = all.Read(p, c, m.Path+".", inner)
			}
		case dialect.Fixed:
			if !m.isOnly(v) {
				err = dialect.Wrong(m.Path, "must be %s. %s", m.Only, m.Note)
			}
		case dialect.Ignored:
			c.Ignored = append(c.Ignored, m.Path)
		case dialect.Refused:
			err = dialect.Wrong(m.Path, "is not accepted. %s", m.Note)
		}
	})
	return err
}

// isOnly reports whether a value is the one that a Fixed member may have.
func (m *Member[P]) isOnly(v *fastjson.Value) bool {
	if m.Only == "false" {
		return v.Type() == fastjson.TypeFalse
	}
	return Text(v) == m.Only
}
