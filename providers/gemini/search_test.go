package gemini

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

const vertexPath = "/v1/projects/p/locations/global/publishers/google"

// asks are parameters with a search.
func asks(s providers.WebSearch, change ...func(*providers.Parameters)) providers.Parameters {
	p := providers.Parameters{Caller: &providers.Caller{Search: &s}}
	for _, c := range change {
		c(&p)
	}
	return p
}

// TestSearchRequests checks which requests search, and how they say so.
func TestSearchRequests(t *testing.T) {
	functions := func(p *providers.Parameters) { p.Tools = []providers.Tool{{Name: "f"}} }
	choice := func(mode string) func(*providers.Parameters) {
		return func(p *providers.Parameters) { p.ToolChoice = &providers.ToolChoice{Mode: mode, Name: "f"} }
	}
	inJSON := func(p *providers.Parameters) {
		p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatJSON}
	}
	const bounds, declared = "max_uses", `{"functionDeclarations":[{"name":"f"}]}`
	alone, both := `"tools":[{"googleSearch":{}}]`, func(calling string) string {
		return `"toolConfig":{` + calling + `"includeServerSideToolInvocations":true},"tools":[{"googleSearch":{}},` + declared + `]`
	}
	domains := json.RawMessage(`["x.org"]`)
	for _, test := range []struct {
		name, model, path string
		p                 providers.Parameters
		extra             string // a member
		want              string // beside the messages; empty: it does not search
		leftOut           string
	}{
		{name: "alone", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}), want: alone, leftOut: bounds},
		{name: "with all", model: "gemini-2.5-flash", p: asks(providers.WebSearch{ContextSize: "low", Location: json.RawMessage(`{}`), MaxUses: 3}), want: alone, leftOut: "user_location max_uses search_context_size"},
		{name: "by Vertex AI", model: "gemini-2.5-flash", path: vertexPath, p: asks(providers.WebSearch{Blocked: domains}), want: `"tools":[{"googleSearch":{"excludeDomains":["x.org"]}}]`, leftOut: bounds},
		{name: "Google AI blocks no domains", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{Blocked: domains})},
		{name: "nobody has some domains alone", model: "gemini-3-pro-preview", path: vertexPath, p: asks(providers.WebSearch{Allowed: domains})},
		{name: "it reaches out", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{Cached: true})},
		{name: "an old model", model: "gemini-1.5-pro", p: asks(providers.WebSearch{})},
		{name: "a model of one's own", model: "tunedModels/x", p: asks(providers.WebSearch{})},
		{name: "tools of the definition's", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}), extra: "tools"},
		{name: "functions", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}, functions)},
		{name: "functions, by Vertex AI", model: "gemini-3-pro-preview", path: vertexPath, p: asks(providers.WebSearch{}, functions)},
		{name: "functions, and a toolConfig of the definition's", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions), extra: "toolConfig"},
		{name: "functions of Gemini 3", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions), want: both(""), leftOut: bounds},
		{name: "auto", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions, choice(providers.ToolsAuto)), want: both(`"functionCallingConfig":{"mode":"VALIDATED"},`), leftOut: bounds},
		{name: "required", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions, choice(providers.ToolsRequired)), want: both(`"functionCallingConfig":{"mode":"ANY"},`), leftOut: bounds},
		{name: "named", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions, choice(providers.ToolsNamed)), want: both(`"functionCallingConfig":{"allowedFunctionNames":["f"],"mode":"ANY"},`), leftOut: bounds},
		{name: "none", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions, choice(providers.ToolsNone)), want: `"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},"tools":[` + declared + `]`, leftOut: bounds},
		{name: "none of none", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}, choice(providers.ToolsNone)), want: "-", leftOut: bounds},
		{name: "a search can't be forced", model: "gemini-3-pro-preview", p: asks(providers.WebSearch{}, functions, choice(providers.ToolsSearch)), want: both(""), leftOut: bounds + " tool_choice"},
		{name: "nor by being the only tool", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}, choice(providers.ToolsRequired)), want: alone, leftOut: bounds + " tool_choice"},
		{name: "JSON", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}, inJSON)},
		{name: "text", model: "gemini-2.5-flash", p: asks(providers.WebSearch{}, func(p *providers.Parameters) {
			p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatText}
		}), want: alone, leftOut: bounds},
		{name: "JSON of Gemini 3", model: "gemini-3-flash-preview", p: asks(providers.WebSearch{}, inJSON), want: `"generationConfig":{"responseMimeType":"application/json"},` + alone, leftOut: bounds},
	} {
		if test.path == "" {
			test.path = "/v1beta"
		}
		req := &providers.Request{Model: test.model, Messages: hello, Parameters: test.p}
		if test.extra != "" {
			req.Extra = pt.Extra(test.extra, `{}`)
		}
		connect := func(base string) providers.Provider {
			return client(t, base, func(c *Config) { c.Upstream.BaseURL = pt.URL(t, base+test.path) })
		}
		if got := providers.SearchAPI(connect("http://localhost"), req) != ""; got != (test.want != "") {
			t.Errorf("%s: it searches: %v", test.name, got)
		}
		if test.want == "" {
			continue
		}
		r, result := pt.Sent(t, answer("fine", "STOP", 1), req, connect)
		_, rest, _ := strings.Cut(r.Body, `"parts":[{"text":"Hello"}]}]`)
		if want := strings.TrimSuffix(","+test.want, ",-") + "}"; rest != want {
			t.Errorf("%s: the body has %s, want %s", test.name, rest, want)
		}
		if got := strings.Join(result.LeftOut, " "); got != test.leftOut {
			t.Errorf("%s: %q is left out", test.name, got)
		}
	}
}

