package providertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// Embedding is the wire format of a provider that makes vectors over HTTP.
type Embedding struct {
	// Model is the model that is asked.
	Model string
	// Connect makes a provider that calls base, the URL of an Upstream.
	Connect func(t testing.TB, base string) providers.Embedder
	// Texts returns the texts of a request's body: see TextsAt.
	Texts func(body string) []string
	// Answer returns the answer with these vectors, as JSON. Where an answer has one
	// vector only, it is the first, if there is one.
	Answer func(vectors []string) string
	// Failure returns the answer with a status, a code and a time to wait.
	Failure func(b Behaviour) Reply
}

// TextsAt returns the texts in a list of a JSON body, each at keys. If the body has no
// list of the name, there is one text, at keys of the body.
func TextsAt(body, list string, keys ...string) (texts []string) {
	v, err := fastjson.Parse(body)
	if err != nil {
		return nil
	}
	all := []*fastjson.Value{v}
	if v.Exists(list) {
		all = v.GetArray(list)
	}
	for _, item := range all {
		texts = append(texts, string(item.GetStringBytes(keys...)))
	}
	return texts
}

// vectorOf returns the vector of a text, as JSON. Its numbers and the white space
// between them are unusual, so it is seen whether they are parsed and printed on the way.
func vectorOf(text string) string {
	sum := 0
	for _, c := range []byte(text) {
		sum = (31*sum + int(c)) % 10_007
	}
	return fmt.Sprintf("[0.%d0, -1E-3 ,%d,\n 2.50e+2]", sum, sum)
}

func vectorsOf(texts []string) (vectors []string) {
	for _, text := range texts {
		vectors = append(vectors, vectorOf(text))
	}
	return vectors
}

// embedTexts has texts that are hard to write as JSON, and one of them twice.
var embedTexts = []string{"one", "zwei 🌍", `"three" \ <b> & \n`, "line\nfeed\u2028", "one", "[0.5]", "#0"}

func inputsOf(texts []string) (inputs []providers.EmbeddingInput) {
	for _, text := range texts {
		inputs = append(inputs, providers.EmbeddingInput{Text: text})
	}
	return inputs
}

// embedAll asks for the vectors of texts, in as many requests as the provider needs.
func embedAll(ctx context.Context, p providers.Embedder, model string, texts []string) (vectors []string, err error) {
	size := p.EmbeddingBatch(model).Inputs
	if size == 0 {
		size = len(texts)
	}
	for batch := range slices.Chunk(texts, size) {
		answer, err := p.Embed(ctx, &providers.EmbeddingRequest{Model: model, Inputs: inputsOf(batch)})
		if err != nil {
			return nil, err
		}
		if answer.Usage.TotalTokens != answer.Usage.PromptTokens || answer.Usage.CompletionTokens != 0 {
			return nil, fmt.Errorf("the usage of vectors is %+v", answer.Usage)
		}
		for _, v := range answer.Vectors {
			vectors = append(vectors, string(v))
		}
	}
	return vectors, nil
}

