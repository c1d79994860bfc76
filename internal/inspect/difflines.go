package inspect

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
)

const (
	// aroundLines is how many equal lines a comparison of texts has around each change.
	aroundLines = 3

	// comparedShown is how many lines a comparison of texts has at most.
	comparedShown = 2000

	// comparedLines bounds the comparisons of lines of two texts.
	comparedLines = 4_000_000

	// comparedWords bounds the comparisons of words of two lines.
	comparedWords = 40_000
)

// TextLine is a line of a comparison of two texts. Old and New are its numbers there, from
// 1 on; 0: this text does not have the line.
type TextLine struct {
	Old   int        `json:"old,omitempty"`
	New   int        `json:"new,omitempty"`
	Parts []TextPart `json:"parts,omitempty"`
	// Skipped is how many equal lines, or past the ceiling any lines, stand between the
	// line before and the one after. Such a line has nothing else.
	Skipped int `json:"skipped,omitempty"`
}

// TextPart is a part of a line. Changed says that the line's counterpart lacks it.
type TextPart struct {
	Text    string `json:"text"`
	Changed bool   `json:"changed,omitempty"`
}

// Sign returns how a line differs: "-", "+" or a space.
func (l TextLine) Sign() string {
	switch {
	case l.Skipped > 0 || l.Old > 0 && l.New > 0:
		return " "
	case l.Old > 0:
		return "-"
	}
	return "+"
}

// CompareTexts returns the lines in which two texts differ, with some lines around them,
// and marks the words that differ. It returns nil for equal texts.
func CompareTexts(before, after string) []TextLine {
	lines := CompareLines(linesOf(before), linesOf(after))
	if more := len(lines) - comparedShown; more > 0 {
		lines = append(lines[:comparedShown], TextLine{Skipped: more})
	}
	markWords(lines)
	return lines
}

// CompareLines is CompareTexts of two lists of lines. It returns all that differ, each in
// one part.
func CompareLines(a, b []string) (lines []TextLine) {
	i, j := 0, 0
	equal := func(n int, first bool, last bool) {
		head, tail := aroundLines, aroundLines
		if first {
			head = 0
		}
		if last {
			tail = 0
		}
		for k := range n {
			switch {
			case k < head || k >= n-tail || n == head+tail+1:
				lines = append(lines, TextLine{i + 1, j + 1, []TextPart{{Text: a[i]}}, 0})
			case k == head:
				lines = append(lines, TextLine{Skipped: n - head - tail})
			}
			i, j = i+1, j+1
		}
	}
	edits := DiffLists(a, b, comparedLines)
	for at, e := range edits {
		if e.Old {
			equal(e.Index-i, at == 0, false)
			lines = append(lines, TextLine{Old: i + 1, Parts: []TextPart{{Text: a[i]}}})
			i++
		} else {
			equal(e.Index-j, at == 0, false)
			lines = append(lines, TextLine{New: j + 1, Parts: []TextPart{{Text: b[j]}}})
			j++
		}
	}
	if len(edits) > 0 {
		equal(len(a)-i, false, true)
	}
	return lines
}

func linesOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// words are what lines are compared by.
var words = regexp.MustCompile(`[\pL\pN_]+|\s+|[^\pL\pN_\s]`)

// markWords divides removed lines, and the added ones after them, into parts. A removed line
// has the added one at the same place as its counterpart.
func markWords(lines []TextLine) {
	for len(lines) > 0 {
		removed := leading(lines, "-")
		added := leading(lines[len(removed):], "+")
		for k := range min(len(removed), len(added)) {
			old, new := removed[k].Parts[0].Text, added[k].Parts[0].Text
			removed[k].Parts, added[k].Parts = changedParts(old, new), changedParts(new, old)
		}
		lines = lines[max(len(removed)+len(added), 1):]
	}
}

// leading returns the lines with a sign at the beginning of a list.
func leading(lines []TextLine, sign string) []TextLine {
	if i := slices.IndexFunc(lines, func(l TextLine) bool { return l.Sign() != sign }); i >= 0 {
		return lines[:i]
	}
	return lines
}

// changedParts divides a line into what another one has, too, and what it lacks.
func changedParts(own, other string) (parts []TextPart) {
	a, b := words.FindAllString(own, -1), words.FindAllString(other, -1)
	changed := make([]bool, len(a))
	for _, e := range DiffLists(a, b, comparedWords) {
		if e.Old {
			changed[e.Index] = true
		}
	}
	for i, word := range a {
		if i > 0 && parts[len(parts)-1].Changed == changed[i] {
			parts[len(parts)-1].Text += word
		} else {
			parts = append(parts, TextPart{word, changed[i]})
		}
	}
	return parts
}

// ContentText returns the content of a version in lines that people can compare: a line for
// each member, for each row of a table and for each line of a text.
func ContentText(content []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return string(content)
	}
	var b strings.Builder
	writeContent(&b, "", value)
	return b.String()
}

// writeContent writes the members or elements of a value, each behind an indent.
func writeContent(b *strings.Builder, indent string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			writeMember(b, indent, name+":", value[name])
		}
	case []any:
		for _, item := range value {
			writeMember(b, indent, "-", item)
		}
	}
}

func writeMember(b *strings.Builder, indent, name string, value any) {
	b.WriteString(indent + name)
	members, isMap := value.(map[string]any)
	list, isList := value.([]any)
	text, isText := value.(string)
	row := name == "-" && isList
	switch {
	case isText && strings.Contains(text, "\n"):
		b.WriteString(" |\n")
		for _, line := range linesOf(text) {
			b.WriteString(indent + "  " + line + "\n")
		}
	case isText && text != "" && text == strings.TrimSpace(text):
		b.WriteString(" " + text + "\n")
	case isMap && len(members) > 0 && name == "-":
		var inner strings.Builder
		writeContent(&inner, indent+"  ", value)
		b.WriteString(inner.String()[len(indent)+1:]) // its first line goes on behind the dash
	case isMap && len(members) > 0, isList && len(list) > 0 && !row:
		b.WriteByte('\n')
		writeContent(b, indent+"  ", value)
	default:
		b.WriteString(" " + string(compactJSON(value)) + "\n")
	}
}

// compactJSON returns a value that was decoded from JSON.
func compactJSON(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it came from JSON
	return bytes.TrimSpace(b.Bytes())
}

// ChangedMembers returns the paths of the members in which two versions of a definition
// differ.
func ChangedMembers(before, after []byte) []string {
	paths, _ := changedMembers(before, after)
	return paths
}
