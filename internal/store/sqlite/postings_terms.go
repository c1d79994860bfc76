package sqlite

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/trace"
)

// postedField is what a value is of.
type postedField byte

const (
	ofWorkspace postedField = iota
	ofKind
	ofKey
	ofAPIKey
	ofVersion
	ofRevision
	ofVariant
	ofArm
	ofProvider
	ofModel
	ofStatus
	ofCode
	ofFinishReason
	ofEndpointVariant
	ofMetadata // a member
	ofOddities // metadata that is not posted
)

// hash is FNV-1a, of 64 bits.
type hash uint64

const (
	fnvBasis hash = 14695981039346656037
	fnvPrime hash = 1099511628211
)

// add hashes text, and a byte that is in no text between two.
func (h hash) add(text string) hash {
	for i := range len(text) {
		h = (h ^ hash(text[i])) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime
}

func (h hash) addByte(b byte) hash { return (h ^ hash(b)) * fnvPrime }

func (h hash) term() term {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return term(h >> (64 - 7 - restBits))
}

func fieldHash(workspace string, field postedField) hash {
	return fnvBasis.add(workspace).addByte(byte(field))
}

// termOf is the term of a column's value.
func termOf(workspace string, field postedField, value string) term {
	return fieldHash(workspace, field).add(value).term()
}

// oddTerm is that of traces with metadata that is not posted.
func oddTerm(workspace string) term { return termOf(workspace, ofOddities, "") }

// textTerm, numberTerm and wordTerm are of a member of metadata. members is the hash
// of ofMetadata.
func textTerm(members hash, name, text string) term {
	return members.add(name).addByte('"').add(text).term()
}

func numberTerm(members hash, name string, number float64) term {
	if number == 0 {
		number = 0 // no -0
	}
	h := members.add(name).addByte('0')
	for bits := math.Float64bits(number); bits != 0; bits >>= 8 {
		h = h.addByte(byte(bits))
	}
	return h.term()
}

// wordTerm is of true, false and null.
func wordTerm(members hash, name, word string) term {
	return members.add(name).addByte('t').add(word).term()
}

// metadataTerms appends the terms of the members of metadata that have a scalar
// value, and reports whether these are all. Some are read by SQLite in ways of its
// own: numbers of many digits, half surrogate pairs and invalid JSON.
func metadataTerms(terms []term, workspace, metadata string) (_ []term, whole bool) {
	if metadata == "" || metadata == "{}" {
		return terms, true
	}
	members := fieldHash(workspace, ofMetadata)
	s := jsonScanner{text: metadata}
	if !s.take('{') {
		return terms, false
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return terms, false
		}
		name, ok := s.string()
		if !ok || !s.take(':') || len(terms) == maxMembers {
			return terms, false
		}
		switch s.peek() {
		case '"':
			text, ok := s.string()
			if !ok {
				return terms, false
			}
			terms = append(terms, textTerm(members, name, text))
		case '{', '[':
			if !s.skip() {
				return terms, false
			}
		default:
			switch word := s.word(); word {
			case "true", "false", "null":
				terms = append(terms, wordTerm(members, name, word))
			default:
				if len(word) > 15 || strings.Trim(word, "-.0123456789") != "" {
					return terms, false
				}
				number, err := strconv.ParseFloat(word, 64)
				if err != nil {
					return terms, false
				}
				terms = append(terms, numberTerm(members, name, number))
			}
		}
	}
	return terms, true
}

// jsonScanner reads JSON that was valid when it was stored.
type jsonScanner struct {
	text string
	at   int
}

// peek returns the next byte that is no space, 0 at the end.
func (s *jsonScanner) peek() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *jsonScanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

// string reads a string. It is false for one that SQLite may read in another way.
func (s *jsonScanner) string() (text string, ok bool) {
	if !s.take('"') {
		return "", false
	}
	begin := s.at
	for escaped := false; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '"':
			text = s.text[begin:s.at]
			s.at++
			if !escaped {
				return text, true
			}
			return unescaped(s.text[begin-1 : s.at])
		case '\\':
			escaped = true
			s.at++
		case 0:
			return "", false
		}
	}
	return "", false
}

// unescaped is the text of a string with escapes. It is apart from its caller, where
// the text would be allocated for strings without escapes, too.
func unescaped(quoted string) (text string, ok bool) {
	err := json.Unmarshal([]byte(quoted), &text)
	return text, err == nil && !strings.ContainsAny(text, "\x00\ufffd")
}

