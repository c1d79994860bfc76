package wire

import (
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

const (
	// DefaultMetadataLimit is the default bound of the metadata of a request or a
	// report, in bytes of compact JSON. All log policies but none keep metadata,
	// and traces are filtered by it: it is for labels, not for content.
	DefaultMetadataLimit = 16 << 10

	// maxIDLength bounds a report's chain_id and conversation_id in bytes. Both are
	// keys of indexes by which traces are found and erased.
	maxIDLength = 1 << 10

	// maxLLMResponse bounds a report's llm_response in bytes, even if a body may
	// be larger: several must fit into the queue of the recorder.
	maxLLMResponse = 8 << 20
)

// jsonGrowth is the factor by which compact JSON may be larger than the JSON it is
// made from: a byte such as U+007F may become an escape of six.
const jsonGrowth = 6

// SetMetadataLimit sets how many bytes metadata may have; 0 means
// DefaultMetadataLimit. It must be called before the body is parsed.
func (r *Request) SetMetadataLimit(bytes int64) { r.maxMetadata = bytes }

// MetadataMember returns the member metadata as ObjectMember does. It refuses one
// that is larger than the limit.
func (r *Request) MetadataMember(body *fastjson.Object) (*fastjson.Value, *Error) {
	v, err := ObjectMember(body, "metadata")
	if v == nil || err != nil {
		return nil, err
	}
	if int64(len(r.body))*jsonGrowth <= r.metadataLimit() {
		return v, nil // the usual case
	}
	r.scratch = jsontext.AppendValue(r.scratch[:0], v)
	return v, r.checkMetadata(r.scratch)
}

func (r *Request) metadataLimit() int64 {
	if r.maxMetadata > 0 {
		return r.maxMetadata
	}
	return DefaultMetadataLimit
}

// checkMetadata refuses metadata, as compact JSON, that is larger than the limit.
func (r *Request) checkMetadata(compact []byte) *Error {
	if limit := r.metadataLimit(); int64(len(compact)) > limit {
		return Errorf(InvalidRequest, "metadata",
			`"metadata" has %d bytes as compact JSON, but may have %d. Send labels there and content elsewhere, or ask the operator to raise max_metadata_size.`,
			len(compact), limit)
	}
	return nil
}

// checkTexts refuses a report whose texts are larger than may be stored.
func (m *MetricsRecord) checkTexts() *Error {
	for _, text := range [...]struct {
		name  string
		value *string
		limit int
	}{
		{"llm_response", m.LLMResponse, maxLLMResponse},
		{"chain_id", m.ChainID, maxIDLength},
		{"conversation_id", m.ConversationID, maxIDLength},
	} {
		if text.value != nil && len(*text.value) > text.limit {
			return Errorf(InvalidRequest, text.name, "%q has %d bytes, but may have %d. Send less of it.", text.name, len(*text.value), text.limit)
		}
	}
	return nil
}
