package inspect

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// shownLines is how many lines of a changed text are shown.
	shownLines = 40

	// comparedMessages bounds the comparisons of lines of two messages.
	comparedMessages = 1_000_000
)

// TextChange is a difference in the text of messages.
type TextChange struct {
	// Paths are the members with this difference: variants that extend another one
	// have its messages.
	Paths []string `json:"paths"`
	// Lines are the lines that only one version has, after "-" or "+". The first
	// line of a message begins with its role.
	Lines []string `json:"lines"`
}

// addText adds the difference of two lists of messages. It ignores other values.
func addText(texts *[]TextChange, path string, before, after any) {
	if path != "messages" && !strings.HasSuffix(path, ".messages") {
		return
	}
	old, isText := messageLines(before)
	lines, both := messageLines(after)
	diff := lineDiff(old, lines)
	if !isText || !both || len(diff) == 0 {
		return
	}
	if more := len(diff) - shownLines; more > 0 {
		diff = append(diff[:shownLines:shownLines], fmt.Sprintf(" and %d more lines", more))
	}
	for i := range *texts {
		if t := &(*texts)[i]; slices.Equal(t.Lines, diff) {
			t.Paths = append(t.Paths, path)
			return
		}
	}
	*texts = append(*texts, TextChange{Paths: []string{path}, Lines: diff})
}

// messageLines returns the lines of messages, each message after its role. An absent
// value has no lines.
func messageLines(value any) (lines []string, ok bool) {
	list, ok := value.([]any)
	if !ok {
		return nil, value == nil
	}
	for _, item := range list {
		message, _ := item.(map[string]any)
		if message["history"] != nil {
			lines = append(lines, "the caller's messages"+membersBut(message, "history"))
			continue
		}
		role, isRole := message["role"].(string)
		parts, isList := message["content"].([]any)
		content, isText := message["content"].(string)
		if !isRole || !isText && !isList {
			return nil, false
		}
		if isText {
			lines = append(lines, textLines(role, content)...)
		}
		for _, part := range parts {
			part, _ := part.(map[string]any)
			if text, ok := part["text"].(string); ok {
				lines = append(lines, textLines(role, text)...)
				continue
			}
			for _, kind := range []string{"image", "audio", "file"} {
				if address, ok := part[kind].(string); ok {
					lines = append(lines, role+", "+kind+": "+briefAddress(address)+membersBut(part, kind))
				}
			}
		}
	}
	return lines, true
}

func textLines(role, text string) []string {
	return strings.Split(role+": "+strings.TrimSuffix(text, "\n"), "\n")
}

// membersBut returns the members of a mapping except one, in parentheses.
func membersBut(m map[string]any, but string) string {
	rest := maps.Clone(m)
	delete(rest, but)
	if len(rest) == 0 {
		return ""
	}
	list := make([]string, 0, len(rest))
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		list = append(list, fmt.Sprint(name, " ", rest[name]))
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// briefAddress returns a short address as it is, and of a long one the beginning and a
// hash, which tell it from others.
func briefAddress(address string) string {
	const longest = 200
	if len(address) <= longest {
		return address
	}
	sum := sha256.Sum256([]byte(address))
	return strings.ToValidUTF8(address[:40], "") + fmt.Sprintf("… (%d bytes, SHA-256 %x…)", len(address), sum[:6])
}

// lineDiff returns the lines that only one of two texts has, after "-" or "+", in
// the order of the texts.
func lineDiff(before, after []string) (diff []string) {
	for _, e := range DiffLists(before, after, comparedMessages) {
		if e.Old {
			diff = append(diff, "-"+before[e.Index])
		} else {
			diff = append(diff, "+"+after[e.Index])
		}
	}
	return diff
}

// ListEdit is an element that only one of two lists has, by its index there.
type ListEdit struct {
	Old   bool // the list is the earlier one
	Index int
}

// DiffLists returns the elements that only one of two lists has, in the order of the lists.
// It keeps a longest common part:
//
//	a       a
//	b       c      -b +c
//	d       d
//
// If the lists, without their common beginning and end, need more than bound
// comparisons, it keeps nothing between these.
func DiffLists(before, after []string, bound int) (list []ListEdit) {
	first := 0
	for first < min(len(before), len(after)) && before[first] == after[first] {
		first++
	}
	m, n := len(before), len(after)
	for m > first && n > first && before[m-1] == after[n-1] {
		m, n = m-1, n-1
	}
	a, b := before[first:m], after[first:n]
	// common[i][j] is the length of the common part of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	matched := len(a)*len(b) <= bound
	for i := len(a); i >= 0 && matched; i-- {
		common[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0 && i < len(a); j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case matched && i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && (!matched || common[i+1][j] >= common[i][j+1]):
			list = append(list, ListEdit{true, first + i})
			i++
		default:
			list = append(list, ListEdit{false, first + j})
			j++
		}
	}
	return list
}
