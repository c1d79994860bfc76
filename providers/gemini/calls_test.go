package gemini

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// callChunk is a chunk that holds a functionCall.
func callChunk(call string) string {
	return event(`{"candidates": [{"content": {"role": "model","parts": [{"functionCall": ` + call + `}]}}],"modelVersion": "gemini-3-pro"}`)
}

func partial(args string) string {
	return callChunk(`{"partialArgs": [` + args + `],"willContinue": true}`)
}

var callEnd = callChunk(`{}`)

func TestFunctionCallsInPieces(t *testing.T) {
	begin, finish := callChunk(`{"name": "f","willContinue": true}`), finishChunk("STOP", "", 3)
	for _, test := range []struct {
		name   string
		chunks []string
		want   string // the arguments, or several calls' with a space between
	}{
		{"as Vertex sends them", []string{
			begin,
			partial(`{"jsonPath": "$.location","stringValue": "New ","willContinue": true}`),
			partial(`{"jsonPath": "$.location","stringValue": "Delhi","willContinue": true}`),
			partial(`{"jsonPath": "$.location","stringValue": ""}`),
			partial(`{"jsonPath": "$.days","numberValue": 2.50}`),
			callEnd, finish,
		}, `{"location":"New Delhi","days":2.50}`},
		{"all kinds of values", []string{
			begin,
			partial(`{"jsonPath": "$.a","boolValue": true},{"jsonPath": "$.b","boolValue": false},{"jsonPath": "$.c","nullValue": "NULL_VALUE"},{"jsonPath": "$.d","stringValue": ""}`),
			callEnd, finish,
		}, `{"a":true,"b":false,"c":null,"d":""}`},
		{"nested", []string{
			begin,
			partial(`{"jsonPath": "$.list[0].name","stringValue": "a"},{"jsonPath": "$.list[0]['an age']","numberValue": 1}`),
			partial(`{"jsonPath": "$.list[1].name","stringValue": "b"},{"jsonPath": "$[\"it's\"][0][0]","numberValue": 7},{"jsonPath": "$['it\\'s'][0][1]","numberValue": 8}`),
			callEnd, finish,
		}, `{"list":[{"name":"a","an age":1},{"name":"b"}],"it's":[[7,8]]}`},
		{"split in a character", []string{
			begin,
			partial(`{"jsonPath": "$.a","stringValue": "x\ud83d","willContinue": true}`),
			partial(`{"jsonPath": "$.a","stringValue": "\ude00\""}`),
			callEnd, finish,
		}, `{"a":"x😀\""}`},
		{"ended with the last piece", []string{begin, callChunk(`{"partialArgs": [{"jsonPath": "$.a","numberValue": 1}]}`), finish}, `{"a":1}`},
		{"name and arguments at once", []string{callChunk(`{"name": "f","partialArgs": [{"jsonPath": "$.a","numberValue": 1}]}`), finish}, `{"a":1}`},
		{"no arguments", []string{begin, callEnd, finish}, `{}`},
		{"two, one after the other", []string{begin, partial(`{"jsonPath": "$.a","numberValue": 1}`), callEnd, begin, partial(`{"jsonPath": "$.a","numberValue": 2}`), callEnd, finish}, `{"a":1} {"a":2}`},
		{"two, the first without an end", []string{begin, partial(`{"jsonPath": "$.a","numberValue": 1}`), callChunk(`{"name": "f","args": {"b": 2}}`), finish}, `{"a":1} {"b":2}`},
	} {
		o := subject.Receive(t, pt.SSE(test.chunks...), true)
		var got []string
		for _, c := range o.Result.ToolCalls {
			got = append(got, c.Arguments)
			if c.Name != "f" {
				t.Errorf("%s: the name is %q", test.name, c.Name)
			}
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); o.Err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, o.Err, diff)
		}
		if o.Result.FinishReason != providers.FinishToolCalls {
			t.Errorf("%s: finish reason %q", test.name, o.Result.FinishReason)
		}
	}
	subject.CheckBrokenCalls(t, map[string]pt.Reply{
		"no end":                   pt.SSE(begin, partial(`{"jsonPath": "$.a","numberValue": 1}`), finish),
		"no end, and no arguments": pt.SSE(begin, finish),
		"back to a closed value":   pt.SSE(begin, partial(`{"jsonPath": "$.a.b","numberValue": 1},{"jsonPath": "$.c","numberValue": 1},{"jsonPath": "$.a.d","numberValue": 1}`), callEnd, finish),
		"back to an element":       pt.SSE(begin, partial(`{"jsonPath": "$.a[0]","numberValue": 1},{"jsonPath": "$.a[1]","numberValue": 1},{"jsonPath": "$.a[0]","numberValue": 1}`), callEnd, finish),
		"no path":                  pt.SSE(begin, partial(`{"numberValue": 1}`), callEnd, finish),
		"a path of many values":    pt.SSE(begin, partial(`{"jsonPath": "$.a[*]","numberValue": 1}`), callEnd, finish),
		"a path of descendants":    pt.SSE(begin, partial(`{"jsonPath": "$..a","numberValue": 1}`), callEnd, finish),
		"a path without a name":    pt.SSE(begin, partial(`{"jsonPath": "$.a.","numberValue": 1}`), callEnd, finish),
		"a path of all members":    pt.SSE(begin, partial(`{"jsonPath": "$.a.*","numberValue": 1}`), callEnd, finish),
		"a path that breaks off":   pt.SSE(begin, partial(`{"jsonPath": "$['a","numberValue": 1}`), callEnd, finish),
		"an index far away":        pt.SSE(begin, partial(`{"jsonPath": "$.a[999999999]","numberValue": 1}`), callEnd, finish),
		"an index below nought":    pt.SSE(begin, partial(`{"jsonPath": "$.a[-1]","numberValue": 1}`), callEnd, finish),
		"a member of a number":     pt.SSE(begin, partial(`{"jsonPath": "$.a","numberValue": 1},{"jsonPath": "$.a.b","numberValue": 1}`), callEnd, finish),
		"an element of an object":  pt.SSE(begin, partial(`{"jsonPath": "$.a.b","numberValue": 1},{"jsonPath": "$.a[0]","numberValue": 1}`), callEnd, finish),
		"text where a number is":   pt.SSE(begin, partial(`{"jsonPath": "$.a","numberValue": 1},{"jsonPath": "$.a","stringValue": "x"}`), callEnd, finish),
		"a number twice":           pt.SSE(begin, partial(`{"jsonPath": "$.a","numberValue": 1},{"jsonPath": "$.a","numberValue": 2}`), callEnd, finish),
		"a value for the object":   pt.SSE(begin, partial(`{"jsonPath": "$","numberValue": 1}`), callEnd, finish),
		"a path without an end":    pt.SSE(begin, partial(`{"jsonPath": "$`+strings.Repeat("[0]", 100_000)+`","numberValue": 1}`), callEnd, finish),
		"pieces of a call unnamed": pt.SSE(partial(`{"jsonPath": "$.a","numberValue": 1}`), callEnd, finish),
	})
}
