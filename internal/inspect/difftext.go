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

	// comparedLines bounds the work of comparing two texts: the product of the
	// lines that are left after those that both begin and end with.
	comparedLines = 1_000_000
)

// TextChange is how the text of messages differs.
type TextChange struct {
	// Paths are the members that differ so: variants that extend another one
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

// messageLines returns the lines of messages, each message after its role. A
// value that is absent has none.
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

// membersBut returns what a mapping has beside one member, in brackets.
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

// briefAddress returns a URL as it is, and of data so much that one can be told from
// another.
func briefAddress(address string) string {
	const most = 200
	if len(address) <= most {
		return address
	}
	sum := sha256.Sum256([]byte(address))
	return strings.ToValidUTF8(address[:40], "") + fmt.Sprintf("… (%d bytes, SHA-256 %x…)", len(address), sum[:6])
}

// lineDiff returns the lines that only one of two texts has, after "-" or "+", in
// the order of the texts. It keeps a longest common part:
//
//	a       a
//	b       c      -b +c
//	d       d
func lineDiff(before, after []string) (diff []string) {
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	if len(before)*len(after) > comparedLines {
		return append(signed('-', before), signed('+', after)...)
	}
	// common[i][j] is the length of the common part of before[i:] and after[j:].
	common := make([][]int, len(before)+1)
	for i := range common {
		common[i] = make([]int, len(after)+1)
	}
	for i := len(before) - 1; i >= 0; i-- {
		for j := len(after) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); before[i] == after[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(before) && j < len(after) {
		switch {
		case before[i] == after[j]:
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			diff = append(diff, "-"+before[i])
			i++
		default:
			diff = append(diff, "+"+after[j])
			j++
		}
	}
	return append(append(diff, signed('-', before[i:])...), signed('+', after[j:])...)
}

// signed returns lines after a sign.
func signed(sign byte, lines []string) []string {
	signed := make([]string, len(lines))
	for i, line := range lines {
		signed[i] = string(sign) + line
	}
	return signed
}
