package wire

import (
	"net/url"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// recordMembers are the members of a metrics record.
var recordMembers = []string{
	"trace_id", "metadata", "score", "latency", "roundtrip_time", "llm_response",
	"chain_id", "conversation_id", "economics",
}

// TraceMetrics parses a metrics record on the path of its trace. The record is the
// body, or else the query string (as in r.URL.RawQuery): one JSON object, as curl
// -G -d '{…}' sends it, or metadata[name]=text pairs. Without both the record is
// empty. Other parameters are ignored, as unknown members are.
func (r *Request) TraceMetrics(rawQuery string) (*MetricsRecord, *Error) {
	text, isJSON := jsonQuery(rawQuery)
	var pairs url.Values
	if !isJSON {
		var err *Error
		if pairs, err = metadataQuery(rawQuery); err != nil {
			return nil, err
		}
	}
	if skipSpace(r.body, 0) < len(r.body) {
		if isJSON || len(pairs) > 0 {
			return nil, Errorf(InvalidRequest, "", "There is a record in the body and another in the query string. Send one of them.")
		}
		return r.Metrics()
	}
	if isJSON {
		r.body = append(r.body[:0], text...)
		return r.Metrics()
	}
	m := new(MetricsRecord)
	if len(pairs) > 0 {
		m.Metadata = appendPairs(nil, pairs)
		if err := r.checkMetadata(m.Metadata); err != nil {
			return nil, err
		}
	}
	return m, nil
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

// metadataQuery reads metadata[name]=text pairs.
func metadataQuery(raw string) (url.Values, *Error) {
	if raw == "" {
		return nil, nil
	}
	query, parseErr := url.ParseQuery(raw)
	if parseErr != nil {
		return nil, Errorf(InvalidRequest, "", "The query string cannot be decoded. Percent-encode it, or send the record as the body.")
	}
	pairs := url.Values{}
	for param, values := range query {
		inner, bracketed := strings.CutPrefix(param, "metadata[")
		name, closed := strings.CutSuffix(inner, "]")
		switch {
		case bracketed && closed && name != "" && !strings.ContainsAny(name, "[]"):
			if len(values) > 1 {
				return nil, Errorf(InvalidRequest, clip(param), "%q appears more than once. Send it once.", clip(param))
			}
			pairs[name] = values
		case bracketed:
			return nil, Errorf(InvalidRequest, clip(param), "%q must have the form metadata[name]. Send nested metadata as a JSON body.", clip(param))
		case slices.Contains(recordMembers, param):
			return nil, Errorf(InvalidRequest, param, "%q cannot be a query parameter of its own. Send the record as one JSON object, in the query string or the body.", param)
		}
	}
	return pairs, nil
}

// appendPairs appends pairs as a JSON object, ordered by name.
func appendPairs(dst []byte, pairs url.Values) []byte {
	names := make([]string, 0, len(pairs))
	for name := range pairs {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, name)
		dst = append(dst, ':')
		dst = jsontext.AppendString(dst, pairs.Get(name))
	}
	return append(dst, '}')
}
