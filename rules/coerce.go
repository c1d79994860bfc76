package rules

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/valyala/fastjson"
)

// bindValue binds a JSON value to a field's slot by lossless coercions. It
// returns a reason for a note if it left the slot missing or left out an
// element of a list, otherwise "".
func (b *Binding) bindValue(f *field, slot int32, v *fastjson.Value) string {
	if f.typ == listField {
		return b.bindList(f, slot, v)
	}
	switch v.Type() {
	case fastjson.TypeNull:
		return ""
	case fastjson.TypeArray:
		if items, err := v.Array(); err == nil && f.coerce && len(items) == 1 && items[0].Type() != fastjson.TypeArray {
			return b.bindValue(f, slot, items[0])
		}
	case fastjson.TypeTrue, fastjson.TypeFalse:
		if f.typ == booleanField {
			return b.setBoolean(slot, v.Type() == fastjson.TypeTrue)
		}
	case fastjson.TypeNumber:
		return b.bindNumber(f, slot, v)
	case fastjson.TypeString:
		if text, err := v.StringBytes(); err == nil {
			return b.bindText(f, slot, text)
		}
	}
	return NoteTypeMismatch
}

// bindNumber binds a JSON number.
func (b *Binding) bindNumber(f *field, slot int32, v *fastjson.Value) string {
	start := len(b.buf)
	b.buf = v.MarshalTo(b.buf)
	raw := b.view(start)
	switch f.typ {
	case numberField:
		if n, ok := parseNumber(raw); ok {
			return b.setNumber(f, slot, n)
		}
	case dateField:
		// Unix milliseconds.
		if ms, ok := parseNumber(raw); ok && f.coerce && float64(minDate) <= ms*1000 && ms*1000 <= float64(maxDate) {
			whole, part := math.Modf(ms)
			return b.setDate(slot, int64(whole)*1000+int64(part*1000))
		}
	case stringField:
		// A version or an address is not a number, even if it looks like one:
		// 1.10 would become 1.1.
		if f.coerce && f.format == plainText {
			start = len(b.buf)
			var ok bool
			if b.buf, ok = appendNumberText(b.buf, raw); ok {
				return b.setText(f, slot, b.view(start))
			}
		}
	}
	return NoteTypeMismatch
}

// bindText binds a JSON string. text must stay as it is while b is in use.
func (b *Binding) bindText(f *field, slot int32, text []byte) string {
	switch f.typ {
	case booleanField:
		if s := string(text); f.coerce && (s == "true" || s == "false") {
			return b.setBoolean(slot, s == "true")
		}
	case numberField:
		if n, ok := parseNumber(jsontext.View(text)); ok && f.coerce {
			return b.setNumber(f, slot, n)
		}
	case dateField:
		t, ok := parseDay(jsontext.View(text), b.model.location)
		if !ok {
			t, ok = parseInstant(text)
		}
		if ok {
			return b.setDate(slot, dateKey(t))
		}
	case stringField:
		return b.setText(f, slot, jsontext.View(text))
	}
	return NoteTypeMismatch
}

// bindList binds an array, or a scalar as a list of one. The elements are kept
// as text: numbers as their shortest text, booleans as true and false. Without
// coercion, a list with an element that is no text is of the wrong type.
func (b *Binding) bindList(f *field, slot int32, v *fastjson.Value) string {
	start := len(b.items)
	reason := ""
	if v.Type() == fastjson.TypeArray {
		items, _ := v.Array() // it is one
		for _, item := range items {
			if r := b.appendElement(f, item); r == NoteTypeMismatch {
				return r
			} else if r != "" {
				reason = r
			}
		}
	} else if f.coerce || v.Type() == fastjson.TypeNull {
		reason = b.appendElement(f, v)
	} else {
		reason = NoteTypeMismatch
	}
	b.setList(slot, start)
	return reason
}

// appendElement appends one element of a list to b.items.
func (b *Binding) appendElement(f *field, v *fastjson.Value) string {
	switch kind := v.Type(); {
	case kind == fastjson.TypeNull:
		return ""
	case kind != fastjson.TypeString && !f.coerce:
	case kind == fastjson.TypeTrue:
		return b.appendItem(f, "true")
	case kind == fastjson.TypeFalse:
		return b.appendItem(f, "false")
	case kind == fastjson.TypeNumber:
		start := len(b.buf)
		b.buf = v.MarshalTo(b.buf)
		raw := b.view(start)
		start = len(b.buf)
		var ok bool
		if b.buf, ok = appendNumberText(b.buf, raw); ok {
			return b.appendItem(f, b.view(start))
		}
	case kind == fastjson.TypeString:
		if text, err := v.StringBytes(); err == nil {
			return b.appendItem(f, jsontext.View(text))
		}
	}
	return NoteTypeMismatch
}

