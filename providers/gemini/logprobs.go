package gemini

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// logprobs writes a logprobsResult in OpenAI's shape: the list of the tokens that were
// chosen, each with its alternatives. It returns nil if there are none.
func logprobs(v *fastjson.Value) json.RawMessage {
	chosen := v.GetArray("chosenCandidates")
	if len(chosen) == 0 {
		return nil
	}
	top := v.GetArray("topCandidates")
	list := []byte{'['}
	for i, token := range chosen {
		list = append(appendToken(list, token), `,"top_logprobs":[`...)
		if i < len(top) {
			for _, alternative := range top[i].GetArray("candidates") {
				list = append(appendToken(list, alternative), "},"...)
			}
			list = bytes.TrimSuffix(list, []byte{','})
		}
		list = append(list, "]},"...)
	}
	list[len(list)-1] = ']'
	return list
}

// appendToken appends a token without its last brace.
func appendToken(dst []byte, v *fastjson.Value) []byte {
	token := v.GetStringBytes("token")
	dst = jsontext.AppendString(append(dst, `{"token":`...), token)
	dst = append(dst, `,"logprob":`...)
	if p := v.Get("logProbability"); p != nil && p.Type() == fastjson.TypeNumber {
		dst = jsontext.AppendValue(dst, p)
	} else {
		dst = append(dst, '0') // the API leaves out zeros
	}
	dst = append(dst, `,"bytes":[`...)
	for i, b := range token {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(b), 10)
	}
	return append(dst, ']')
}

// joinLogprobs appends a list to the one before.
func joinLogprobs(list, more json.RawMessage) json.RawMessage {
	switch {
	case more == nil:
		return list
	case list == nil:
		return more
	}
	return append(append(list[:len(list)-1:len(list)-1], ','), more[1:]...)
}
