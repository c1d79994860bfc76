package openai

import "encoding/json"

// AppendLogprobs appends a list of log probabilities, or a part of one. A provider may
// have set it in several lines, which no event may have.
func AppendLogprobs(dst []byte, list json.RawMessage) []byte {
	start := len(dst)
	dst = append(dst, list...)
	for i := start; i < len(dst); i++ {
		if dst[i] == '\n' || dst[i] == '\r' {
			dst[i] = ' '
		}
	}
	return dst
}