// The pieces of metadata, as Google sends them.
const (
	suggestions = `"searchEntryPoint": {"renderedContent": "\u003cstyle\u003e\u003c/style\u003e"}`
	asked       = `"webSearchQueries": ["shannon né","shannon died"]`
	pages       = `"groundingChunks": [{"web": {"uri": "https://vertexaisearch.cloud.google.com/grounding-api-redirect/A","title": "e.org"}},{"retrievedContext": {"uri": "gs://b"}},{"web": {"uri": "https://vertexaisearch.cloud.google.com/grounding-api-redirect/B","title": "f.org"}}]`
	rests       = `"groundingSupports": [{"segment": {"endIndex": 13,"text": "Né 🙂 1916"},"groundingChunkIndices": [0,2],"confidenceScores": [0.9,0.8]},{"segment": {"startIndex": 15,"endIndex": 18,"text": "Né"},"groundingChunkIndices": [0]},{"segment": {"startIndex": 2,"endIndex": 7,"text": "† 2001"},"groundingChunkIndices": [2]}]`
	said        = "Né 🙂 1916. Né là. † 2001"
)

// grounded is an answer, or a chunk of one, with metadata.
func grounded(list, metadata string) string {
	return `{"candidates": [{"content": {"role": "model","parts": [` + list + `]},"finishReason": "STOP","index": 0,"groundingMetadata": {` + metadata + `}}],"modelVersion": "gemini-3-pro","responseId": "JPozaonvK7yzvdIPrJ7FyAk"}`
}

// piece writes what a delta says in short.
func piece(d providers.Delta) string {
	switch f := d.Found; {
	case f != nil && f.Kind == providers.FoundCitation:
		return fmt.Sprintf("[%d-%d %s]", f.From, f.To, f.Sources[0].Title)
	case f != nil && f.Kind == providers.FoundCall && f.API == api:
		return "?" + f.ID + " " + f.Query
	case f != nil && f.Kind == providers.FoundResults && f.API == api:
		urls := []string{"=" + f.ID}
		for _, s := range f.Sources {
			urls = append(urls, s.URL[strings.LastIndexByte(s.URL, '/')+1:])
		}
		return strings.Join(urls, " ")
	case d.Thought != nil:
		return "!" + d.Thought.Opaque
	case d.Calls != nil:
		return "#" + d.Calls[0].Name
	case d.Thinking != "":
		return "~" + d.Thinking
	}
	return d.Content
}

