package bedrock

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// TestCachePoints checks where marks for the cache stand, by what models take.
func TestCachePoints(t *testing.T) {
	const point, hour = `{"cachePoint":{"type":"default"}}`, `{"cachePoint":{"type":"default","ttl":"1h"}}`
	marked := func(text string, c providers.Cache) []providers.Part {
		return []providers.Part{{Kind: providers.PartText, Text: providers.Escape(text), Cache: c}}
	}
	req := func(model string) *providers.Request {
		return &providers.Request{Model: model, Messages: []providers.Message{
			{Role: "system", Parts: marked("s", providers.CacheHour)}, {Role: "user", Parts: marked("u", providers.CacheShort)},
		}, Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "f", Cache: providers.CacheHour}}, Caller: &providers.Caller{Marks: true}}}
	}
	for model, want := range map[string]string{
		"eu.anthropic.claude-sonnet-4-5-20250929-v1:0": `u ` + point + ` s ` + hour + ` f ` + hour,
		"us.anthropic.claude-opus-4-7-v1:0":            `u ` + point + ` s ` + hour + ` f ` + hour,
		"anthropic.claude-3-7-sonnet-20250219-v1:0":    `u ` + point + ` s ` + point + ` f ` + point,
		"anthropic.claude-3-5-haiku-20241022-v1:0":     `u ` + point + ` s ` + point + ` f ` + point,
		"amazon.nova-pro-v1:0":                         `u ` + point + ` s ` + point + ` f`,
		"anthropic.claude-3-haiku-20240307-v1:0":       `u s f, without cache_control`,
		"meta.llama3-3-70b-instruct-v1:0":              `u s f, without cache_control`,
	} {
		got, result := pt.Sent(t, answer("fine", "end_turn", 1, 1), req(model), func(base string) providers.Provider { return client(t, base) })
		body := strings.NewReplacer(`{"messages":[{"role":"user","content":[{"text":"u"}`, "u", `]}],"system":[{"text":"s"}`, " s", `],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}`, " f", `]}}`, "", `,{"cache`, ` {"cache`).Replace(got.Body)
		if len(result.LeftOut) > 0 {
			body += ", without " + strings.Join(result.LeftOut, " ")
		}
		if body != want {
			t.Errorf("%s:\n%s\nwant %s\n%s", model, body, want, got.Body)
		}
	}
}

func TestPrefix(t *testing.T) {
	subject.CheckPrefix(t, answer("fine", "end_turn", 1, 1), "messages", true)
}
