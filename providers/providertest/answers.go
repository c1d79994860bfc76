package providertest

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// play reads the answer of a provider with a behaviour. It reports whether the
// provider supports the behaviour.
func play(t *testing.T, factory Factory, b Behaviour, stream bool) (Outcome, bool) {
	t.Helper()
	req := request(stream)
	p := factory(t, b, req)
	if p == nil {
		return Outcome{}, false
	}
	return outcome(t, p, req), true
}

func testFinish(t *testing.T, factory Factory) {
	text := strings.Join(words, "")
	for _, stream := range []bool{false, true} {
		for _, reason := range []providers.FinishReason{providers.FinishStop, providers.FinishLength, providers.FinishContentFilter} {
			o, ok := play(t, factory, Behaviour{Words: words, Finish: reason}, stream)
			if ok && (o.Err != nil || o.Text != text || o.Result.FinishReason != reason) {
				t.Errorf("stream=%v, %s: finish reason %q after %q, error %v", stream, reason, o.Result.FinishReason, o.Text, o.Err)
			}
		}
		for _, said := range [][]string{nil, words} {
			o, ok := play(t, factory, Behaviour{Words: said, Finish: UnknownReason}, stream)
			e, failed := errors.AsType[*providers.Error](o.Err)
			if ok && (!failed || e.Kind != providers.Invalid && e.Kind != providers.Reported || o.Result.FinishReason != "") {
				t.Errorf("stream=%v, an unknown reason after %q: %v, finish reason %q; want a failure", stream, said, o.Err, o.Result.FinishReason)
			}
		}
		o, ok := play(t, factory, Behaviour{Finish: providers.FinishContentFilter}, stream)
		if e, failed := errors.AsType[*providers.Error](o.Err); ok && (!failed || e.Kind != providers.Refused) {
			t.Errorf("stream=%v, content_filter without a word: %v, want a refusal", stream, o.Err)
		}
	}
}

// The halves of 😀, in the form for Quote.
const (
	firstHalf  = "\xed\xa0\xbd"
	secondHalf = "\xed\xb8\x80"
)

func testSplit(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		for _, test := range []struct {
			words []string
			want  string
		}{
			{[]string{"a" + firstHalf, secondHalf + "b"}, "a😀b"},
			{[]string{firstHalf, secondHalf + firstHalf, secondHalf}, "😀😀"},
			{[]string{"a" + firstHalf, "b", secondHalf}, "a\ufffdb\ufffd"},
			{[]string{"a", firstHalf}, "a\ufffd"},
		} {
			o, ok := play(t, factory, Behaviour{Words: test.words}, stream)
			if ok && (o.Err != nil || o.Text != test.want) {
				t.Errorf("stream=%v: %q is read as %q, %v", stream, test.words, o.Text, o.Err)
			}
			for _, piece := range o.Pieces {
				if !utf8.ValidString(piece) {
					t.Errorf("stream=%v: the piece %q is no text", stream, piece)
				}
			}
		}
	}
}

// testKey replaces the file of a key while the provider is in use.
func testKey(t *testing.T, factory Factory) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("key-one\n")
	refresh := secret.Refresh
	secret.Refresh = 0
	defer func() { secret.Refresh = refresh }()

	var mu sync.Mutex
	var sent http.Header
	req := request(false)
	p := factory(t, Behaviour{Words: words, Key: secret.Reference("{file." + file + "}"), asked: func(r Request) {
		mu.Lock()
		defer mu.Unlock()
		sent = r.Header
	}}, req)
	if p == nil {
		return
	}
	for _, step := range []struct {
		name, want string
		change     func()
	}{
		{"the first key", "key-one", func() {}},
		{"another key", "key-two", func() { write("key-two") }},
		{"an empty file", "key-two", func() { write(" \n") }},
		{"what no header carries", "key-two", func() { write("schlüssel") }},
		{"no file", "key-two", func() { os.Remove(file) }},
		{"a file again", "key-three", func() { write("key-three\n") }},
	} {
		step.change()
		if err := providers.Availability(p); err != nil {
			t.Errorf("%s: unavailable: %v", step.name, err)
		}
		if o := Read(invoke(t, p, req)); o.Err != nil {
			t.Errorf("%s: %v", step.name, o.Err)
		}
		mu.Lock()
		found := false
		for _, values := range sent {
			found = found || strings.Contains(strings.Join(values, " "), step.want)
		}
		if !found {
			t.Errorf("%s: %s was not sent, but %v", step.name, step.want, sent)
		}
		sent = nil
		mu.Unlock()
	}
}
