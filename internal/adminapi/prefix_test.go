package adminapi

import (
	"strings"
	"testing"
)

func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{ // "": refused
		"01a2007064e6":                         "01a20070-64e6-0000-0000-000000000000 01a20070-64e6-ffff-ffff-ffffffffffff",
		"01A20070-64e":                         "01a20070-64e0-0000-0000-000000000000 01a20070-64ef-ffff-ffff-ffffffffffff",
		"01a20070":                             "01a20070-0000-0000-0000-000000000000 01a20070-ffff-ffff-ffff-ffffffffffff",
		"01a20070-64e6-8552-8000-000000000001": "01a20070-64e6-8552-8000-000000000001 01a20070-64e6-8552-8000-000000000001",
		"01a2007":                              "",
		"01a2007-":                             "",
		"01a20070-64eg":                        "",
		"":                                     "",
		strings.Repeat("0", 33):                "",
		"0x1234567":                            "",
	} {
		first, last, ok := parsePrefix(text)
		if got := first.String() + " " + last.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %s %t", text, got, ok)
		}
	}
}

// TestWithinAnswerID has the ids of answers and of their parts.
func TestWithinAnswerID(t *testing.T) {
	const id = "01a2007064e685528000000000000001"
	for text, want := range map[string]string{
		"chatcmpl-" + id: id, "resp_" + id: id, "msg_" + id: id, "msg_" + id + "_0": id, "rs_" + id + "_12": id, "fc_" + id + "_1": id,
		"ctc_" + id + "_1": id, "cmp_" + id + "_1": id, "chatcmpl-" + id[:9]: id[:9],
		id: id, "chatcmpl-x": "chatcmpl-x", "call_" + id: "call_" + id, "msg_": "msg_", id + "_0": id + "_0", "": "",
	} {
		if got := withinAnswerID(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzParsePrefix(f *testing.F) {
	f.Add("01a20070-64e6")
	f.Add("01a2007g")
	f.Fuzz(func(t *testing.T, text string) {
		first, last, ok := parsePrefix(text)
		if digits := strings.ToLower(strings.ReplaceAll(text, "-", "")); ok && (!strings.HasPrefix(strings.ReplaceAll(first.String(), "-", ""), digits) ||
			!strings.HasPrefix(strings.ReplaceAll(last.String(), "-", ""), digits) || first.String() > last.String()) {
			t.Errorf("%q: %s to %s", text, first, last)
		}
	})
}