// RunEmbedder checks the contract between the gateway and a provider that makes vectors
// with a model.
func RunEmbedder(t *testing.T, p providers.Embedder, model string) {
	t.Run("Order", func(t *testing.T) {
		want, err := embedAll(t.Context(), p, model, embedTexts)
		if err != nil {
			t.Fatal(err)
		}
		if len(want) != len(embedTexts) {
			t.Fatalf("%d vectors of %d texts", len(want), len(embedTexts))
		}
		for i, text := range embedTexts {
			if same := slices.Index(want, want[i]); embedTexts[same] != text {
				t.Errorf("%q and %q have one vector", embedTexts[same], text)
			}
			if !json.Valid([]byte(want[i])) || want[i][0] != '[' && want[i][0] != '"' {
				t.Errorf("the vector %s is neither numbers nor base64", want[i])
			}
		}
		reversed := slices.Clone(embedTexts)
		slices.Reverse(reversed)
		got, err := embedAll(t.Context(), p, model, reversed)
		slices.Reverse(got)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("in another order the texts have other vectors (%v):\n%s", err, diff)
		}
	})
	t.Run("Tokens", func(t *testing.T) {
		req := &providers.EmbeddingRequest{Model: model, Inputs: []providers.EmbeddingInput{{Tokens: json.RawMessage(`[1,2]`), Count: 2}}}
		_, err := p.Embed(t.Context(), req)
		if e, ok := errors.AsType[*providers.Error](err); err != nil && (!ok || e.Lacks == "") {
			t.Errorf("error %v, want vectors, or one that says that it lacks them", err)
		}
	})
	t.Run("CancelBefore", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := embedAll(ctx, p, model, embedTexts); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	})
	t.Run("RequestUnchanged", func(t *testing.T) {
		make := func() *providers.EmbeddingRequest {
			return &providers.EmbeddingRequest{Model: model, Inputs: inputsOf(embedTexts[:1]), Dimensions: 256, Base64: true, User: "u", Extra: Extra("unknown", `[ 1 ]`)}
		}
		req := make()
		_, _ = p.Embed(t.Context(), req) // canned knows its own extra alone
		if diff := cmp.Diff(make(), req); diff != "" {
			t.Errorf("the provider changed the request (-before +after):\n%s", diff)
		}
	})
	t.Run("Concurrent", func(t *testing.T) {
		var wait sync.WaitGroup
		for i := range 16 {
			wait.Go(func() {
				texts := []string{fmt.Sprint("text ", i), "the same"}
				alone, err := embedAll(t.Context(), p, model, texts)
				again, err2 := embedAll(t.Context(), p, model, texts)
				if err := errors.Join(err, err2); err != nil || !slices.Equal(alone, again) {
					t.Errorf("%q: %q and %q, error %v", texts, alone, again, err)
				}
			})
		}
		wait.Wait()
	})
}

// RunEmbeddings checks RunEmbedder, and that the provider passes on what its upstream says.
func RunEmbeddings(t *testing.T, e Embedding) {
	answer := func(r Request) Reply { return JSON(http.StatusOK, e.Answer(vectorsOf(e.Texts(r.Body)))) }
	RunEmbedder(t, e.Connect(t, NewUpstream(t).Choose(answer).URL), e.Model)
	t.Run("Verbatim", func(t *testing.T) {
		got, err := embedAll(t.Context(), e.Connect(t, NewUpstream(t).Choose(answer).URL), e.Model, embedTexts)
		if diff := cmp.Diff(vectorsOf(embedTexts), got); err != nil || diff != "" {
			t.Errorf("error %v, vectors (-want +got):\n%s", err, diff)
		}
	})
	t.Run("InvalidAnswers", func(t *testing.T) { e.testInvalid(t) })
	t.Run("Memory", func(t *testing.T) { e.testMemory(t) })
	factory := func(t *testing.T, b Behaviour, _ *providers.Request) providers.Provider {
		up := NewUpstream(t).Play(b, func(r Request) Reply {
			if b.Status != 0 {
				return e.Failure(b)
			}
			return b.Whole(answer(r), Reply{})
		})
		return embedder{e.Connect(t, up.URL), e.Model}
	}
	t.Run("Status", func(t *testing.T) {
		testStatus(t, factory)
		for _, status := range []int{400, 401, 403, 500, 503} {
			_, err := factory(t, Behaviour{Status: status, Code: "a_code", RetryAfter: time.Second}, nil).Invoke(t.Context(), nil)
			if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Status || e.Status != status || e.Code != "a_code" {
				t.Errorf("%d: error %v", status, err)
			}
		}
	})
	t.Run("Truncated", func(t *testing.T) {
		_, err := factory(t, Behaviour{Fail: Stops}, nil).Invoke(t.Context(), nil)
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Truncated {
			t.Errorf("error %v", err)
		}
	})
	t.Run("NoUpstream", func(t *testing.T) {
		up := NewUpstream(t)
		up.Close()
		_, err := embedAll(t.Context(), e.Connect(t, up.URL), e.Model, embedTexts)
		if _, ok := errors.AsType[*providers.ConnectError](err); !ok {
			t.Errorf("error %v, want a *providers.ConnectError", err)
		}
	})
	t.Run("EndlessAnswers", func(t *testing.T) { testEndless(t, factory) })
	t.Run("CancelDuring", func(t *testing.T) {
		var cancel atomic.Pointer[context.CancelFunc]
		p := factory(t, Behaviour{Fail: Stalls, asked: func(Request) { (*cancel.Load())() }}, nil)
		before := runtime.NumGoroutine()
		for range 20 {
			ctx, stop := context.WithCancel(t.Context())
			cancel.Store(&stop)
			err := within(patience, func() error { _, err := p.Invoke(ctx, nil); return err })
			if stop(); err == nil || errors.Is(err, errLate) {
				t.Errorf("error %v", err)
			}
		}
		noneLeft(t, before)
	})
}

