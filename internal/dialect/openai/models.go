package openai

import (
	"strconv"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// AppendModels appends the answer to GET /v1/models: the keys of all endpoints. created
// is when their definitions were loaded.
func AppendModels(dst []byte, keys []string, created time.Time) []byte {
	dst = append(dst, `{"object":"list","data":[`...)
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendModel(dst, key, created)
	}
	return append(dst, `]}`...)
}

// AppendModel appends the answer to GET /v1/models/{id}.
func AppendModel(dst []byte, key string, created time.Time) []byte {
	dst = append(dst, `{"id":`...)
	dst = jsontext.AppendString(dst, key)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, created.Unix(), 10)
	return append(dst, `,"owned_by":"cadenza"}`...)
}