// word reads on to the end of a number or of true, false or null.
func (s *jsonScanner) word() string {
	begin := s.at
	for s.at < len(s.text) && !strings.ContainsRune(",} \t\r\n", rune(s.text[s.at])) {
		s.at++
	}
	return s.text[begin:s.at]
}

// skip reads on behind an object or an array.
func (s *jsonScanner) skip() bool {
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return true
			}
		case '"':
			s.at++
			for s.at < len(s.text) && s.text[s.at] != '"' {
				if s.text[s.at] == '\\' {
					s.at++
				}
				s.at++
			}
		}
		s.at++
	}
	return false
}

// The names of traces are read in two texts, each of names that nameSeparator joins:
// seriesColumns, and these.
const postedColumns = `concat_ws(char(31), coalesce(t.revision, ''), coalesce(t.status, ''), coalesce(t.provider, ''), coalesce(t.model, ''),
	coalesce(t.code, ''), coalesce(t.finish_reason, ''), coalesce(t.prompt_version, ''), coalesce(t.endpoint_variant, ''))`

var (
	seriesFields = []postedField{ofWorkspace, ofKind, ofKey, ofAPIKey, ofVersion, ofArm, ofVariant}
	otherFields  = []postedField{ofRevision, ofStatus, ofProvider, ofModel, ofCode, ofFinishReason, ofVersion, ofEndpointVariant}
)

// namesOfColumns are the terms of names that nameSeparator joined.
func namesOfColumns(workspace, joined string, fields []postedField) *postedNames {
	n := new(postedNames)
	values := strings.Split(joined, nameSeparator)
	if n.torn = len(values) != len(fields); n.torn {
		return n
	}
	n.terms = namesOfValues(workspace, fields, values...).terms
	return n
}

// namesOfValues are the terms of the values of fields.
func namesOfValues(workspace string, fields []postedField, values ...string) *postedNames {
	n := new(postedNames)
	for i, value := range values {
		if fields[i] == ofVersion {
			value, _ = versionsOf(value) // that of the prompt is another name
		}
		if value != "" {
			n.terms = append(n.terms, termOf(workspace, fields[i], value))
		}
	}
	return n
}

// wanted is what traces have that a filter selects.
type wanted struct {
	names   []term
	members [][]term // of each member one of the terms
	odd     term
}

// wantedBy returns what all traces have that the filter selects.
func wantedBy(f *trace.Filter) (w wanted, err error) {
	for _, n := range []struct {
		field postedField
		value string
	}{
		{ofKey, f.Key}, {ofAPIKey, f.APIKey}, {ofVersion, f.Version}, {ofRevision, f.Revision}, {ofVariant, f.Variant}, {ofArm, f.Arm},
		{ofProvider, f.Provider}, {ofModel, f.Model}, {ofCode, f.Code}, {ofFinishReason, f.FinishReason},
	} {
		if n.value != "" {
			w.names = append(w.names, termOf(f.Workspace, n.field, n.value))
		}
	}
	if f.Kind != 0 {
		w.names = append(w.names, termOf(f.Workspace, ofKind, f.Kind.String()))
	}
	if f.Status != 0 {
		w.names = append(w.names, termOf(f.Workspace, ofStatus, strconv.Itoa(f.Status)))
	}
	if len(w.names) == 0 { // the others are of the workspace, too
		w.names = append(w.names, termOf(f.Workspace, ofWorkspace, f.Workspace))
	}
	w.odd = oddTerm(f.Workspace)
	return w, w.addMembers(f.Workspace, f.Metadata)
}

func (w *wanted) addMembers(workspace string, matches []trace.MetadataMatch) error {
	members := fieldHash(workspace, ofMetadata)
	for _, match := range matches {
		value, err := match.Scalar()
		if err != nil {
			return err
		}
		var terms []term
		switch value := value.(type) {
		case string:
			terms = []term{textTerm(members, match.Name, value)}
		case json.Number:
			number, _ := value.Float64() // an overflow is an infinity, as it is there
			terms = []term{numberTerm(members, match.Name, number)}
		default:
			terms = []term{wordTerm(members, match.Name, strings.TrimSpace(match.Value))}
		}
		if match.OrText {
			terms = append(terms, textTerm(members, match.Name, match.Value))
		}
		w.members = append(w.members, terms)
	}
	return nil
}
