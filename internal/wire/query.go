package wire

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// recordMembers are the members of a metrics record.
var recordMembers = []string{
	"trace_id", "decision_id", "metadata", "score", "values", "latency", "roundtrip_time",
	"llm_response", "chain_id", "conversation_id", "economics",
}

// TraceMetrics parses a metrics record on the path of its trace. The record is the
// body, or else the query string (as in r.URL.RawQuery): one JSON object, as curl
// -G -d '{…}' sends it, or pairs of the form metadata[name]=text and
// values[name]=number. Without both the record is empty. Other parameters are
// ignored, as unknown members are.
func (r *Request) TraceMetrics(rawQuery string) (*MetricsRecord, *Error) {
	record, isJSON := jsonQuery(rawQuery)
	if !isJSON {
		var err *Error
		if record, err = pairsQuery(rawQuery); err != nil {
			return nil, err
		}
	}
	switch hasBody := skipSpace(r.body, 0) < len(r.body); {
	case hasBody && record != "":
		return nil, Errorf(InvalidRequest, "", "There is a record in the body and another in the query string. Send one of them.")
	case !hasBody && record == "":
		return new(MetricsRecord), nil
	case !hasBody:
		r.body = append(r.body[:0], record...)
	}
	return r.Metrics()
}

// jsonQuery reports whether the query string is a JSON object and returns its
// text, which may be percent-encoded or not.
func jsonQuery(raw string) (text string, ok bool) {
	switch {
	case strings.HasPrefix(raw, "{"):
		// Sent without escapes: '+' is a plus, and '%' need not begin an escape.
		if text, err := url.PathUnescape(raw); err == nil {
			return text, true
		}
		return raw, true
	case len(raw) >= 3 && strings.EqualFold(raw[:3], "%7B"):
		if text, err := url.QueryUnescape(raw); err == nil {
			return text, true
		}
		return raw, true
	}
	return "", false
}

// pairsQuery returns the record of metadata[name]=text and values[name]=number pairs
// as a JSON object; empty if there are no pairs.
func pairsQuery(raw string) (record string, err *Error) {
	if raw == "" {
		return "", nil
	}
	query, parseErr := url.ParseQuery(raw)
	if parseErr != nil {
		return "", Errorf(InvalidRequest, "", "The query string cannot be decoded. Percent-encode it, or send the record as the body.")
	}
	metadata, values := url.Values{}, url.Values{}
	for param, texts := range query {
		member, rest, bracketed := strings.Cut(param, "[")
		pairs := metadata
		if member == "values" {
			pairs = values
		}
		name, closed := strings.CutSuffix(rest, "]")
		switch {
		case !slices.Contains(recordMembers, member):
		case !bracketed, member != "values" && member != "metadata":
			return "", Errorf(InvalidRequest, Clip(param), "%q cannot be a query parameter of its own. Send the record as one JSON object, in the query string or the body.", Clip(param))
		case !closed || name == "" || strings.ContainsAny(name, "[]"):
			return "", Errorf(InvalidRequest, Clip(param), "%q must have the form %s[name]. Send what is nested as a JSON body.", Clip(param), member)
		case len(texts) > 1:
			return "", Errorf(InvalidRequest, Clip(param), "%q appears more than once. Send it once.", Clip(param))
		default:
			pairs[name] = texts
		}
	}
	if len(metadata)+len(values) == 0 {
		return "", nil
	}
	dst := appendPairs([]byte(`{"metadata":`), metadata, jsontext.AppendString[string])
	dst = appendPairs(append(dst, `,"values":`...), values, appendNumberOrString)
	return string(append(dst, '}')), nil
}

// appendNumberOrString appends a text as a JSON number if it is one. Any other text
// becomes a string, which Metrics refuses by the value's name.
func appendNumberOrString(dst []byte, text string) []byte {
	if text != "" && strings.Contains("-0123456789", text[:1]) {
		if _, bad := checkSyntax([]byte(text), nil); bad == nil {
			return append(dst, text...)
		}
	}
	return jsontext.AppendString(dst, text)
}

// appendPairs appends pairs as a JSON object, ordered by name.
func appendPairs(dst []byte, pairs url.Values, appendValue func(dst []byte, text string) []byte) []byte {
	dst = append(dst, '{')
	for i, name := range slices.Sorted(maps.Keys(pairs)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, name)
		dst = append(dst, ':')
		dst = appendValue(dst, pairs.Get(name))
	}
	return append(dst, '}')
}
