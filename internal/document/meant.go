package document

import (
	"regexp"
	"strings"
	"time"
)

// meant are words of other systems and APIs with ours for them. A word has several
// of ours where they belong to different mappings.
var meant = map[string][]string{
	// types
	"integer": {"number"}, "int": {"number"}, "float": {"number"}, "double": {"number"}, "decimal": {"number"},
	"bool": {"boolean"}, "flag": {"boolean"},
	"str": {"string"}, "enum": {"string", "values"},
	"json": {"object"}, "map": {"object"}, "dict": {"object"}, "struct": {"object"},
	"array": {"list"}, "datetime": {"date"}, "timestamp": {"date"},
	// members
	"if": {"when"}, "condition": {"when"}, "conditions": {"when"}, "match": {"when"},
	"then": {"value"}, "result": {"value"}, "return": {"value"}, "expect": {"variant", "value"}, "expected": {"variant", "value"},
	"options": {"values"}, "allowed": {"values"}, "minimum": {"min", "minimal"}, "maximum": {"max"},
	"max_completion_tokens": {"max_tokens"}, "max_output_tokens": {"max_tokens"},
	"stop_sequences": {"stop"}, "functions": {"tools"}, "input_schema": {"parameters"},
	"text": {"content", "string"}, "prompt": {"content"}, "template": {"content", "messages"},
	"image_url": {"image"}, "input_audio": {"audio"}, "document": {"file"},
	"given": {"context"}, "input": {"context", "prompt"},
	"output": {"completion"}, "cached": {"cache_read"}, "cached_input": {"cache_read"},
	"remoteconfig": {"config"}, "remote_config": {"config"}, "configuration": {"config"}, "from": {"config"},
}

// NumberHintOf returns the end of a message about text that is no number: how to
// write the number that is meant, or "". For example, 3,95 is 3.95, and 1 000 is 1000.
func NumberHintOf(text string) string {
	switch {
	case thousands.MatchString(text):
		return ": write " + separators.ReplaceAllString(text, "")
	case decimalComma.MatchString(text):
		return ": write " + strings.Replace(text, ",", ".", 1)
	}
	return ""
}

var (
	thousands    = regexp.MustCompile(`^-?[1-9]\d{0,2}(?:[ \x{a0}\x{202f}'’_]\d{3}|,\d{3}|\.\d{3}\.\d{3})+$`)
	separators   = regexp.MustCompile(`[^-\d]`)
	decimalComma = regexp.MustCompile(`^-?\d+,\d+$`)
)

// durationHint returns the end of a message about text that is no duration within its
// bounds: the one that is meant, or "". For example, 30 and 30 seconds are 30s.
func durationHint(text string, lo, hi time.Duration) string {
	m := spelledDuration.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return ""
	}
	unit := m[2]
	switch {
	case unit == "":
		unit = "s"
	case strings.HasPrefix(unit, "mil"):
		unit = "ms"
	case unit != "ms":
		unit = unit[:1]
	}
	if d, err := time.ParseDuration(m[1] + unit); err != nil || d < lo || d > hi {
		return ""
	}
	return ": did you mean " + m[1] + unit + "?"
}

var spelledDuration = regexp.MustCompile(`^(\d+(?:\.\d+)?) *(|ms|milli(?:s|seconds?)|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?)$`)

// durationText is a duration as people write it: 1h, and not 1h0m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// NumberHint returns the end of a message about a node that is no number, or "".
func (n *Node) NumberHint() string {
	if n == nil || n.Shape != Scalar {
		return ""
	}
	if hint := n.quotesHint(); hint != "" {
		return hint
	}
	return NumberHintOf(n.Text)
}

// quotesHint returns the end of a message about a number or a boolean in quotes, or "".
func (n *Node) quotesHint() string {
	if n != nil && n.Shape == Scalar && n.Quoted && (isJSONNumber(n.Text) || n.Text == "true" || n.Text == "false") {
		return ": leave the quotes out"
	}
	return ""
}

// BooleanHint returns the end of a message about a word that is often written for a
// boolean, or "".
func BooleanHint(text string) string {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1", "y":
		return ": write true"
	case "false", "no", "off", "0", "n":
		return ": write false"
	}
	return ""
}

// CheckMapping reports a node that is not a mapping, with an example of one, and
// returns whether it is one.
func (n *Node) CheckMapping(errs *Errors, what, example string) bool {
	if n != nil && n.Shape == Mapping {
		return true
	}
	errs.Add(n, "%s must be a mapping such as %s, this is %s", what, example, n.Describe())
	return false
}

// CheckTop reports a file whose content is not the mapping that what names, and
// returns whether it is one.
func (n *Node) CheckTop(errs *Errors, what string) bool {
	if n != nil && n.Shape == Mapping {
		return true
	}
	hint := ""
	switch {
	case n == nil:
	case n.Shape == Sequence:
		hint = ": one file holds one definition"
	case equals.MatchString(n.Text):
		hint = ": write a colon and a space in place of ="
	default:
		hint = ": write its members as name: value"
	}
	errs.Add(n, "%s must be a mapping, this is %s%s", what, n.Shape, hint)
	return false
}

var equals = regexp.MustCompile(`^\w+ *= *\S`)