func (b *Binding) appendItem(f *field, s string) string {
	if f.foldCase {
		s = b.folded(s)
	}
	if !f.allowsText(s) {
		return NoteValueNotAllowed
	}
	b.items = append(b.items, s)
	return ""
}

// setList gives a slot the items from start on. Without items the slot stays
// missing.
func (b *Binding) setList(slot int32, start int) {
	list := b.items[start:len(b.items):len(b.items)]
	if len(list) > 0 {
		long := slices.ContainsFunc(list, isLong)
		b.values[slot] = value{state: present, long: long, key: numberKey(float64(len(list))), list: list}
	}
}

func (b *Binding) setBoolean(slot int32, on bool) string {
	v := value{state: present}
	if on {
		v.key = 1
	}
	b.values[slot] = v
	return ""
}

func (b *Binding) setNumber(f *field, slot int32, n float64) string {
	if !f.allowsNumber(n) {
		return NoteValueNotAllowed
	}
	b.values[slot] = value{state: present, key: numberKey(n)}
	return ""
}

func (b *Binding) setDate(slot int32, key int64) string {
	if key < minDate || key > maxDate {
		return NoteValueNotAllowed
	}
	b.values[slot] = value{state: present, key: key}
	return ""
}

// setText gives a slot a text, checked by the field's format.
func (b *Binding) setText(f *field, slot int32, text string) string {
	key := text
	start := len(b.buf)
	switch {
	case f.format == semverText:
		v, ok := parseVersion(text, !f.coerce)
		if !ok {
			return NoteTypeMismatch
		}
		b.buf = v.appendKey(b.buf)
		key = b.view(start)
	case f.format == addressText:
		a, ok := parseAddress(text)
		if !ok {
			return NoteTypeMismatch
		}
		b.buf = appendAddressKey(b.buf, a)
		key = b.view(start)
	case f.foldCase:
		key = b.folded(text)
	}
	if !f.allowsText(key) {
		return NoteValueNotAllowed
	}
	b.values[slot] = value{state: present, long: isLong(key), key: int64(hashText(key)), str: key, text: text}
	return ""
}

func (b *Binding) folded(s string) string {
	if isFolded(s) {
		return s
	}
	start := len(b.buf)
	b.buf = appendFolded(b.buf, s)
	return b.view(start)
}

// describeJSON describes a value of a request for messages.
func describeJSON(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeString:
		text, _ := v.StringBytes()
		return strconv.Quote(shorten(string(text)))
	case fastjson.TypeNumber:
		return shorten(string(v.MarshalTo(nil)))
	case fastjson.TypeArray:
		return "a list"
	case fastjson.TypeObject:
		return "an object"
	}
	return v.Type().String()
}

// nearestField returns the member of a declared field whose path is nearest to
// that of another one, or "".
func nearestField(m *Model, path string) string {
	members := make([]string, m.sent)
	for i := range members {
		members[i] = m.fields[i].member()
	}
	return document.Nearest(path, members)
}

// appendValue appends the value of a slot in a readable form.
func (b *Binding) appendValue(dst []byte, slot int32) []byte {
	v := &b.values[slot]
	if v.state != present {
		return append(dst, "missing"...)
	}
	m := b.model
	if int(slot) >= len(m.fields) {
		if slot == m.nowSlot() {
			// When the request came is known to more than is read of it.
			return time.UnixMicro(v.key).In(m.location).AppendFormat(dst, time.RFC3339)
		}
		return strconv.AppendBool(dst, v.key == 1)
	}
	switch f := &m.fields[slot]; f.typ {
	case booleanField:
		return strconv.AppendBool(dst, v.key == 1)
	case dateField:
		return appendTime(dst, v.key, m.location)
	case numberField:
		return appendNumber(dst, numberOf(v.key))
	case listField:
		dst = append(dst, '[')
		for i, item := range v.list {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = strconv.AppendQuote(dst, shorten(item))
		}
		return append(dst, ']')
	}
	return strconv.AppendQuote(dst, shorten(v.text))
}

func appendTime(dst []byte, key int64, loc *time.Location) []byte {
	return time.UnixMicro(key).In(loc).AppendFormat(dst, time.RFC3339Nano)
}

// shorten cuts a text from a request or a file to a length that suits a
// message.
func shorten(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
