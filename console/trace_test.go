package console

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestTraceSplits has the splits that a unit came to, and what a rollout made of it.
func TestTraceSplits(t *testing.T) {
	p := &tracePage{ID: "x", Role: gateway.RoleViewer}
	p.Trace = &trace.Record{Splits: []byte(`[
		{"experiment":{"definition":"remoteconfigs/button","rule":"colours"},"bucket":0,"arm":"control","share":0.98,"rollout":3,"compared":false},
		{"experiment":{"definition":"prompts/reply","rule":"half"},"bucket":70,"share":0.2},
		{"experiment":{"definition":"prompts/reply","rule":"unasked"},"bucket":71,"share":0.2,"consulted":false}]`)}
	text := shown(t, "trace.main", p)
	for _, want := range []string{
		`colours</th><td class="n">0</td><td>control</td><td class="n">98 %</td><td>by <a href="/console/rollouts/remoteconfigs/button/colours">row 3</a> compared with nothing</td>`,
		`half</th><td class="n">70</td><td>passed on</td><td class="n">20 %</td><td></td>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s: %s", want, text)
		}
	}
	if strings.Contains(text, "unasked") {
		t.Error(text)
	}
	p.Trace.Splits = nil
	if text = shown(t, "trace.main", p); strings.Contains(text, "Splits") {
		t.Error(text)
	}
}
