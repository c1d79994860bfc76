package command

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
)

func TestRowText(t *testing.T) {
	for _, test := range []struct{ content, row, want string }{
		{`{"columns":["plan","seats","value"],"matrix":[["free","any",1],[["pro","team"],"10..",{"rpm":"600"}]]}`, "row 2", `plan: ["pro","team"], seats: 10.., value: {"rpm":"600"}`},
		{`{"columns":["plan","seats","value"],"matrix":[["free","any",1]]}`, "row 1", `plan: free, value: 1`},
		{`{"columns":["plan","seats","value"],"matrix":[["free","any",1]]}`, "row 2", ""},
		{`{"columns":["plan","id","value"],"matrix":[["free","a",1],["pro","row 1",2]]}`, "row 1", "plan: pro, value: 2"},
		{`{"rules":[{"id":"staff","when":{"segment":"staff"}},{"value":2}]}`, "staff", `{"id":"staff","when":{"segment":"staff"}}`},
		{`{"rules":[{"id":"staff"},{"value":2}]}`, "row 2", `{"value":2}`},
		{`{"rules":[{"id":"staff"}]}`, "", ""},
		{`{"rules":{}}`, "staff", ""},
		{``, "staff", ""},
	} {
		if got := rowOf(&adminapi.TracedVersion{Content: []byte(test.content)}, test.row); got != test.want {
			t.Errorf("%s of %s: %q, want %q", test.row, test.content, got, test.want)
		}
	}
	if got := rowOf(nil, "row 1"); got != "" {
		t.Errorf("of a definition that is not kept: %q", got)
	}
}
