package jsontext

import "github.com/valyala/fastjson"

// AppendValue appends v as compact JSON: without white space, with strings escaped
// as by AppendString, and with numbers and the order of members as they were sent.
// nil is null.
//
// fastjson's own MarshalTo is not used because it repeats unread strings as
// they were sent and writes read ones with Go's escapes, which are not JSON's.
func AppendValue(dst []byte, v *fastjson.Value) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	switch v.Type() {
	case fastjson.TypeObject:
		dst = append(dst, '{')
		first := true
		v.GetObject().Visit(func(name []byte, member *fastjson.Value) {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(AppendString(dst, name), ':')
			dst = AppendValue(dst, member)
		})
		return append(dst, '}')
	case fastjson.TypeArray:
		dst = append(dst, '[')
		for i, element := range v.GetArray() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendValue(dst, element)
		}
		return append(dst, ']')
	case fastjson.TypeString:
		return AppendString(dst, v.GetStringBytes())
	default:
		// Numbers, true, false and null have one spelling: their own.
		return v.MarshalTo(dst)
	}
}
