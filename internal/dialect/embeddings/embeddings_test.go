package embeddings

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/providers"
)

func TestDocumented(t *testing.T) { dialecttest.CheckDocumented(t, members.List) }

func TestParse(t *testing.T) {
	call, _, err := dialecttest.Parse(t, Dialect, `{"model":"docs","input":["a \u00fc",[1,20]],"dimensions":8,"encoding_format":"base64","user":"u","context":{"a":1},"metadata":{"b":2},"input_type":"query"}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []providers.EmbeddingInput{{Text: "a ü"}, {Tokens: json.RawMessage("[1,20]"), Count: 2}}
	if diff := cmp.Diff(want, call.Embedding.Inputs); diff != "" {
		t.Error(diff)
	}
	e := call.Embedding
	if call.Endpoint != "docs" || !e.Listed || e.Dimensions != 8 || !e.Base64 || call.User != "u" || call.Context == nil || call.Metadata == nil || len(call.Ignored) != 1 || call.Ignored[0] != "input_type" {
		t.Errorf("%+v, %+v", call, e)
	}
}

func TestAnswer(t *testing.T) {
	_, writer, err := Dialect.Parse(dialecttest.Request(t, `{"model":"docs","input":["a","b"]}`))
	if err != nil {
		t.Fatal(err)
	}
	w := writer.(interface {
		dialect.Writer
		dialect.Keeper
	})
	e := writerOf(w)
	e.Vectors = []json.RawMessage{json.RawMessage(`[1, 2.50]`), json.RawMessage(`"AACAPw=="`)}
	a := dialect.Answer{Key: `do"cs`, Usage: providers.Usage{PromptTokens: 3, TotalTokens: 4}}
	got := w.Answer(nil, &a)
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1, 2.50]},{"object":"embedding","index":1,"embedding":"AACAPw=="}],"model":"do\"cs","usage":{"prompt_tokens":3,"total_tokens":4}}`
	if string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if size := a.Size() + w.Held(); size < len(got) {
		t.Errorf("%d bytes were to be %d at most", len(got), size)
	}
}

func writerOf(w dialect.Writer) *dialect.Embedding { return w.(*writer).Embedding }
