package gateway

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/cadenza-gateway/cadenza/cache"
	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/providers"
)

// notAsked are the members of a caller's call that are not part of the question, with
// the reason.
var notAsked = map[string]string{
	"Embedding":     "vectors are not cached",
	"Endpoint":      "the endpoint's key and version are asked",
	"Variant":       "the prompt's variant is asked",
	"Version":       "the variant that it stands for is asked",
	"EndpointParam": "where the caller wrote it changes no answer",
	"Stream":        "whole and streamed answers are shared",
	"RemoteConfigs": "their values go beside the answer",
	"Context":       "what it picked is asked",
	"Metadata":      "no model gets it",
	"Variables":     "the rendered messages are asked",
	"Turns":         "the rendered messages are asked",
	"TurnsParam":    "where the caller wrote it changes no answer",
	"TurnParams":    "where the caller wrote it changes no answer",
	"Ignored":       "what has no effect changes no answer",
	"MoreIgnored":   "what has no effect changes no answer",
	"Unknown":       "what has no effect changes no answer",
	"Hosted":        "what has no effect changes no answer",
	"Search":        "what the endpoint accepts of it is among the parameters",
	"ToolParams":    "paths are for errors",
	"Compacts":      "the last message asks for the summary",
	"Summaries":     "they are messages by then",
	"User":          "no model gets it",
	"UserParam":     "where the caller wrote it changes no answer",
	"Betas":         "the accepted ones are among the parameters",
	"Marks":         "what a provider caches changes no answer",
}

// sameAnswers are the ends of the paths of members that change how a provider works, and
// not what it answers: calls that differ in them share answers.
var sameAnswers = regexp.MustCompile(`\.(Cache|Caller\.(Marks|CacheKey|CacheRetention|User|Tier|Attribution))$`)

// TestQuestionOfEachMember changes each member of the messages and of a caller's call,
// one at a time, and expects another question each time. It finds the members by
// reflection, so that a new one can't be forgotten.
func TestQuestionOfEachMember(t *testing.T) {
	loaded := loadAsked(t, wiredEndpoint, wiredPrompt)
	variant := loaded.endpoint.Prompt.Variants()[0]
	type asked struct {
		Messages []providers.Message
		Call     dialect.Call
	}
	full := func() *asked {
		a := new(asked)
		fillMember(reflect.ValueOf(&a.Messages).Elem(), 3)
		fillMember(reflect.ValueOf(&a.Call.Parameters).Elem(), 3)
		for _, name := range []string{
			"temperature", "max_tokens", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "stop",
			"reasoning_effort", "response_format", "tools", "tool_choice", "parallel_tool_calls", "logprobs", "betas", "web_search",
		} {
			a.Call.Given = append(a.Call.Given, dialect.Given{Name: name, Param: "parameters." + name})
		}
		return a
	}
	question := func(a *asked) cache.Question {
		w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "w"}}
		return questionOf(w, loaded.endpoint, loaded.how, variant, a.Messages, &a.Call)
	}
	base := question(full())
	if base != question(full()) {
		t.Fatal("the same call is not the same question")
	}
	var paths []string
	for _, part := range []func(*asked) reflect.Value{
		func(a *asked) reflect.Value { return reflect.ValueOf(&a.Messages).Elem() },
		func(a *asked) reflect.Value { return reflect.ValueOf(&a.Call.Parameters).Elem() },
	} {
		visitLeaves(part(full()), "", func(changed string, _ reflect.Value) {
			a := full()
			visitLeaves(part(a), "", func(path string, leaf reflect.Value) {
				if path == changed {
					changeLeaf(leaf)
				}
			})
			if same := question(a) == base; same != sameAnswers.MatchString(changed) {
				t.Errorf("another %s is the same question: %v", changed, same)
			}
			paths = append(paths, changed)
		})
	}
	if !slices.Contains(paths, ".Tools[0].Description") || !slices.Contains(paths, "[0].Parts[0].Result.Content[0].Text") {
		t.Errorf("members that were changed: %q", paths)
	}
	// The question differs if a parameter is not given.
	for i := range full().Call.Given {
		a := full()
		a.Call.Given = append(a.Call.Given[:i:i], a.Call.Given[i+1:]...)
		if question(a) == base {
			t.Errorf("without %s it is the same question", full().Call.Given[i].Name)
		}
	}
	for i := range reflect.TypeFor[dialect.Call]().NumField() {
		name := reflect.TypeFor[dialect.Call]().Field(i).Name
		if varied := name == "Parameters" || name == "Given"; varied == (notAsked[name] != "") {
			t.Errorf("Call.%s: is it part of the question? Vary it above, or say why not in notAsked", name)
		}
	}
}

// fillMember sets all members of v. depth bounds recursive types, such as the parts of
// a tool's result.
func fillMember(v reflect.Value, depth int) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
	case v.Type() == reflect.TypeFor[providers.PartKind]():
		v.Set(reflect.ValueOf(providers.PartText))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillMember(v.Elem(), depth)
	case v.Kind() == reflect.Slice && depth > 0:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillMember(v.Index(0), depth-1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fillMember(v.Field(i), depth)
		}
	case v.Kind() == reflect.String:
		v.SetString("a")
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1)
	}
}

// visitLeaves visits each member of v that has no members itself, with its path.
func visitLeaves(v reflect.Value, path string, visit func(path string, leaf reflect.Value)) {
	switch {
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		visit(path, v)
	case v.Kind() == reflect.Pointer:
		visitLeaves(v.Elem(), path, visit)
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			visitLeaves(v.Index(i), fmt.Sprintf("%s[%d]", path, i), visit)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			visitLeaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	default:
		visit(path, v)
	}
}

// changeLeaf sets a leaf to a value that fillMember does not use.
func changeLeaf(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Slice:
		v.SetBytes([]byte(`{"a": 1}`)) // with a space, which a model sees
	case v.Type() == reflect.TypeFor[providers.PartKind]():
		v.Set(reflect.ValueOf(providers.PartThinking))
	case v.Kind() == reflect.String:
		v.SetString("b")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(2)
	case v.CanUint():
		v.SetUint(2)
	case v.CanFloat():
		v.SetFloat(2)
	default:
		panic("a member of kind " + v.Kind().String())
	}
}
