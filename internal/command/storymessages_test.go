package command

import (
	"bytes"
	"testing"
)

// TestMessagesOfATrace holds how messages with parts are shown.
func TestMessagesOfATrace(t *testing.T) {
	for text, want := range map[string]string{
		`[{"role":"user","content":"Hi."}]`: "\nuser\n  Hi.\n",
		`[{"role":"user","content":[{"type":"text","text":"What?\nThis:"},{"type":"image","media_type":"image/png","bytes":3},{"type":"file","name":"a.pdf","url":"https://x.test/a"}]}]`: "\nuser\n  What?\n  This:\n  [image image/png, 3 bytes]\n  [file a.pdf https://x.test/a]\n",
		`[{"role":"assistant","content":[{"type":"thinking","text":"Hm.","opaque_bytes":3},{"type":"tool_call","id":"c","name":"find","arguments":"{\"a\":1}"}]},` +
			`{"role":"tool","content":[{"type":"tool_result","tool_call_id":"c","content":[{"type":"text","text":"tomorrow"}]}]}]`: "\nassistant\n  [thinking] Hm.\n  [tool_call find {\"a\":1}]\n\ntool\n  [tool_result] tomorrow\n",
		`[{"role":"user","content":null}]`: "\nuser\n   \n",
		`[{"role":"user","content":{}}]`:   "\nmessages\n  [{\"role\":\"user\",\"content\":{}}]\n",
	} {
		var b bytes.Buffer
		writeMessages(&b, styles{}, []byte(text))
		if b.String() != want {
			t.Errorf("%s\ngot  %q\nwant %q", text, b.String(), want)
		}
	}
}
