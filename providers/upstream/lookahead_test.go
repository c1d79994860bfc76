package upstream

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
)

// step is one step of a script.
type step struct {
	delta  providers.Delta
	err    error
	waits  bool // the step before it does not bring it along
	forbid bool // it must not be read
}

type script struct {
	t     *testing.T
	steps []step
}

func (s *script) Step() (providers.Delta, error) {
	next := s.steps[0]
	s.steps = s.steps[1:]
	if next.forbid {
		s.t.Error("read on after the end")
	}
	return next.delta, next.err
}

func (s *script) Ready() bool { return len(s.steps) > 0 && !s.steps[0].waits }

func TestLookahead(t *testing.T) {
	say := func(text string) step { return step{delta: providers.Delta{Content: text}} }
	later := func(s step) step { s.waits = true; return s }
	end, sign := step{err: io.EOF}, step{}
	broken := step{err: io.ErrUnexpectedEOF}
	think := func(text string) step { return step{delta: providers.Delta{Thinking: text}} }
	thought := step{delta: providers.Delta{Thought: &providers.Thought{Opaque: "o"}}}
	const first, second = "\xed\xa0\xbd", "\xed\xb8\x80"
	for _, test := range []struct {
		name  string
		steps []step
		want  []providers.Delta
		err   error
	}{
		{"all at once", []step{say("a"), say("b"), end}, []providers.Delta{{Content: "a", More: true}, {Content: "b", More: true}}, io.EOF},
		{"one by one", []step{say("a"), later(say("b")), later(end)}, []providers.Delta{{Content: "a"}, {Content: "b"}}, io.EOF},
		{"signs of life are left out where more is there", []step{sign, sign, say("a"), sign, later(sign), later(end)},
			[]providers.Delta{{More: true}, {Content: "a"}, {}}, io.EOF},
		{"thoughts", []step{think("a"), sign, think("b"), thought, say("c"), end},
			[]providers.Delta{{Thinking: "a", More: true}, {Thinking: "b", More: true}, {Thought: &providers.Thought{Text: "ab", Opaque: "o"}, More: true}, {Content: "c", More: true}}, io.EOF},
		{"characters split in thoughts", []step{think("a" + first), think(second + first), say(second), think(first), end},
			[]providers.Delta{{Thinking: "a", More: true}, {Thinking: "😀", More: true}, {Thinking: "\ufffd", More: true}, {Content: "\ufffd", More: true}, {Thinking: "\ufffd", More: true}}, io.EOF},
		{"log probabilities of half a character", []step{sign, {delta: providers.Delta{Content: first, Logprobs: []byte("[1]")}}, say(second), end},
			[]providers.Delta{{More: true}, {Logprobs: []byte("[1]"), More: true}, {Content: "😀", More: true}}, io.EOF},
		{"all behind a refusal", []step{say("a"), {delta: providers.Delta{Content: "b", Refusal: true}}, say("c"), {delta: providers.Delta{Content: first, Refusal: true}}, end},
			[]providers.Delta{{Content: "a", More: true}, {Content: "b", Refusal: true, More: true}, {Content: "c", Refusal: true, More: true}, {Content: "\ufffd", Refusal: true, More: true}}, io.EOF},
		{"content before an error", []step{say("a"), broken, {forbid: true}}, []providers.Delta{{Content: "a", More: true}}, io.ErrUnexpectedEOF},
	} {
		var l Lookahead
		s := &script{t, test.steps}
		var got []providers.Delta
		for {
			d, err := l.Next(s)
			if err == nil {
				got = append(got, d)
				continue
			}
			if _, again := l.Next(s); !errors.Is(err, test.err) || !errors.Is(again, test.err) || !errors.Is(l.Err(), test.err) {
				t.Errorf("%s: error %v, then %v", test.name, err, again)
			}
			break
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if !l.Close() || l.Close() {
			t.Errorf("%s: closed twice, or never", test.name)
		}
	}
	var l Lookahead
	l.Close()
	if _, err := l.Next(&script{t: t}); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after Close: %v", err)
	}
}

// several says several things in a step, as whole answers do.
type several struct{ l *Lookahead }

func (several) Ready() bool { return false }

