package sqlite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/trace"
)

// SQLite's full-text index, FTS5, finds traces by their names and metadata. Its documents
// are milliseconds, with which ids begin. Its words are terms: hashes of names and of
// members of metadata. The traces of a millisecond that has all terms of a filter are
// looked up, and the filter decides. So an entry promises nothing: its trace may be gone,
// or have the terms together with another trace, or have another value of the same hash.
// https://www.sqlite.org/fts5.html#contentless_tables
//
// The writer indexes traces in the transaction that stores them. A period of some six days
// has a table of its own, which is dropped when all its traces are gone: deleting words
// from FTS5 costs more than inserting them.
//
// Why FTS5: docs/adr/0013-full-text-index.md. BenchmarkStored shows what a trace costs.

// periodBits is the number of a millisecond's low bits that are its place in the period.
const periodBits = 29

// periodOf returns the number of the period of a millisecond.
func periodOf(millis int64) int64 { return millis >> periodBits }

// termsTable returns the name of a period's table.
func termsTable(period int64) string { return fmt.Sprint("terms_", period) }

// makeTerms returns the statements that make a period's table. An erasure merges its
// segments into one, however few there are.
// https://www.sqlite.org/fts5.html#the_usermerge_configuration_option
func makeTerms(period int64) [2]string {
	table := termsTable(period)
	return [...]string{
		"CREATE VIRTUAL TABLE IF NOT EXISTS " + table + " USING fts5(term, content='', columnsize=0, detail=none, tokenize='ascii')",
		fmt.Sprintf("INSERT INTO %[1]s (%[1]s, rank) VALUES ('usermerge', 2)", table),
	}
}

// allPeriods selects the periods that have a table.
const allPeriods = `
SELECT CAST(substr(name, 7) AS INTEGER) AS period FROM sqlite_schema
WHERE name GLOB 'terms_[0-9]*' AND name NOT GLOB 'terms_*_*' ORDER BY period`

// term is the hash of a value, of 30 bits.
type term uint32

// appendTo appends the word of the term.
func (t term) appendTo(text []byte) []byte { return strconv.AppendUint(text, uint64(t), 36) }

// appendWords appends the terms as a text.
func appendWords(text []byte, terms []term) []byte {
	for _, t := range terms {
		text = append(t.appendTo(text), ' ')
	}
	return text
}

// anyOf returns the FTS5 query for documents with one of the terms.
func anyOf(terms []term) string {
	return strings.Join(strings.Fields(string(appendWords(nil, terms))), " OR ")
}

// termField is the member that a value belongs to.
type termField byte

const (
	ofKind termField = iota
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
	ofMetadata // a member
	ofOddities // metadata that is not indexed
)

// maxMembers bounds the indexed members of a trace's metadata. Each search for metadata
// looks at a trace with more.
const maxMembers = 32

// hash is FNV-1a, of 64 bits.
type hash uint64

const (
	fnvBasis hash = 14695981039346656037
	fnvPrime hash = 1099511628211
)

// add hashes text, and a byte between two texts that is in none.
func (h hash) add(text string) hash { return hashText(h, text) }

func hashText[T string | []byte](h hash, text T) hash {
	for i := range len(text) {
		h = (h ^ hash(text[i])) * fnvPrime
	}
	return (h ^ 0xff) * fnvPrime
}

func (h hash) addByte(b byte) hash { return (h ^ hash(b)) * fnvPrime }

func (h hash) term() term {
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return term(h >> 34)
}

// termOf returns the term of a name.
func (h hash) termOf(field termField, value string) term {
	return h.addByte(byte(field)).add(value).term()
}

// memberTerm returns the term of a scalar member of metadata. The number 1.50 is 1.5, as
// for SQLite. It is false for a number that SQLite may read differently.
func (x *indexer) memberTerm(member hash, value *fastjson.Value) (term, bool) {
	switch value.Type() {
	case fastjson.TypeString:
		return hashText(member.addByte('"'), value.GetStringBytes()).term(), true
	case fastjson.TypeNumber:
		x.scratch = value.MarshalTo(x.scratch[:0])
		if text := x.scratch; len(text) > 15 || len(bytes.Trim(text, "-.0123456789")) > 0 {
			return 0, false
		}
		number, err := strconv.ParseFloat(string(x.scratch), 64)
		return numberTerm(member, number), err == nil
	}
	x.scratch = value.MarshalTo(x.scratch[:0])
	return wordTerm(member, string(x.scratch)), true
}

