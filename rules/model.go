package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // a time zone must mean the same on every node, also in an image without the database

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The ceilings of a data model. Each field and segment costs a few bytes and
// nanoseconds in every request.
const (
	maxFields   = 1000
	maxSegments = 1000
	maxNameLen  = 256
)

// Words that have a meaning of their own in when: and columns:.
const (
	segmentColumn = "segment"
	configColumn  = "config"
)

// policy is what binding does with a member of a context that is no field.
type policy uint8

const (
	ignorePolicy policy = iota
	notePolicy
	rejectPolicy
)

// Model is a workspace's data model: which fields a context may carry, their
// types, and the segments made of them. It is immutable.
//
// A binding has a slot for each field, declared, the gateway's and computed, in
// that order, one for each segment, and one for the instant of the request.
type Model struct {
	fields    []field
	sent      int // the fields before are declared, and sent by callers
	declared  int // fields from sent on, before this one, are the gateway's; the others are computed
	segments  []segment
	slots     map[string]int32 // of fields
	nested    map[string]*member
	segmentOf map[string]int32 // slots of segments
	location  *time.Location
	coerce    bool
	onUnknown policy
	strict    bool    // on_type_mismatch: reject
	targeting int32   // 1 + the slot of the field that targetingKey fills; 0: none
	unit      int32   // 1 + the slot of the field of the units; 0: none
	always    []int32 // declared fields that traces have where no table reads them, too: those of trace.always and the unit
	remarks   []Remark
}

// nowSlot returns the slot of the instant of the request.
func (m *Model) nowSlot() int32 { return int32(len(m.fields) + len(m.segments)) }

// isSegment reports whether a slot is that of a segment.
func (m *Model) isSegment(slot int32) bool {
	return int(slot) >= len(m.fields) && slot != m.nowSlot()
}

// FieldNames returns the names of the declared fields, in the order of the file.
func (m *Model) FieldNames() []string {
	names := make([]string, m.sent)
	for i := range names {
		names[i] = m.fields[i].name
	}
	return names
}

// HasMember reports whether a member of a context is a declared field, or leads to one.
func (m *Model) HasMember(name string) bool {
	slot, ok := m.slots[name]
	return ok && int(slot) < m.sent && m.fields[slot].path == nil || m.nested[name] != nil
}

// GatewayNames returns the names of the gateway's fields that tables read, in an order
// that is always the same.
func (m *Model) GatewayNames() []string {
	names := make([]string, 0, m.declared-m.sent)
	for i := m.sent; i < m.declared; i++ {
		names = append(names, m.fields[i].name)
	}
	return names
}

// SegmentNames returns the names of the segments, in the order of the file.
func (m *Model) SegmentNames() []string {
	names := make([]string, len(m.segments))
	for i := range names {
		names[i] = m.segments[i].name
	}
	return names
}

// slotName returns what messages call a slot.
func (m *Model) slotName(slot int32) string {
	switch i := int(slot); {
	case i < len(m.fields):
		return m.fields[i].name
	case slot < m.nowSlot():
		return segmentColumn + " " + m.segments[i-len(m.fields)].name
	}
	return "time"
}

// DecodeModel reads a context.yaml. A nil doc gives a model without fields.
// gateway are the names of the gateway's fields that tables read, each once, as
// GatewayFields finds them. Mistakes are added to errs; the model returned is then
// only fit for decoding further files, to find their mistakes too.
func DecodeModel(doc *document.Node, gateway []*document.Node, errs *document.Errors) *Model {
	m := &Model{
		slots:     make(map[string]int32),
		segmentOf: make(map[string]int32),
		location:  time.UTC,
		coerce:    true,
	}
	readable := doc != nil && doc.CheckMembers(errs, "the data model",
		"fields", "computed", "segments", "timezone", "coerce", "on_unknown_field", "on_type_mismatch", "targeting_key", "unit", "trace")
	if readable {
		m.decodeOptions(doc, errs)
		m.decodeFields(doc.Get("fields"), errs)
		m.nestFields()
		if n := doc.Get("targeting_key"); n != nil {
			m.decodeTargeting(n, errs)
		}
		if n := doc.Get("unit"); n != nil {
			m.decodeUnit(n, errs)
		}
	}
	m.sent = len(m.fields)
	m.addGateway(gateway, doc.Get("computed"), errs)
	m.declared = len(m.fields)
	if !readable {
		return m
	}
	m.decodeComputed(doc.Get("computed"), errs)
	m.decodeAlways(doc.Get("trace"), errs)
	m.decodeSegments(doc.Get("segments"), errs)
	return m
}

