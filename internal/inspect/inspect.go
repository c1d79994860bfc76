// Package inspect answers questions about a workspace for people and tools:
// which answer a request would get and why, and which requests get another
// answer from another version of the workspace.
package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/valyala/fastjson"
)

// ParseKind reads a kind of definition as tools spell it, such as remoteconfig. It
// returns nil for the empty word.
func ParseKind(word string) (*kind.Kind, error) {
	k := kind.Named(word)
	if k == nil && word != "" {
		return nil, fmt.Errorf("unknown kind %q%s", word, document.DidYouMean(word, kind.Names()))
	}
	return k, nil
}

// ParseObject reads a request's context or variables: JSON, or YAML, which is
// shorter to type. It returns nil for empty text. The error is a
// *document.MultiError, whose messages begin with name.
func ParseObject(name string, text []byte) (*fastjson.Value, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	// Both readers report duplicate members; the reader of JSON is stricter.
	if json.Valid(text) {
		name += ".json"
	}
	var errs document.Errors
	n := document.Parse(name, text, &errs)
	var raw []byte
	switch {
	case n == nil, n.IsNull():
	case n.Shape != document.Mapping:
		errs.Add(n, "an object such as {\"plan\": \"pro\"} is expected, this is %s", n.Describe())
	default:
		raw = n.AppendJSON(nil, &errs)
	}
	if err := errs.Err(); err != nil {
		for _, e := range errs.List() {
			e.Pos.File = strings.TrimSuffix(e.Pos.File, ".json")
		}
		return nil, err
	}
	if raw == nil {
		return nil, nil
	}
	return fastjson.ParseBytes(raw)
}

// ParseInstant reads a time as RFC 3339 or a date, which means midnight in UTC. The
// empty text means the present.
func ParseInstant(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("at must be a time such as 2026-01-31T09:00:00Z (RFC 3339) or 2026-01-31, this is %q", text)
}
