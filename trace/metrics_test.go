package trace

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReduce checks that Reduce removes the members that a kind does not take, names
// each once, and keeps all others.
func TestReduce(t *testing.T) {
	whole := Metrics{
		Workspace: "w", APIKey: "k",
		Score: new(1.0), Latency: new(2.0), RoundtripTime: new(3.0), LLMResponse: new("x"),
		ChainID: new("c"), ConversationID: new("d"),
		PromptTokens: new(int64(1)), CompletionTokens: new(int64(2)), TotalTokens: new(int64(3)),
		Values: []byte(`{"resolved":1}`), Metadata: []byte(`{"a":1}`),
	}
	always := Metrics{Workspace: "w", APIKey: "k", RoundtripTime: whole.RoundtripTime, Values: whole.Values, Metadata: whole.Metadata}
	endpoint := always
	endpoint.Score, endpoint.ChainID, endpoint.ConversationID = whole.Score, whole.ChainID, whole.ConversationID
	for _, test := range []struct {
		kind    Kind
		left    Metrics
		removed []string
	}{
		{KindPrompt, whole, nil},
		{KindMetrics, whole, nil},
		{KindDecision, whole, nil},
		{KindEndpoint, endpoint, []string{"latency_ms", "llm_response", "usage"}},
		{KindRemoteConfig, always, []string{"score", "latency_ms", "llm_response", "chain_id", "conversation_id", "usage"}},
	} {
		m := whole
		if removed := m.Reduce(test.kind); !slices.Equal(removed, test.removed) {
			t.Errorf("kind %d: removed %q, want %q", test.kind, removed, test.removed)
		}
		if diff := cmp.Diff(test.left, m); diff != "" {
			t.Errorf("kind %d: %s", test.kind, diff)
		}
		if removed := m.Reduce(test.kind); removed != nil {
			t.Errorf("kind %d: the second time it removed %q", test.kind, removed)
		}
	}
}

func TestSizeOfMetrics(t *testing.T) {
	bare, text := new(Metrics).Size(), "0123456789"
	m := Metrics{Metadata: []byte(text), Values: []byte(text), LLMResponse: &text, ChainID: &text, ConversationID: &text}
	if got := m.Size(); got != bare+50 {
		t.Errorf("%d bytes, and %d without texts", got, bare)
	}
}