func (m *Model) decodeOptions(doc *document.Node, errs *document.Errors) {
	if n := doc.Get("timezone"); n != nil {
		m.decodeTimezone(n, errs)
	}
	if n := doc.Get("coerce"); n != nil {
		m.coerce, _ = n.ReadBool(errs, "coerce")
	}
	if n := doc.Get("on_unknown_field"); n != nil {
		switch word, _ := n.ReadWord(errs, "on_unknown_field", "ignore", "warn", "reject"); word {
		case "warn":
			m.onUnknown = notePolicy
		case "reject":
			m.onUnknown = rejectPolicy
		}
	}
	if n := doc.Get("on_type_mismatch"); n != nil {
		word, _ := n.ReadWord(errs, "on_type_mismatch", "missing", "reject")
		m.strict = word == "reject"
	}
}

func (m *Model) decodeTimezone(n *document.Node, errs *document.Errors) {
	name, ok := n.ReadString(errs, "timezone")
	if !ok {
		return
	}
	// Local, and the empty name, would mean another zone on another machine.
	loc, err := time.LoadLocation(name)
	if err != nil || name == "" || strings.EqualFold(name, "local") {
		errs.Add(n, "unknown timezone %q: it must be a name such as UTC or Europe/Brussels", name)
		return
	}
	m.location = loc
}

func (m *Model) decodeFields(n *document.Node, errs *document.Errors) {
	if n.IsNull() {
		return
	}
	if n.Shape != document.Mapping {
		errs.Add(n, "fields must be a mapping of names to fields, this is %s", n.Shape)
		return
	}
	if len(n.Members) > maxFields {
		errs.Add(n, "%d fields are declared, at most %d are supported", len(n.Members), maxFields)
		return
	}
	m.fields = make([]field, 0, len(n.Members))
	for _, member := range n.Members {
		if m.checkFieldName(member.Key, errs) {
			m.slots[member.Key.Text] = int32(len(m.fields))
			m.fields = append(m.fields, decodeField(member.Key, member.Value, m.coerce, errs))
		}
	}
}

func (m *Model) checkFieldName(key *document.Node, errs *document.Errors) bool {
	switch name := key.Text; {
	case name == "" || len(name) > maxNameLen:
		errs.Add(key, "the name of a field must have 1 to %d bytes", maxNameLen)
		return false
	case name == segmentColumn || name == configColumn:
		errs.Add(key, "a field can't be called %q, which has a meaning of its own in rules", name)
		return false
	}
	return true
}

// lookupField finds a field by name, or reports that there is none.
func (m *Model) lookupField(name *document.Node, also []string, errs *document.Errors) (int32, bool) {
	if slot, ok := m.slots[name.Text]; ok && !m.isRollout(slot) {
		return slot, true
	} else if ok {
		errs.Add(name, "%s is the share of a rollout, which its split alone reads", strconv.Quote(name.Text))
		return 0, false
	}
	known := slices.Clone(also)
	for i := range m.fields {
		known = append(known, m.fields[i].name)
	}
	if strings.HasPrefix(name.Text, budgetWord) || strings.HasPrefix(name.Text, healthWord) {
		errs.Report("unknown-field", name.Pos, "unknown field %s: the fields of the gateway are budget.LIMIT, with the name of a limit, health.PROVIDER and health.PROVIDER/MODEL", strconv.Quote(name.Text))
		return 0, false
	}
	if len(m.fields) == 0 {
		errs.Report("unknown-field", name.Pos, "unknown field %s: the data model (context.yaml) declares none", strconv.Quote(name.Text))
		return 0, false
	}
	errs.Report("unknown-field", name.Pos, "unknown field %s%s", strconv.Quote(name.Text), document.DidYouMean(name.Text, known))
	return 0, false
}