func (s several) Step() (providers.Delta, error) {
	s.l.Say(providers.Delta{Thinking: "a", Thought: &providers.Thought{Opaque: "o"}})
	s.l.Calls.Next([]byte("1"), []byte("f"))
	s.l.Say(providers.Delta{Thinking: "b"})
	s.l.Calls.Next([]byte("2"), []byte("g"))
	if _, err := s.l.Calls.Finish(); err != nil {
		return providers.Delta{}, err
	}
	s.l.Last()
	return providers.Delta{Content: "c"}, nil
}

func TestAStepThatSaysSeveralThings(t *testing.T) {
	var l Lookahead
	var got []providers.Delta
	for {
		d, err := l.Next(several{&l})
		if err != nil {
			break
		}
		got = append(got, d)
	}
	want := []providers.Delta{
		{Thinking: "a", Thought: &providers.Thought{Text: "a", Opaque: "o"}, More: true},
		{Calls: []providers.CallPiece{{ID: "1", Name: "f"}}, More: true},
		{Thinking: "b", More: true},
		{Content: "c", Calls: []providers.CallPiece{{Arguments: "{}"}, {Index: 1, ID: "2", Name: "g", Arguments: "{}"}}, More: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]providers.Thought{{Text: "a", Opaque: "o"}, {Text: "b"}}, l.Thoughts()); diff != "" {
		t.Errorf("thoughts (-want +got):\n%s", diff)
	}
}

func TestThoughtLimits(t *testing.T) {
	var l Lookahead
	add := func(size int) { l.Say(providers.Delta{Thinking: strings.Repeat("x", size)}) }
	l.Say(providers.Delta{Thought: &providers.Thought{Opaque: "o"}})
	for range 15 {
		add(MaxBody / 16)
	}
	if got := l.Thoughts(); len(got) != 2 || len(got[1].Text) != MaxBody/16*15 {
		t.Fatalf("%d thoughts", len(got))
	}
	add(MaxBody / 16)
	add(1)
	if got := l.Thoughts(); got != nil {
		t.Errorf("%d thoughts of more than the limit are kept", len(got))
	}
}

// closer counts its closings.
type closer struct {
	io.Reader
	closed int
}

func (c *closer) Close() error { c.closed++; return nil }

func TestBody(t *testing.T) {
	for _, test := range []struct {
		body string
		want Format
		head string
	}{
		{"data: x\n\n", FormatEvents, "data: x\n\n"},
		{" \r\n\t{\"a\":1}", FormatJSON, " \r\n\t{\"a\":1}"},
		{"\xef\xbb\xbf[1]", FormatJSON, "\xef\xbb\xbf[1]"},
		{"\"text\"", FormatJSON, "\"text\""},
		{"\n<html>", FormatHTML, "<html>"},
	} {
		format, head, err := NewEventReader(strings.NewReader(test.body), MaxEvent).Format()
		if err != nil || format != test.want || string(head) != test.head {
			t.Errorf("%q: %v, %q, %v", test.body, format, head, err)
		}
	}
	if _, _, err := NewEventReader(strings.NewReader(" \n"), MaxEvent).Format(); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v", err)
	}

	r := &closer{Reader: strings.NewReader(`"b":2}`)}
	b := NewBody(r)
	whole, err := b.Whole([]byte("\xef\xbb\xbf{\"a\":1,"))
	if err != nil || string(whole) != `{"a":1,"b":2}` {
		t.Errorf("whole %q, %v", whole, err)
	}
	v, err := b.Parse(whole)
	if err != nil || v.GetInt("b") != 2 {
		t.Errorf("%v, %v", v, err)
	}
	first := b.String([]byte("first"))
	long := b.String([]byte(strings.Repeat("x", 2*textBlock)))
	if first != "first" || len(long) != 2*textBlock {
		t.Errorf("texts %q, %d", first, len(long))
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if r.closed != 2 {
		t.Errorf("closed %d times", r.closed)
	}
	large := NewBody(&closer{Reader: strings.NewReader(strings.Repeat("x", MaxBody))})
	if _, err := large.Whole([]byte("x")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	if _, err := large.Whole(nil); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]int64{
		"7": 7, "7.0": 7, "0": 0, "-1": 0, "1e3": 1000, "1e300": 0, "9007199254740992": 1 << 53, "9007199254740994": 0, `"7"`: 0, "null": 0, "[]": 0,
	} {
		if got := Tokens(fastjson.MustParse(text)); got != want {
			t.Errorf("%s: %d", text, got)
		}
	}
	if got := Tokens(nil); got != 0 {
		t.Error(got)
	}
}
