package document

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// The ceilings of one file.
const (
	// MaxFileBytes bounds the size of a file.
	MaxFileBytes = 16 << 20
	// MaxDepth is how deep lists and mappings may nest.
	MaxDepth = 100
	// MaxNodes is how many values and keys a JSON or CSV file may have, enough for a table
	// of 100,000 rows. Each takes about 130 bytes.
	MaxNodes = 1_800_000
	// MaxYAMLNodes is MaxNodes of a YAML file. Each takes about 400 bytes while it
	// is read.
	MaxYAMLNodes = 600_000
	// MaxAliasedNodes is how many values and keys all aliases of a file may
	// repeat. Without it a few lines that refer to each other could mean millions
	// of values.
	MaxAliasedNodes = 100_000
	// MaxAliasedBytes is how much text they may repeat.
	MaxAliasedBytes = 4 << 20
	// MaxMembers is how many members one mapping may have.
	MaxMembers = 10_000
)

// errStop ends the reading of a file after its mistake was reported.
var errStop = errors.New("document: stop")

// Parse reads one file: JSON when its name ends in .json, CSV when it ends in .csv,
// otherwise YAML. The name is otherwise used for positions only. Mistakes are added to errs. Parse returns nil
// for a file with a mistake and for a file without content.
//
// YAML is read as version 1.2. Parse refuses explicit tags, directives, merge keys,
// keys that are not scalars, duplicate keys and more than one document, because
// they surprise readers or hide content. Anchors and aliases work within a file.
//
// JSON is read by RFC 8259; duplicate names and halves of surrogate pairs are
// refused. CSV is read by RFC 4180, as a list of rows.
func Parse(file string, data []byte, errs *Errors) *Node {
	return ParseText(file, string(data), errs)
}

// ParseText is Parse of a text, parts of which the nodes keep.
func ParseText(file, data string, errs *Errors) *Node {
	data = strings.TrimPrefix(data, "\xef\xbb\xbf")
	if TooLarge(file, int64(len(data)), errs) {
		return nil
	}
	if i := invalidUTF8(data); i >= 0 {
		as := "UTF-8"
		if IsCSV(file) {
			as = "UTF-8 (spreadsheets call it CSV UTF-8)"
		}
		if strings.HasPrefix(data, "\xff\xfe") || strings.HasPrefix(data, "\xfe\xff") {
			errs.AddAt(Position{file, 1, 1}, "the file is in UTF-16: save it as %s", as)
			return nil
		}
		errs.AddAt(offsetPosition(file, data, i), "the file is not valid UTF-8: byte 0x%02x: save it as %s", data[i], as)
		return nil
	}
	if line := conflict(data); line > 0 {
		errs.AddAt(Position{file, line, 1}, "two versions were merged here and the conflict is still open: keep what is right, and delete the lines that begin with <<<<<<<, ======= and >>>>>>>")
		return nil
	}
	if strings.TrimSpace(data) == "" {
		return nil
	}
	before := errs.Len()
	var n *Node
	switch {
	case IsJSON(file):
		n = parseJSON(file, data, errs)
	case IsCSV(file):
		n = parseCSV(file, data, errs)
	default:
		n = parseYAML(file, data, errs)
	}
	if errs.Len() > before {
		return nil
	}
	return n
}

// TooLarge reports a file that is larger than MaxFileBytes. A caller that has not read
// all of it calls TooLarge with its size, because Parse sees only the bytes read.
func TooLarge(file string, size int64, errs *Errors) bool {
	if size <= MaxFileBytes {
		return false
	}
	errs.AddAt(Position{file, 1, 1}, "the file has %d bytes, at most %d are read", size, MaxFileBytes)
	return true
}

// IsJSON reports whether a file of this name is read as JSON.
func IsJSON(file string) bool { return strings.EqualFold(filepath.Ext(file), ".json") }

// unixLines makes one line feed of each line break.
func unixLines(data string) string {
	if !strings.Contains(data, "\r") {
		return data
	}
	return strings.ReplaceAll(strings.ReplaceAll(data, "\r\n", "\n"), "\r", "\n")
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data string) int {
	if utf8.ValidString(data) {
		return -1
	}
	i := 0
	for {
		r, size := utf8.DecodeRuneInString(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
}

// conflict returns the line of the first marker that a merge left, or 0.
func conflict(data string) int {
	for _, marker := range []string{"<<<<<<< ", ">>>>>>> "} {
		if strings.HasPrefix(data, marker) {
			return 1
		}
		if i := strings.Index(data, "\n"+marker); i >= 0 {
			return 2 + strings.Count(data[:i], "\n")
		}
	}
	return 0
}

// offsetPosition counts lines and, within the line, characters.
func offsetPosition(file, data string, offset int) Position {
	offset = min(offset, len(data))
	line := 1 + strings.Count(data[:offset], "\n")
	start := strings.LastIndexByte(data[:offset], '\n') + 1
	return Position{file, line, 1 + utf8.RuneCountInString(data[start:offset])}
}

// addMember appends a member to a mapping. A member whose key is there already is
// reported and counts too, so that the number of mistakes is bounded.
func (b *builder) addMember(n *Node, seen map[string]*Node, key, value *Node) error {
	if len(n.Members) == MaxMembers {
		return b.fail(key.Pos, "a mapping has more than %d members", MaxMembers)
	}
	if first, dup := seen[key.Text]; dup {
		b.errs.Add(key, "duplicate member %q, first given in line %d", key.Text, first.Pos.Line)
	} else {
		seen[key.Text] = key
	}
	n.Members = append(n.Members, Member{key, value})
	return nil
}

// builder is the common part of the YAML and the JSON reader.
type builder struct {
	file    string
	errs    *Errors
	nodes   int    // read so far
	limit   int    // of nodes
	instead string // what to do about more
}

// count counts a value or a key, and fails when there are too many.
func (b *builder) count(pos Position) error {
	if b.nodes++; b.nodes > b.limit {
		return b.overfull(pos)
	}
	return nil
}

// overfull reports that there are too many values and keys.
func (b *builder) overfull(pos Position) error {
	return b.fail(pos, "the file has more than %d values and keys: %s", b.limit, b.instead)
}

// fail reports a mistake and returns the error that ends the reading.
func (b *builder) fail(pos Position, format string, args ...any) error {
	b.errs.AddAt(pos, "%s", fmt.Sprintf(format, args...))
	return errStop
}

// checkDepth fails when a list or mapping would be deeper than allowed.
func (b *builder) checkDepth(depth int, pos Position) error {
	if depth > MaxDepth {
		return b.fail(pos, "lists and mappings nest more than %d deep", MaxDepth)
	}
	return nil
}