func numberTerm(member hash, number float64) term {
	if number == 0 {
		number = 0 // no -0
	}
	h := member.addByte('0')
	for bits := math.Float64bits(number); bits != 0; bits >>= 8 {
		h = h.addByte(byte(bits))
	}
	return h.term()
}

// wordTerm returns the term of true, false and null.
func wordTerm(member hash, word string) term { return member.addByte('t').add(word).term() }

// indexer finds the terms of records.
type indexer struct {
	parser  fastjson.Parser
	sorted  []*trace.Record
	found   []term
	scratch []byte
}

// statusText returns the text of a status, empty if it has no term, like most.
func statusText(status int) string {
	if status == 0 || status == http.StatusOK {
		return ""
	}
	return strconv.Itoa(status)
}

// terms appends the terms of a record.
func (x *indexer) terms(terms []term, r *trace.Record) []term {
	workspace := fnvBasis.add(r.Workspace)
	for _, n := range [...]struct {
		field termField
		value string
	}{
		{ofKind, r.Kind.String()}, {ofKey, r.Key}, {ofAPIKey, r.APIKey}, {ofVersion, r.Version}, {ofVersion, r.PromptVersion},
		{ofRevision, r.Revision}, {ofVariant, r.Variant}, {ofArm, r.Arm}, {ofProvider, r.Provider}, {ofModel, r.Model},
		{ofStatus, statusText(r.Status)}, {ofCode, r.Code}, {ofFinishReason, r.FinishReason},
	} {
		if n.value != "" {
			terms = append(terms, workspace.termOf(n.field, n.value))
		}
	}
	metadata := r.Metadata
	if r.Shared != nil {
		metadata = r.Shared.Metadata
	}
	terms, whole := x.metadata(terms, workspace, metadata)
	if !whole {
		terms = append(terms, workspace.termOf(ofOddities, ""))
	}
	return terms
}

// metadata appends the terms of the members of metadata that have a scalar value, and
// reports whether these are all. SQLite reads some differently: numbers of many digits,
// half surrogate pairs and invalid JSON.
func (x *indexer) metadata(terms []term, workspace hash, metadata []byte) (_ []term, whole bool) {
	if len(metadata) == 0 || string(metadata) == "{}" {
		return terms, true
	}
	if bytes.Contains(metadata, []byte(`\u`)) || bytes.IndexByte(metadata, 0) >= 0 {
		return terms, false
	}
	value, err := x.parser.ParseBytes(metadata)
	if err != nil {
		return terms, false
	}
	object, err := value.Object()
	if err != nil || object.Len() > maxMembers {
		return terms, false
	}
	members := workspace.addByte(byte(ofMetadata))
	whole = true
	object.Visit(func(name []byte, value *fastjson.Value) {
		if t := value.Type(); t == fastjson.TypeObject || t == fastjson.TypeArray {
			return
		}
		t, known := x.memberTerm(hashText(members, name), value)
		if !known {
			whole = false
			return
		}
		terms = append(terms, t)
	})
	return terms, whole
}

