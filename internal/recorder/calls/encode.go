package calls

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// A record is a row of members: the length of its name in a byte, the name, the
// length of the value as a varint, the value. An absent member is left out. A
// reader passes over names of other versions. Content comes last, so that a list
// need not read it.

// member is one member of a record by its name.
type member struct {
	prefix string // the length of the name, and the name
	field  *trace.Field[trace.Record]
}

// The members that a record shares. The flags mark the ones that the record shows.
const (
	sharedFlags     = "shared"
	sharedNotes     = "shared.notes"
	sharedMetadata  = "shared.metadata"
	sharedContext   = "shared.context"
	sharedVariables = "shared.variables"
)

// The values of sharedFlags.
const (
	sharesMetadata = "1"
	sharesContent  = "2"
)

var (
	members = func() (all []member) {
		for i := range trace.RecordFields {
			f := &trace.RecordFields[i]
			if _, isState := f.At(new(trace.Record)).(*trace.State); !isState { // all are starts
				all = append(all, member{string([]byte{byte(len(f.Name))}) + f.Name, f})
			}
		}
		// The sort is stable: the id stays the first.
		slices.SortStableFunc(all, func(a, b member) int {
			switch {
			case a.field.Content == b.field.Content:
				return 0
			case b.field.Content:
				return -1
			}
			return 1
		})
		return all
	}()
	firstContent = slices.IndexFunc(members, func(m member) bool { return m.field.Content })
	byName       = func() map[string]*trace.Field[trace.Record] {
		all := make(map[string]*trace.Field[trace.Record])
		for _, m := range members {
			all[m.field.Name] = m.field
		}
		return all
	}()
)

// appendRecord appends a record but for its state. short is the length up to its
// content.
func appendRecord(dst []byte, r *trace.Record) (out []byte, short int) {
	dst = appendMembers(dst, members[:firstContent], r)
	if s := r.Shared; s != nil {
		flags := sharesMetadata
		if r.SharesContent {
			flags = sharesContent
		}
		dst = appendValue(appendName(dst, sharedFlags), flags)
		if len(s.Notes) > 0 {
			dst = appendValue(appendName(dst, sharedNotes), listOf(s.Notes))
		}
		dst = appendText(dst, sharedMetadata, s.Metadata)
	}
	short = len(dst)
	dst = appendMembers(dst, members[firstContent:], r)
	if s := r.Shared; s != nil && r.SharesContent {
		dst = appendText(dst, sharedContext, s.Context)
		dst = appendText(dst, sharedVariables, s.Variables)
	}
	return dst, short
}

func appendName(dst []byte, name string) []byte {
	return append(append(dst, byte(len(name))), name...)
}

func appendValue[T string | []byte](dst []byte, value T) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(value))), value...)
}

func appendText(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return appendValue(appendName(dst, name), value)
}

// appendNumber appends a value of up to 63 bits.
func appendNumber(dst []byte, n int64) []byte {
	length := len(dst)
	dst = binary.AppendVarint(append(dst, 0), n)
	dst[length] = byte(len(dst) - length - 1) // ten bytes at most
	return dst
}

// listOf encodes a list as JSON. Text can't fail to be encoded.
func listOf[T any](list []T) []byte {
	encoded, _ := json.Marshal(list)
	return encoded
}

func appendMembers(dst []byte, members []member, r *trace.Record) []byte {
	for i := range members {
		m := &members[i]
		at := m.field.At(r)
		if text, ok := at.(*string); ok { // as most are
			if *text != "" {
				dst = appendValue(append(dst, m.prefix...), *text)
			}
			continue
		}
		if m.field.Known != nil && !*m.field.Known(r) {
			continue
		}
		switch at := at.(type) {
		case *[]byte:
			if len(*at) > 0 {
				dst = appendValue(append(dst, m.prefix...), *at)
			}
		case *trace.ID:
			if !at.IsZero() || m.field.Required {
				dst = appendValue(append(dst, m.prefix...), at[:])
			}
		case *time.Time:
			if !at.IsZero() {
				dst = appendNumber(append(dst, m.prefix...), at.UnixNano())
			}
		case *[]string:
			if len(*at) > 0 {
				dst = appendValue(append(dst, m.prefix...), listOf(*at))
			}
		case *[]trace.Attempt:
			if len(*at) > 0 {
				dst = appendValue(append(dst, m.prefix...), listOf(*at))
			}
		default:
			if n := numberAt(at); n != 0 || m.field.Known != nil {
				dst = appendNumber(append(dst, m.prefix...), n)
			}
		}
	}
	return dst
}

