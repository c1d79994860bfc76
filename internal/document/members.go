package document

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CheckMembers reports every member of n that is not known, with the nearest known
// name, and n itself when it is not a mapping. It returns whether n is a mapping,
// so that decoding can go on past unknown members. what names the mapping in
// messages, with its article ("a variant").
func (n *Node) CheckMembers(errs *Errors, what string, known ...string) bool {
	if n == nil || n.Shape != Mapping {
		errs.Add(n, "%s must be a mapping, this is %s", what, n.Describe())
		return false
	}
	for _, m := range n.Members {
		if slices.Contains(known, m.Key.Text) {
			continue
		}
		errs.Report("unknown-member", m.Key.Pos, "unknown member %q in %s%s", m.Key.Text, what, DidYouMean(m.Key.Text, known))
	}
	return true
}

// DidYouMean returns the end of a message about an unknown name: the nearest known
// name as a question or, where none is near and they are few, all names.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return ": did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 || len(known) > 12 {
		return ""
	}
	return " (known: " + strings.Join(known, ", ") + ")"
}

// Unrecognized is the message about an option of a Caddyfile that does not
// exist: the nearest known one as a question or, where none is near, all of
// them. what says what was expected ("store option").
func Unrecognized(what, name string, known []string) string {
	message := "unrecognized " + what + " " + strconv.Quote(name)
	switch near := Nearest(name, known); {
	case near != "":
		return message + ", did you mean " + strconv.Quote(near) + "?"
	case len(known) == 0:
		return message + ": there is none"
	}
	return message + ", known: " + strings.Join(known, ", ")
}

// Describe returns what a node is, for messages.
func (n *Node) Describe() string {
	switch {
	case n == nil:
		return "missing"
	case n.Shape != Scalar:
		return n.Shape.String()
	case n.IsNull():
		return "empty"
	}
	return strconv.Quote(shorten(n.Text))
}

// shorten cuts a text for a message.
func shorten(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ReadString reads a scalar as text. what names the member in messages.
func (n *Node) ReadString(errs *Errors, what string) (string, bool) {
	if n == nil || n.Shape != Scalar || n.IsNull() {
		errs.Add(n, "%s must be text, this is %s", what, n.Describe())
		return "", false
	}
	return n.Text, true
}

// ReadName reads a scalar as the name of something elsewhere, such as a model. A
// character in it that can't be seen is a mistake, quoted or not.
func (n *Node) ReadName(errs *Errors, what string) (string, bool) {
	text, ok := n.ReadString(errs, what)
	if hidden := Hidden(text); hidden != "" {
		errs.Report("hidden-character", n.Pos, "%s %q has %s in it: delete it", what, text, hidden)
		return "", false
	}
	return text, ok
}

// ReadWord reads a scalar that must be one of the given words.
func (n *Node) ReadWord(errs *Errors, what string, words ...string) (string, bool) {
	if n == nil || n.Shape != Scalar || !slices.Contains(words, n.Text) {
		hint := ""
		if n != nil && n.Shape == Scalar {
			if near := Nearest(n.Text, words); near != "" {
				hint = ": did you mean " + strconv.Quote(near) + "?"
			}
		}
		oneOf := "one of "
		if len(words) == 1 {
			oneOf = ""
		}
		errs.Add(n, "%s must be %s%s, this is %s%s", what, oneOf, strings.Join(words, ", "), n.Describe(), hint)
		return "", false
	}
	return n.Text, true
}

// ReadBool reads true or false.
func (n *Node) ReadBool(errs *Errors, what string) (value, ok bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted {
		switch n.Text {
		case "true", "True", "TRUE":
			return true, true
		case "false", "False", "FALSE":
			return false, true
		}
	}
	hint := n.quotesHint()
	if n != nil && hint == "" {
		hint = BooleanHint(n.Text)
	}
	errs.Add(n, "%s must be true or false, this is %s%s", what, n.Describe(), hint)
	return false, false
}

// ReadFloat reads a number between lo and hi, both included.
func (n *Node) ReadFloat(errs *Errors, what string, lo, hi float64) (float64, bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted && isJSONNumber(n.Text) {
		if v, err := strconv.ParseFloat(n.Text, 64); err == nil && lo <= v && v <= hi {
			return v, true
		}
	}
	errs.Add(n, "%s must be a number%s, this is %s%s", what, between(lo, hi), n.Describe(), n.NumberHint())
	return 0, false
}

// ReadInt reads a whole number between lo and hi, both included.
func (n *Node) ReadInt(errs *Errors, what string, lo, hi int64) (int64, bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted && isJSONNumber(n.Text) {
		if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil && lo <= v && v <= hi {
			return v, true
		}
	}
	errs.Add(n, "%s must be a whole number%s, this is %s%s", what, between(float64(lo), float64(hi)), n.Describe(), n.NumberHint())
	return 0, false
}

// between returns the text for a range, without the ends that are no bound in
// practice.
func between(lo, hi float64) string {
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case math.IsInf(lo, -1) && math.IsInf(hi, 1):
		return ""
	case hi >= math.MaxInt64:
		return " from " + text(lo)
	}
	return " from " + text(lo) + " to " + text(hi)
}

// ReadDuration reads a Go duration (250ms, 30s, 1m30s) between lo and hi, both
// included.
func (n *Node) ReadDuration(errs *Errors, what string, lo, hi time.Duration) (time.Duration, bool) {
	if n != nil && n.Shape == Scalar {
		if d, err := time.ParseDuration(n.Text); err == nil && lo <= d && d <= hi {
			return d, true
		}
	}
	hint := ""
	if n != nil && n.Shape == Scalar {
		hint = durationHint(n.Text, lo, hi)
	}
	errs.Add(n, "%s must be a duration from %s to %s such as 500ms, 30s or 1m30s, this is %s%s", what, durationText(lo), durationText(hi), n.Describe(), hint)
	return 0, false
}
