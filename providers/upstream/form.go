package upstream

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Form is the body of a request but for its messages: the part that all requests
// with the same model, parameters and extra have in common. A client makes one with
// NewForm, hands it out by a method PrepareRequests, see providers.Prepare, and
// takes it back by FormOf.
type Form struct {
	// LeftOut are the parameters that the service does not have.
	LeftOut []string

	service *Service
	members map[string]any
	rest    []byte // the members, from the comma before them to the brace behind them
}

// NewForm makes the form of a request of its members but for the messages, which are
// not to be changed afterwards.
func (s *Service) NewForm(members map[string]any, leftOut []string) (*Form, error) {
	rest, err := Marshal(members)
	if err != nil {
		return nil, s.Unsendable("the request cannot be written as JSON: %v", err)
	}
	if rest[0] = ','; len(members) == 0 {
		rest = rest[1:]
	}
	return &Form{slices.Clip(leftOut), s, members, rest}, nil
}

// FormOf returns the form that was prepared for a request, or else the one that make
// makes.
func (s *Service) FormOf(req *providers.Request, make func(*providers.Request) (*Form, error)) (*Form, error) {
	if f, ok := req.Prepared.(*Form); ok && f.service == s {
		return f, nil
	}
	return make(req)
}

// Has reports whether the form has a member of the name.
func (f *Form) Has(name string) bool {
	_, ok := f.members[name]
	return ok
}

// messageSize estimates the size of a message without its texts and parts, in
// bytes.
const messageSize = 40

// Begin returns the first byte of a body, with capacity for messages whose parts
// take about so many bytes each in addition to their text or data.
func (f *Form) Begin(messages []providers.Message, part int) []byte {
	size := 2*messageSize + len(f.rest)
	for i := range messages {
		// Few characters of most texts need an escape.
		m := &messages[i]
		said := m.Size()
		size += messageSize + said + said/16 + (1+len(m.Parts))*part
	}
	return append(make([]byte, 0, size), '{')
}

// End returns the whole body, where body is the result of Begin and the members
// before the form's own.
func (f *Form) End(body []byte) []byte {
	rest := f.rest
	if len(body) == 1 && rest[0] == ',' {
		rest = rest[1:]
	}
	return append(body, rest...)
}

// Set sets a member to the value of a parameter, if that is set.
func Set[T any](members map[string]any, name string, value *T) {
	if value != nil {
		members[name] = *value
	}
}

// Marshal writes JSON without escapes for HTML: with them a schema full of markup
// grows severalfold.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return slices.Clip(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}