// TestSearchAnswers reads answers of models that have searched.
func TestSearchAnswers(t *testing.T) {
	const (
		first, second = "JPozaonvK7yzvdIPrJ7FyAk_1", "JPozaonvK7yzvdIPrJ7FyAk_2"
		cites         = "[0-9 e.org]|[0-9 f.org]|[11-13 e.org]|[18-24 f.org]"
		finds         = "?" + first + " shannon né|=" + first + "|?" + second + " shannon died|=" + second + " A B"
		call          = `{"toolCall": {"toolType": "GOOGLE_SEARCH_WEB","args": {"queries": ["x","y"]},"id": "h"},"thoughtSignature": "c2ln"}`
		response      = `{"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB","response": {"search_suggestions": "\u003cb\u003e"},"id": "h"},"thoughtSignature": "c2lo"}`
		function      = `{"functionCall": {"name": "f","args": {}},"thoughtSignature": "c2lp"}`
	)
	compact := func(part string) string { // as it goes back
		return strings.NewReplacer(": ", ":", `\u003c`, "<", `\u003e`, ">").Replace(part)
	}
	text := `{"text": ` + quote(said) + `}`
	all := strings.Join([]string{suggestions, asked, pages, rests}, ",")
	for _, test := range []struct {
		name     string
		chunks   []string
		want     string
		searches int64
	}{
		{"at the end", []string{grounded(`{"text": "Né "}`, ""), grounded(`{"text": "🙂 1916. Né là. † 2001"}`, ""), grounded(`{"text": ""}`, all)}, "Né |🙂 1916. Né là. † 2001|" + cites + "|" + finds, 2},
		{"again and again", []string{grounded(`{"text": "Né "}`, asked), grounded(`{"text": "🙂 1916. Né là. † 2001"}`, pages), grounded(`{"text": ""}`, all), grounded(`{"text": ""}`, "")}, "Né |🙂 1916. Né là. † 2001|" + cites + "|" + finds, 2},
		{"before the text", []string{grounded("", all), grounded(text, "")}, said + "|" + cites + "|" + finds, 2},
		{"a signature at the end", []string{grounded(text, ""), grounded(`{"text": "","thoughtSignature": "c2ln"}`, ""), grounded("", all)}, said + "|" + cites + "|" + finds + "|!@32,0:text:c2ln", 2},
		{"a signature of a text", []string{grounded(`{"text": "Né "}`, ""), grounded(`{"text": "🙂 1916. Né là. † 2001","thoughtSignature": "c2ln"}`, all)}, "Né |🙂 1916. Né là. † 2001|" + cites + "|" + finds + "|!@4,0:text:c2ln", 2},
		{"calls after the text", []string{grounded(text, ""), grounded(function, ""), grounded("", all)}, said + "|" + cites + "|" + finds + "|#f", 2},
		{"thoughts around the text", []string{grounded(`{"text": "Hm.","thought": true}`, ""), grounded(text, ""), grounded(`{"text": "Ah.","thought": true},{"text": " Oh.","thought": true}`, all)}, "~Hm.|" + said + "|" + cites + "|" + finds + "|~Ah.|~ Oh.", 2},
		{"parts of the API's own", []string{grounded(call+","+response, ""), grounded(text, ""), grounded(function, pages)}, "!part:" + compact(call) + "|!part:" + compact(response) + "|" + said + "|?" + first + " x|=" + first + "|?" + second + " y|=" + second + " A B|#f", 2},
		{"within the text", []string{grounded(`{"text": "Né "}`, ""), grounded(function+","+call, ""), grounded(`{"text": "🙂 1916. Né là. † 2001"}`, all)}, "Né |🙂 1916. Né là. † 2001|" + cites + "|" + finds + "|#f|!@4,1:part:" + compact(call), 2},
		{"the API's own after the text", []string{grounded(`{"text": "Né "}`, ""), grounded(call, pages)}, "Né |?" + first + " x|=" + first + "|?" + second + " y|=" + second + " A B|!@4,0:part:" + compact(call), 2},
		{"a thought right before the API's own", []string{grounded(`{"text": "Hm.","thought": true},`+call, ""), grounded(`{"text": "a"}`, pages)}, "~Hm.|!part:" + compact(call) + "|a|?" + first + " x|=" + first + "|?" + second + " y|=" + second + " A B", 2},
		{"no queries", []string{grounded(text, pages)}, said + "|?" + first + " |=" + first + " A B", 0},
		{"no search", []string{grounded(text, suggestions)}, said, 0},
		{"pages that there are not", []string{grounded(text, pages+`,"groundingSupports": [{"segment": {"startIndex": -7,"endIndex": 4},"groundingChunkIndices": [-1,1,3,2]},{"groundingChunkIndices": [0]},{"segment": {"startIndex": 5,"endIndex": 999,"text": "nowhere"},"groundingChunkIndices": [0]},{"segment": {"startIndex": 2,"endIndex": 5,"text": "Né"},"groundingChunkIndices": [0]}]`)},
			said + "|[0-3 f.org]|[0-0 e.org]|[3-24 e.org]|[11-13 e.org]|?" + first + " |=" + first + " A B", 0},
	} {
		for _, stream := range []bool{true, false} {
			reply := pt.SSE()
			for _, c := range test.chunks {
				reply.Body = append(reply.Body, event(c))
			}
			if !stream {
				reply = pt.JSON(200, "["+strings.Join(test.chunks, ",")+"]")
			}
			s, err := client(t, pt.NewUpstream(t).Then(reply).URL).Invoke(t.Context(), &providers.Request{Model: "gemini-3-pro", Stream: stream, Messages: hello, Parameters: asks(providers.WebSearch{})})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			var found []providers.Found
			for {
				d, err := s.Next()
				if err != nil {
					break
				}
				if d.Found != nil {
					found = append(found, *d.Found)
				}
				if word := piece(d); word != "" {
					got = append(got, word)
				}
			}
			result := s.Result()
			_ = s.Close()
			if diff := cmp.Diff(strings.Split(test.want, "|"), got); diff != "" || result.FinishReason == "" {
				t.Errorf("%s, stream=%v: %s (-want +got):\n%s", test.name, stream, result.FinishReason, diff)
			}
			if result.Usage.WebSearches != test.searches || len(found) != len(result.Found) {
				t.Errorf("%s, stream=%v: %d searches, %d of %d found", test.name, stream, result.Usage.WebSearches, len(result.Found), len(found))
			}
			if i := slices.IndexFunc(found, func(f providers.Found) bool { return f.Kind == providers.FoundCitation }); i >= 0 && found[i].Before != len(said) {
				t.Errorf("%s: a citation is after %d bytes", test.name, found[i].Before)
			}
		}
	}
	many := grounded(`{"text": "a"}`, pages+`,"groundingSupports": [{"segment": {"endIndex": 1},"groundingChunkIndices": [0`+strings.Repeat(",0", 1000)+`]}]`)
	if o, err := client(t, pt.NewUpstream(t).Then(pt.JSON(200, many)).URL).Invoke(t.Context(), &providers.Request{Model: "gemini-3-pro", Messages: hello, Parameters: asks(providers.WebSearch{})}); err != nil {
		t.Error(err)
	} else {
		if r := pt.Read(o).Result; len(r.Found) != 1000+2 {
			t.Errorf("%d of 1,001 citations", len(r.Found)-2)
		}
		_ = o.Close()
	}
	// What is held has a bound.
	held := pt.SSE(event(grounded(text, "")))
	for range 9 {
		held.Body = append(held.Body, event(grounded(`{"thought": true,"text": "`+strings.Repeat("a", 2<<20-1000)+`"}`, "")))
	}
	s, err := client(t, pt.NewUpstream(t).Then(held).URL).Invoke(t.Context(), &providers.Request{Model: "gemini-3-pro", Stream: true, Messages: hello, Parameters: asks(providers.WebSearch{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for err == nil {
		_, err = s.Next()
	}
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Invalid {
		t.Errorf("18 MiB of thoughts after a text: %v", err)
	}
	// Without a search of the caller's, nothing of one is part of the answer.
	if o := subject.Receive(t, pt.JSON(200, grounded(text, all)), false); len(o.Result.Found) != 0 || o.Result.Usage.WebSearches != 2 {
		t.Errorf("%+v", o.Result)
	}
}

// TestPartsOfTheAPIsOwn checks that what the API showed of a search goes back where it was,
// beside functions alone.
func TestPartsOfTheAPIsOwn(t *testing.T) {
	message := providers.Message{Role: "assistant", Parts: []providers.Part{
		{Kind: providers.PartThinking, Opaque: `part:{"toolCall":{"id":"h"}}`}, {Kind: providers.PartThinking, Opaque: `@2,0:part:{"toolResponse":{"id":"h"}}`},
		{Kind: providers.PartText, Text: "abcd"},
	}}
	functions := func(p *providers.Parameters) { p.Tools = []providers.Tool{{Name: "f"}} }
	for _, test := range []struct {
		p    providers.Parameters
		want string
	}{
		{asks(providers.WebSearch{}, functions), `[{"toolCall":{"id":"h"}},{"text":"ab"},{"toolResponse":{"id":"h"}},{"text":"cd"}]`},
		{asks(providers.WebSearch{}), `[{"text":"ab"},{"text":"cd"}]`},
		{providers.Parameters{Tools: []providers.Tool{{Name: "f"}}}, `[{"text":"ab"},{"text":"cd"}]`},
	} {
		r := sent(t, &providers.Request{Model: "gemini-3-pro", Messages: []providers.Message{hello[0], message, hello[0]}, Parameters: test.p})
		if !strings.Contains(r.Body, `{"role":"model","parts":`+test.want+`}`) {
			t.Errorf("the body is %s", r.Body)
		}
	}
}

// FuzzSearch feeds the reader of answers to searches with anything: citations are of the
// answer's text, and each search has its results.
func FuzzSearch(f *testing.F) {
	all := strings.Join([]string{suggestions, asked, pages, rests}, ",")
	for _, seed := range []string{
		event(grounded(`{"text": `+quote(said)+`,"thoughtSignature": "c2ln"}`, "")) + event(grounded(`{"functionCall": {"name": "f"}},{"toolCall": {"args": {"queries": ["x"]}}}`, all)),
		grounded(`{"text": "\ud83d"},{"thought": true,"text": "a"},{"text": "\ude42"}`, all), event(grounded(`{"text": "\ud83d"}`, all)) + event(grounded(`{"text": "b"}`, rests)),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := subject.Open(io.NopCloser(bytes.NewReader(body))).(*stream)
		defer s.Close()
		s.search.on = true
		var content strings.Builder
		var err error
		open, end := "", 0
		for err == nil {
			var d providers.Delta
			d, err = s.Next()
			content.WriteString(d.Content)
			if d.Found == nil {
				continue
			}
			switch f := d.Found; f.Kind {
			case providers.FoundCitation:
				if end = max(end, f.To); f.From < 0 || f.From > f.To || f.Sources[0].URL == "" {
					t.Errorf("a citation %+v", f)
				}
			case providers.FoundCall:
				open = f.ID
			default:
				if f.ID != open {
					t.Errorf("results of %q, not of %q", f.ID, open)
				}
			}
		}
		if err == io.EOF && end > utf8.RuneCountInString(content.String()) {
			t.Errorf("the character %d of %q is cited", end, content.String())
		}
	})
}
