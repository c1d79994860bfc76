package dialect

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// AppendMember appends a comma and a member that is a text. name needs no escape.
func AppendMember(dst []byte, name, text string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return jsontext.AppendString(dst, text)
}

// AppendTokens appends a number of tokens unless it is 0. member is the text before it.
func AppendTokens(dst []byte, member string, tokens int64) []byte {
	if tokens == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, member...), tokens, 10)
}
