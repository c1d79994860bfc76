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
// so that decoding can go on past unknown members. member names the mapping in
// messages, with its article ("a variant").
func (n *Node) CheckMembers(errs *Errors, member string, known ...string) bool {
	if n == nil || n.Shape != Mapping {
		errs.Add(n, "%s must be a mapping, this is %s", member, n.Describe())
		return false
	}
	for _, m := range n.Members {
		if slices.Contains(known, m.Key.Text) {
			continue
		}
		errs.Report("unknown-member", m.Key.Pos, "unknown member %q in %s%s", m.Key.Text, member, DidYouMean(m.Key.Text, known))
	}
	return true
}

// CheckMapping reports a node that is not a mapping, with an example of one, and
// returns whether it is one.
func (n *Node) CheckMapping(errs *Errors, member, example string) bool {
	if n != nil && n.Shape == Mapping {
		return true
	}
	errs.Add(n, "%s must be a mapping such as %s, this is %s", member, example, n.Describe())
	return false
}

// DidYouMean returns the end of a message about an unknown name: the nearest known
// name as a question or, if none is near and they are few, all names.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return ": did you mean " + strconv.Quote(near) + "?"
	}
	if len(known) == 0 || len(known) > 12 {
		return ""
	}
	return " (known: " + strings.Join(known, ", ") + ")"
}

// Unrecognized returns the message about an unknown option of a Caddyfile: the
// nearest known one as a question or, if none is near, all of them. kind names
// the kind of option ("store option").
func Unrecognized(kind, name string, known []string) string {
	message := "unrecognized " + kind + " " + strconv.Quote(name)
	switch near := Nearest(name, known); {
	case near != "":
		return message + ", did you mean " + strconv.Quote(near) + "?"
	case len(known) == 0:
		return message + ": there is none"
	}
	return message + ", known: " + strings.Join(known, ", ")
}

// Describe describes a node's value, for messages.
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
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// ReadString reads a scalar as text. member names the member in messages.
func (n *Node) ReadString(errs *Errors, member string) (string, bool) {
	if n == nil || n.Shape != Scalar || n.IsNull() {
		errs.Add(n, "%s must be text, this is %s", member, n.Describe())
		return "", false
	}
	return n.Text, true
}

// ReadName reads a scalar as the name of something elsewhere, such as a model. A
// character in it that can't be seen is a mistake, quoted or not.
func (n *Node) ReadName(errs *Errors, member string) (string, bool) {
	text, ok := n.ReadString(errs, member)
	if hidden := Hidden(text); hidden != "" {
		errs.Report("hidden-character", n.Pos, "%s %q has %s in it: delete it", member, text, hidden)
		return "", false
	}
	return text, ok
}

// ReadWord reads a scalar that must be one of the given words.
func (n *Node) ReadWord(errs *Errors, member string, words ...string) (string, bool) {
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
		errs.Add(n, "%s must be %s%s, this is %s%s", member, oneOf, strings.Join(words, ", "), n.Describe(), hint)
		return "", false
	}
	return n.Text, true
}

// ReadBool reads true or false.
func (n *Node) ReadBool(errs *Errors, member string) (value, ok bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted {
		switch n.Text {
		case "true", "True", "TRUE":
			return true, true
		case "false", "False", "FALSE":
			return false, true
		}
	}
	hint := n.QuotesHint()
	if n != nil && hint == "" {
		hint = BooleanHint(n.Text)
	}
	errs.Add(n, "%s must be true or false, this is %s%s", member, n.Describe(), hint)
	return false, false
}

// ReadFloat reads a number between lo and hi, both included.
func (n *Node) ReadFloat(errs *Errors, member string, lo, hi float64) (float64, bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted && isJSONNumber(n.Text) {
		if v, err := strconv.ParseFloat(n.Text, 64); err == nil && lo <= v && v <= hi {
			return v, true
		}
	}
	errs.Add(n, "%s must be a number%s, this is %s%s", member, between(lo, hi), n.Describe(), n.QuotesHint())
	return 0, false
}

// ReadInt reads a whole number between lo and hi, both included.
func (n *Node) ReadInt(errs *Errors, member string, lo, hi int64) (int64, bool) {
	if n != nil && n.Shape == Scalar && !n.Quoted && isJSONNumber(n.Text) {
		if v, err := strconv.ParseInt(n.Text, 10, 64); err == nil && lo <= v && v <= hi {
			return v, true
		}
	}
	errs.Add(n, "%s must be a whole number%s, this is %s%s", member, between(float64(lo), float64(hi)), n.Describe(), n.QuotesHint())
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
func (n *Node) ReadDuration(errs *Errors, member string, lo, hi time.Duration) (time.Duration, bool) {
	if n != nil && n.Shape == Scalar {
		if d, err := time.ParseDuration(n.Text); err == nil && lo <= d && d <= hi {
			return d, true
		}
	}
	such := "500ms, 30s or 1m30s"
	if lo > 500*time.Millisecond {
		such = "1m30s, 2h or 24h"
	}
	errs.Add(n, "%s must be a duration from %s to %s such as %s, this is %s", member, durationText(lo), durationText(hi), such, n.Describe())
	return 0, false
}

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

// QuotesHint returns the end of a message about a number or a boolean in quotes, or "".
func (n *Node) QuotesHint() string {
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