// numberAt returns the number at a pointer.
func numberAt(at any) int64 {
	switch at := at.(type) {
	case *trace.Kind:
		return int64(*at)
	case *time.Duration:
		return int64(*at)
	case *int:
		return int64(*at)
	case *int64:
		return *at
	case *float64:
		return int64(math.Float64bits(*at))
	case *bool:
		if *at {
			return 1
		}
	}
	return 0
}

var errMalformed = errors.New("a start record is malformed")

// readRecord reads the output of appendRecord, whole or up to its content. The record
// is of a call that is under way, and its own.
func readRecord(text []byte) (*trace.Record, error) {
	r := &trace.Record{State: trace.StateStarted}
	shared, shares := trace.Shared{}, false
	for len(text) > 0 {
		name, value, rest, ok := readMember(text)
		if !ok {
			return nil, errMalformed
		}
		text = rest
		var err error
		switch f := byName[name]; {
		case f != nil:
			err = set(f.At(r), value)
			if f.Known != nil {
				*f.Known(r) = true
			}
		case name == sharedFlags:
			shares, r.SharesContent = true, string(value) == sharesContent
		case name == sharedNotes:
			err = json.Unmarshal(value, &shared.Notes)
		case name == sharedMetadata:
			shared.Metadata = slices.Clone(value)
		case name == sharedContext:
			shared.Context = slices.Clone(value)
		case name == sharedVariables:
			shared.Variables = slices.Clone(value)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errMalformed, name, err)
		}
	}
	if shares {
		r.Shared = &shared
	}
	return r, nil
}

// readMember splits the first member off.
func readMember(text []byte) (name string, value, rest []byte, ok bool) {
	length := 1 + int(text[0])
	if length > len(text) {
		return "", nil, nil, false
	}
	size, n := binary.Uvarint(text[length:])
	if n <= 0 || size > uint64(len(text)-length-n) {
		return "", nil, nil, false
	}
	begin := length + n
	end := begin + int(size)
	return string(text[1:length]), text[begin:end], text[end:], true
}

// set gives the member at a pointer its value.
func set(at any, value []byte) error {
	switch at := at.(type) {
	case *string:
		*at = string(value)
		return nil
	case *[]byte:
		*at = slices.Clone(value)
		return nil
	case *trace.ID:
		if copy(at[:], value) != len(at) {
			return errors.New("no id")
		}
		return nil
	case *[]string:
		return json.Unmarshal(value, at)
	case *[]trace.Attempt:
		return json.Unmarshal(value, at)
	}
	n, length := binary.Varint(value)
	if length != len(value) || length <= 0 {
		return errors.New("no number")
	}
	switch at := at.(type) {
	case *time.Time:
		*at = time.Unix(0, n)
	case *trace.Kind:
		*at = trace.Kind(n)
	case *time.Duration:
		*at = time.Duration(n)
	case *int:
		*at = int(n)
	case *int64:
		*at = n
	case *float64:
		*at = math.Float64frombits(uint64(n))
	case *bool:
		*at = n != 0
	}
	return nil
}

// Shown returns a record as a store shows it: with the shared members as its own. Its
// seal is the one of an interrupted call, which it is not yet.
func Shown(r *trace.Record) *trace.Record {
	r.Seal = ""
	s := r.Shared
	if s == nil {
		return r
	}
	r.Notes = slices.Concat(s.Notes, r.Notes)
	r.Metadata = s.Metadata
	if r.SharesContent {
		r.Context, r.Variables = s.Context, s.Variables
	}
	r.Shared, r.SharesContent = nil, false
	return r
}