// testInvalid has an upstream whose answers of status 200 are none.
func (e *Embedding) testInvalid(t *testing.T) {
	one, large := vectorOf("one"), strings.Repeat(" ", 1<<20)
	whole := e.Answer([]string{one})
	bodies := map[string][]string{
		"nothing":           {""},
		"white space":       {" \n"},
		"null":              {"null"},
		"a number":          {"7"},
		"a text":            {`"vectors"`},
		"a list":            {"[]"},
		"an object":         {"{}"},
		"a page":            {"<html><body>Hello</body></html>"},
		"half of it":        {whole[:len(whole)/2]},
		"more behind it":    {whole + "x"},
		"no vector":         {e.Answer(nil)},
		"an empty vector":   {e.Answer([]string{"[]"})},
		"null as a vector":  {e.Answer([]string{"null"})},
		"an object as one":  {e.Answer([]string{"{}"})},
		"a text in it":      {e.Answer([]string{`[0.5,"a"]`})},
		"no number in it":   {e.Answer([]string{`[0.5,NaN]`})},
		"a list in it":      {e.Answer([]string{`[0.5,[1]]`})},
		"a number for it":   {e.Answer([]string{"0.5"})},
		"one too many":      {e.Answer([]string{one, one})},
		"too long":          append(slices.Repeat([]string{large}, 16), whole),
		"too many values":   {`{"a":[` + strings.Repeat("[],", 200_000) + "[]]}"},
		"too many vectors":  {e.Answer(slices.Repeat([]string{"[1]"}, 200_001))},
		"too deeply nested": {strings.Repeat("[", 100_000)},
	}
	if e.Answer([]string{one, one}) == whole { // it has one vector at most
		delete(bodies, "one too many")
		delete(bodies, "too many vectors")
	}
	for name, body := range bodies {
		p := e.Connect(t, NewUpstream(t).Always(Reply{Body: body}).URL)
		answer, err := p.Embed(t.Context(), &providers.EmbeddingRequest{Model: e.Model, Inputs: inputsOf(embedTexts[:1])})
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Invalid || e.Provider == "" {
			t.Errorf("%s: %+v, error %v; want an invalid answer", name, answer, err)
		}
	}
	p := e.Connect(t, NewUpstream(t).Always(JSON(http.StatusOK, whole)).URL)
	if p.EmbeddingBatch(e.Model).Inputs == 1 {
		return
	}
	_, err := p.Embed(t.Context(), &providers.EmbeddingRequest{Model: e.Model, Inputs: inputsOf(embedTexts[:2])})
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Invalid {
		t.Errorf("one vector of two: error %v", err)
	}
}

// testMemory reads a large answer while there is no memory for it, and again when there is.
func (e *Embedding) testMemory(t *testing.T) {
	large := "[" + strings.Repeat("0.125,", 200_000) + "1]"
	p := e.Connect(t, NewUpstream(t).Always(JSON(http.StatusOK, e.Answer([]string{large}))).URL)
	release := TakeMemory(t)
	if _, err := embedAll(t.Context(), p, e.Model, embedTexts[:1]); !errors.Is(err, providers.ErrNoRoom) {
		t.Errorf("without memory: error %v, want one that wraps providers.ErrNoRoom", err)
	}
	release()
	got, err := embedAll(t.Context(), p, e.Model, embedTexts[:1])
	if err != nil || got[0] != large {
		t.Errorf("with memory: %d vectors, error %v", len(got), err)
	}
	if n := providers.HeldBytes(); n != 0 {
		t.Errorf("the closed answers hold %d bytes", n)
	}
}

// embedder is a provider for the tests of calls that fail: an answer is one vector.
type embedder struct {
	providers.Embedder
	model string
}

func (e embedder) Invoke(ctx context.Context, _ *providers.Request) (providers.Stream, error) {
	_, err := embedAll(ctx, e.Embedder, e.model, embedTexts[:1])
	return ended{}, err
}

// ended is a stream without content.
type ended struct{}

func (ended) Next() (providers.Delta, error) { return providers.Delta{}, io.EOF }
func (ended) Result() providers.Result       { return providers.Result{} }
func (ended) Close() error                   { return nil }
