package messages

import (
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// AppendModels appends the answer to GET /v1/models: the keys of all endpoints, in one
// page. created is when their definitions were loaded.
func AppendModels(dst []byte, keys []string, created time.Time) []byte {
	dst = append(dst, `{"data":[`...)
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, key, created)
	}
	dst = append(dst, `],"has_more":false,"first_id":`...)
	if len(keys) == 0 {
		return append(dst, `null,"last_id":null}`...)
	}
	dst = jsontext.AppendString(dst, keys[0])
	return append(dialect.AppendMember(dst, "last_id", keys[len(keys)-1]), '}')
}

// AppendModel appends the answer to GET /v1/models/{id}.
func AppendModel(dst []byte, key string, created time.Time) []byte {
	dst = dialect.AppendMember(append(dst, `{"type":"model"`...), "id", key)
	dst = dialect.AppendMember(dst, "display_name", key)
	dst = created.UTC().Truncate(time.Second).AppendFormat(append(dst, `,"created_at":"`...), time.RFC3339)
	return append(dst, `"}`...)
}

// AppendCount appends the answer to POST /v1/messages/count_tokens.
func AppendCount(dst []byte, tokens int64) []byte {
	return append(strconv.AppendInt(append(dst, `{"input_tokens":`...), tokens, 10), '}')
}
