package invoke

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// ends makes an answer end for another reason than that it is whole.
func (s script) ends(reason providers.FinishReason) script {
	s.result.FinishReason = reason
	return s
}

func jsonTarget(name string, p providers.Provider, format string) Target {
	t := target(name, p)
	t.Parameters.ResponseFormat = &providers.ResponseFormat{Type: format}
	return t
}

// TestJSONThatWasCut: JSON that was cut is no answer, even if it happens to
// parse. The same target would cut it again, so the next one is asked.
func TestJSONThatWasCut(t *testing.T) {
	for _, format := range []string{providers.FormatJSON, providers.FormatSchema} {
		for _, text := range []string{`{"topic":"bil`, `{"topic":"billing"}`, "1", ""} {
			for _, stream := range []bool{false, true} {
				if stream && text != "" {
					continue // TestJSONThatIsCutInAStream
				}
				t.Run(fmt.Sprintf("%s %q stream=%v", format, text, stream), func(t *testing.T) {
					first, second := scripted(says(text).ends(providers.FinishLength)), scripted(says(`{"topic":"refund"}`))
					r, err, out := run(t, &Call{
						Stream:  stream,
						Targets: []Target{jsonTarget("first", first, format), jsonTarget("second", second, format)},
						Policy:  Policy{Retries: retries(3), MaxAttempts: 8},
					})
					if err != nil || r.Served != 1 || out.text() != `{"topic":"refund"}` || r.FinishReason != providers.FinishStop {
						t.Errorf("%v, served by %d: %q, %q", err, r.Served, out.text(), r.FinishReason)
					}
					if diff := cmp.Diff([]string{"length", ""}, classesOf(r)); diff != "" {
						t.Error(diff)
					}
					if r.Attempts[0].Status != 200 {
						t.Errorf("status %d", r.Attempts[0].Status)
					}
				})
			}
		}
	}
}

func TestJSONThatIsCutByTheLastTarget(t *testing.T) {
	only := scripted(says(`{"topic":"bil`).ends(providers.FinishLength))
	r, err, out := run(t, &Call{Targets: []Target{jsonTarget("only", only, providers.FormatJSON)}})
	if err == nil || err.Code != wire.UpstreamInvalidResponse || err.Class != Length || len(out.pieces) > 0 || only.calls() != 1 || r.Served >= 0 {
		t.Errorf("%v after %d calls: %q", err, only.calls(), out.pieces)
	}
}

// TestJSONThatIsCutInAStream is found out when its beginning was handed on.
func TestJSONThatIsCutInAStream(t *testing.T) {
	first, second := scripted(says(`{"topic":`, `"bil`).ends(providers.FinishLength)), scripted(says("{}"))
	r, err, out := run(t, &Call{Stream: true, Targets: []Target{
		jsonTarget("first", first, providers.FormatSchema), jsonTarget("second", second, providers.FormatSchema),
	}})
	if err == nil || err.Code != wire.UpstreamInterrupted || err.Class != Length || !err.Committed || second.calls() > 0 {
		t.Errorf("%v, %d calls of the second", err, second.calls())
	}
	if out.text() != `{"topic":"bil` || r.Served >= 0 {
		t.Errorf("%q, served by %d", out.text(), r.Served)
	}
}

// TestAnswersThatEndEarly: an answer that ends early is an answer if no JSON
// was asked for or if the reason was not a limit.
func TestAnswersThatEndEarly(t *testing.T) {
	for _, test := range []struct {
		format string
		reason providers.FinishReason
	}{
		{"", providers.FinishLength},
		{providers.FormatText, providers.FinishLength},
		{providers.FormatJSON, providers.FinishStop},
		{providers.FormatJSON, providers.FinishToolCalls},
		{providers.FormatJSON, providers.FinishContentFilter},
		{providers.FormatJSON, ""},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s stream=%v", test.format, test.reason, stream), func(t *testing.T) {
				only := jsonTarget("only", scripted(says("{", "}").ends(test.reason)), test.format)
				if test.format == "" {
					only.Parameters.ResponseFormat = nil
				}
				r, err, out := run(t, &Call{Stream: stream, Targets: []Target{only}})
				if err != nil || out.text() != "{}" || r.FinishReason != test.reason {
					t.Errorf("%v: %q, %q", err, out.text(), r.FinishReason)
				}
			})
		}
	}
}

// TestCutAnswersDoNotCountAgainstTheirTarget: the definition asks for too few
// tokens, which a target's health has no part in.
func TestCutAnswersDoNotCountAgainstTheirTarget(t *testing.T) {
	e := NewEngine()
	cut := scripted(says("{").ends(providers.FinishLength))
	for range 2 * minAnswers {
		if _, err, _ := runOn(t, e, &Call{Targets: []Target{jsonTarget("only", cut, providers.FormatJSON)}}); err == nil || err.Class != Length {
			t.Fatal(err)
		}
	}
	r, err, _ := runOn(t, e, &Call{Targets: []Target{target("only", cut), target("other", scripted(says("other")))}})
	if err != nil || r.Served != 0 || len(r.Skipped) > 0 {
		t.Errorf("%v, served by %d, skipped %v", err, r.Served, r.Skipped)
	}
}
