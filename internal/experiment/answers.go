package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Answers returns a name, a hash, for what the arms of a row's split answer with and for how
// units come to them: the values, or all that is in the variants, the field of the units and
// the salt. content is that of a version of the definition that the row is in. An edit of
// shares, of the coverage, of the steps and stops of a guard, of the arms' order or of
// anything else leaves the name as it is; with another name, no unit's past in the experiment
// means anything any more. ok is false where the row has no split.
//
// Where control is PassedOn, its answers are those of the rows below and the default, with
// what decides which of them a unit gets.
//
// The key of the definition, which is hashed with the units too, is no part of content.
func Answers(content []byte, rule, control string) (name string, ok bool) {
	c, row, below := rowOf(content, rule)
	split, ok := row["split"].(map[string]any)
	if !ok {
		return "", false
	}
	salt, given := split["salt"]
	if !given {
		salt = row["id"]
	}
	// Marshal sorts members, and can't fail on what came from JSON.
	parts := []any{textOf(split["by"]), textOf(salt), c.arms(split)}
	if control == PassedOn {
		parts = append(parts, c.rows(below), c.fallback())
	}
	whole, _ := json.Marshal(parts)
	sum := sha256.Sum256(whole)
	return hex.EncodeToString(sum[:6]), true
}

// ArmAnswers returns what each arm of a row's split answers with, as text that is equal for
// equal answers. It is empty where the row has no split.
func ArmAnswers(content []byte, rule string) map[string]string {
	c, row, _ := rowOf(content, rule)
	split, _ := row["split"].(map[string]any)
	answers := make(map[string]string)
	for arm, answer := range c.arms(split) {
		text, _ := json.Marshal(answer)
		answers[arm] = string(text)
	}
	return answers
}

// definition is the content of a definition, as its package writes it: what is in tables is
// the text of cells, all else is JSON.
type definition map[string]any

// rowOf reads a content and finds a row in it, and those below. Only tables of this layout
// have splits.
func rowOf(content []byte, rule string) (c definition, row map[string]any, below []any) {
	if json.Unmarshal(content, &c) != nil {
		return nil, nil, nil
	}
	rows, _ := c["rules"].([]any)
	for i, r := range rows {
		if row, ok := r.(map[string]any); ok && row["id"] != nil && textOf(row["id"]) == rule {
			return c, row, rows[i+1:]
		}
	}
	return c, nil, nil
}

// rows returns rows with what they answer with.
func (c definition) rows(rows []any) []any {
	list := make([]any, len(rows))
	for i, r := range rows {
		row, _ := r.(map[string]any)
		row = maps.Clone(row)
		split, divides := row["split"].(map[string]any)
		if divides {
			row["arms"] = c.arms(split)
		}
		if value, given := row["value"]; given {
			row["value"] = c.answer(value)
		}
		if !divides && row["ramp"] == nil {
			delete(row, "id") // it is no salt
		}
		list[i] = row
	}
	return list
}

// fallback returns what answers where no row does.
func (c definition) fallback() any {
	if c["variants"] != nil {
		return c.answer(c["default"])
	}
	return c["default"]
}

// answer returns what a cell answers with: all of the variant that it names, or its value.
func (c definition) answer(cell any) any {
	variants, picks := c["variants"].(map[string]any)
	if !picks {
		return c.value(cell)
	}
	variant, _ := variants[textOf(cell)].(map[string]any)
	variant = maps.Clone(variant)
	delete(variant, "name") // it is how people call the variant
	return variant
}

// arms returns what the arms of a split answer with, by what traces call them: of a guard the
// new answer and the control.
func (c definition) arms(split map[string]any) map[string]any {
	arms := make(map[string]any)
	if guard, guarded := split["guard"].(map[string]any); guarded {
		for _, arm := range []string{"new", "control"} {
			cell := guard[arm]
			if c["variants"] != nil {
				arm = textOf(cell)
			}
			arms[arm] = c.answer(cell)
		}
		return arms
	}
	parts, _ := split["of"].([]any)
	for i, p := range parts {
		part, _ := p.(map[string]any)
		arm := strconv.Itoa(i + 1)
		if name, given := part["name"]; c["variants"] != nil {
			arm = textOf(part["value"])
		} else if given {
			arm = textOf(name)
		}
		arms[arm] = c.answer(part["value"])
	}
	return arms
}

// value returns the value that a cell of a remote configuration answers with.
func (c definition) value(cell any) any {
	switch value := typed(cell); {
	case c["type"] == "string":
		return textOf(cell)
	case c["merge"] != nil:
		return merged(c["default"], value)
	default:
		return value
	}
}

// textOf returns the text of a cell. Quotes that may matter are in it.
func textOf(cell any) string {
	text, _ := cell.(string)
	if unquoted, err := strconv.Unquote(text); err == nil && strings.HasPrefix(text, `"`) {
		return unquoted
	}
	return text
}

// typed returns a cell as JSON, where a number is one however it is written.
func typed(cell any) any {
	switch cell := cell.(type) {
	case []any:
		list := make([]any, len(cell))
		for i, item := range cell {
			list[i] = typed(item)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(cell))
		for name, member := range cell {
			m[name] = typed(member)
		}
		return m
	case string:
		if strings.HasPrefix(cell, `"`) {
			return textOf(cell)
		}
		plain := document.Node{Shape: document.Scalar, Text: cell}
		var value any
		_ = json.Unmarshal(plain.AppendJSON(nil, new(document.Errors)), &value) // AppendJSON writes JSON
		return value
	}
	return cell
}

// merged applies a JSON merge patch (RFC 7396).
func merged(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, _ := target.(map[string]any)
	out := maps.Clone(t)
	if out == nil {
		out = make(map[string]any)
	}
	for name, value := range p {
		if delete(out, name); value != nil {
			out[name] = merged(t[name], value)
		}
	}
	return out
}