// matchOf returns the FTS5 query for the milliseconds that may have traces which the filter
// selects and which have more members of metadata. selective is false if the filter asks
// only for the workspace.
func matchOf(f *trace.Filter, more ...trace.MetadataMatch) (match string, selective bool, err error) {
	workspace := fnvBasis.add(f.Workspace)
	kind := ""
	if f.Kind != 0 {
		kind = f.Kind.String()
	}
	var all []string
	for _, n := range [...]struct {
		field termField
		value string
	}{
		{ofKind, kind}, {ofKey, f.Key}, {ofAPIKey, f.APIKey}, {ofVersion, f.Version}, {ofRevision, f.Revision}, {ofVariant, f.Variant},
		{ofArm, f.Arm}, {ofProvider, f.Provider}, {ofModel, f.Model}, {ofStatus, statusText(f.Status)}, {ofCode, f.Code}, {ofFinishReason, f.FinishReason},
	} {
		if n.value != "" {
			all = append(all, string(workspace.termOf(n.field, n.value).appendTo(nil)))
		}
	}
	for _, match := range slices.Concat(f.Metadata, more) {
		terms, err := matchTerms(workspace, match)
		if err != nil {
			return "", false, err
		}
		all = append(all, "("+anyOf(terms)+")")
	}
	if selective = len(all) > 0; !selective { // the terms are those of the workspace
		var kinds []term
		for _, kind := range trace.Kinds() {
			kinds = append(kinds, workspace.termOf(ofKind, kind.String()))
		}
		all = append(all, anyOf(kinds))
	}
	return strings.Join(all, " AND "), selective, nil
}

// matchTerms returns several terms. Every trace with the member of metadata has one of
// them.
func matchTerms(workspace hash, match trace.MetadataMatch) ([]term, error) {
	value, err := match.Scalar()
	if err != nil {
		return nil, err
	}
	member := workspace.addByte(byte(ofMetadata)).add(match.Name)
	terms := []term{workspace.termOf(ofOddities, "")}
	switch value := value.(type) {
	case string:
		terms = append(terms, member.addByte('"').add(value).term())
	case json.Number:
		number, _ := value.Float64() // an overflow is an infinity, as in SQLite
		terms = append(terms, numberTerm(member, number))
	default:
		terms = append(terms, wordTerm(member, strings.TrimSpace(match.Value)))
	}
	if match.OrText {
		terms = append(terms, member.addByte('"').add(match.Value).term())
	}
	return terms, nil
}

// indexed is a row of a period's table: the terms of a millisecond.
type indexed struct {
	millis int64
	terms  []term
}

// milliseconds yields the terms of records by the milliseconds of their ids, in order.
// They are valid until the next ones.
func (x *indexer) milliseconds(records ...[]*trace.Record) iter.Seq[indexed] {
	return func(yield func(indexed) bool) {
		x.sorted = x.sorted[:0]
		for _, batch := range records {
			x.sorted = append(x.sorted, batch...)
		}
		defer func() { clear(x.sorted) }()
		slices.SortFunc(x.sorted, func(a, b *trace.Record) int { return compareIDs(a.ID, b.ID) })
		for i := 0; i < len(x.sorted); {
			millis := x.sorted[i].ID.Time().UnixMilli()
			x.found = x.found[:0]
			for ; i < len(x.sorted) && x.sorted[i].ID.Time().UnixMilli() == millis; i++ {
				x.found = x.terms(x.found, x.sorted[i])
			}
			slices.Sort(x.found)
			if !yield(indexed{millis, slices.Compact(x.found)}) {
				return
			}
		}
	}
}

// termsInserter inserts into the tables of periods.
type termsInserter struct {
	indexer
	writer *native
	period int64  // of the query
	query  string // empty: there was none yet
	text   []byte
}

// insert adds records to the tables of their periods.
func (i *termsInserter) insert(records ...[]*trace.Record) error {
	for m := range i.milliseconds(records...) {
		if period := periodOf(m.millis); i.query == "" || i.period != period {
			i.period, i.query = period, "INSERT INTO "+termsTable(period)+" (rowid, term) VALUES (?, ?)"
		}
		i.text = appendWords(i.text[:0], m.terms)
		err := i.run(m.millis)
		if err != nil && strings.Contains(err.Error(), "no such table") {
			for _, statement := range makeTerms(i.period) {
				if err := i.writer.execute(statement); err != nil {
					return err
				}
			}
			err = i.run(m.millis)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run inserts the text.
func (i *termsInserter) run(millis int64) error {
	stmt, err := i.writer.prepare(i.query)
	if err != nil {
		return err
	}
	return stmt.run(integerValue(millis), value{kind: isText, bytes: i.text})
}
