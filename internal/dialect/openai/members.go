package openai

import (
	"bytes"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// Member is a member that a request may have, with its treatment. P reads a request
// of the dialect.
type Member[P any] struct {
	Path string
	Fate dialect.Fate
	Only string // the one value of a member that is Fixed
	// Note describes the member's effect, or why it has none. Errors end with the
	// note of a member that is Fixed or Refused.
	Note string
	// Read reads the member. If it is nil the fate suffices: a Forwarded member is the
	// parameter with the name, and a Mapped one an object whose members have their own
	// rows.
	Read func(p P, v *fastjson.Value) *wire.Error
}

// Members are all members that a dialect's requests may have. Any other is not known.
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

// ReadBody reads all members of a request into p and c. A model is required.
func (all *Members[P]) ReadBody(p P, c *dialect.Call, body *fastjson.Object) *wire.Error {
	if err := all.Read(p, c, "", body); err != nil {
		return err
	}
	if c.Endpoint == "" {
		return dialect.Wrong("model", "is required: the key of the endpoint.")
	}
	if c.Context == nil {
		// The libraries have a parameter for metadata, and none for context.
		c.Context = c.Metadata
	}
	return nil
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
			c.IgnoreUnknown(prefix + wire.Clip(string(key)))
			return
		}
		if m.Read != nil {
			err = m.Read(p, v)
			return
		}
		switch m.Fate {
		case dialect.Forwarded:
			_, err = Parameter(nil, o, m.Path, v, c)
		case dialect.Mapped:
			var inner *fastjson.Object
			if inner, err = Object(At(m.Path), v); err == nil {
				err = all.Read(p, c, m.Path+".", inner)
			}
		case dialect.Fixed:
			if !m.isOnly(v) {
				err = dialect.Wrong(m.Path, "must be %s. %s", m.Only, m.Note)
			}
		case dialect.Ignored:
			c.Ignore(m.Path)
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
