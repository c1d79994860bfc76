package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

// answer asks an upstream that sends text in pieces, and returns its body.
func answer(t *testing.T, ctx context.Context, text string) io.ReadCloser {
	t.Helper()
	var pieces []string
	for len(text) > 100_000 {
		pieces, text = append(pieces, text[:100_000]), text[100_000:]
	}
	up := providertest.NewUpstream(t).Always(providertest.Reply{Status: 200, Body: append(pieces, text)})
	c := newClient(t, up.URL)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, up.URL, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// readers are the ways to read an answer. Each reads all of it.
var readers = map[string]struct {
	text func(size int) string
	read func(io.ReadCloser) error
}{
	"whole": {
		func(size int) string { return strings.Repeat("x", size) },
		func(body io.ReadCloser) error { b := NewBody(body); _, err := b.Whole(nil); return err },
	},
	"line":    {func(size int) string { return "data: " + strings.Repeat("x", size) + "\n\n" }, readEvents},
	"comment": {func(size int) string { return ": " + strings.Repeat("x", size) + "\n\ndata: x\n\n" }, readEvents},
	"event": {func(size int) string {
		return strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", size/1000) + "\n"
	}, readEvents},
	"name": {func(size int) string { return "event: " + strings.Repeat("x", size) + "\ndata: x\n\n" }, readEvents},
	"values": {
		func(size int) string { return "[" + strings.Repeat("0,", size/200) + "0]" },
		func(body io.ReadCloser) error {
			b := NewBody(body)
			text, err := io.ReadAll(body)
			if err == nil {
				_, err = b.Parse(text)
			}
			return err
		},
	},
}

func readEvents(body io.ReadCloser) error {
	events := NewEventReader(body, MaxEvent)
	for {
		if _, err := events.Next(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func checkHeld(t *testing.T, want bool) {
	t.Helper()
	if n := providers.HeldBytes(); n > 0 != want {
		t.Errorf("%d bytes are held", n)
	}
}

func TestLargeAnswersAreHeld(t *testing.T) {
	for name, test := range readers {
		t.Run(name, func(t *testing.T) {
			body := answer(t, t.Context(), test.text(1<<20))
			if err := test.read(body); err != nil {
				t.Fatal(err)
			}
			checkHeld(t, true)
			body.Close()
			checkHeld(t, false)

			small := answer(t, t.Context(), test.text(10_000))
			large := answer(t, t.Context(), test.text(1<<20))
			release := providertest.TakeMemory(t)
			if err := test.read(small); err != nil {
				t.Errorf("a small answer without memory: %v", err)
			}
			if err := test.read(large); !errors.Is(err, providers.ErrNoRoom) {
				t.Errorf("a large answer without memory: %v", err)
			}
			release()
			small.Close()
			large.Close()
			checkHeld(t, false)
		})
	}
}

// TestNothingIsHeldAfterTheEnd ends the reading of answers in all ways there
// are, at any time.
func TestNothingIsHeldAfterTheEnd(t *testing.T) {
	random := gatewaytest.Random(t)
	var wait sync.WaitGroup
	for name, test := range readers {
		for range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			body := answer(t, ctx, test.text(1<<20))
			after := random.IntN(1 << 20)
			way := random.IntN(4)
			wait.Go(func() {
				defer cancel()
				defer body.Close()
				defer func() { _ = recover() }()
				_ = test.read(struct {
					io.Reader
					io.Closer
					holder
				}{io.MultiReader(io.LimitReader(body, int64(after)), at(func() {
					switch way {
					case 0:
						cancel()
					case 1:
						body.Close()
					case 2:
						wait.Go(func() { body.Close() })
					default:
						panic(name)
					}
				}), body), body, body.(holder)})
			})
		}
	}
	wait.Wait()
	checkHeld(t, false)
}

type holder interface{ Hold(bytes int) error }

// at is a reader that does something when it is come to.
type at func()

func (f at) Read([]byte) (int, error) { f(); return 0, io.EOF }

func TestWholeHoldsTwiceTheBody(t *testing.T) {
	for _, size := range []int{0, 1, firstPiece - 1, firstPiece, firstPiece + 1, 100_000, largestPiece, 3*largestPiece + 1, MaxBody} {
		text := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
		var h peak
		h.Reader = bytes.NewReader(text)
		if size < 1<<20 {
			h.Reader = iotest.HalfReader(h.Reader)
		}
		got, err := readWhole(make([]byte, 0, firstPiece), &h)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d, %v", size, len(got), err)
		}
		if most := 2*size + largestPiece; h.most > most || cap(got) > size+firstPiece+size/8 {
			t.Errorf("%d bytes: held %d at most, %d at the end", size, h.most, cap(got))
		}
		if size > firstPiece && h.now != size {
			t.Errorf("%d bytes: %d are counted at the end", size, h.now)
		}
	}
}

// peak remembers how much was held.
type peak struct {
	io.Reader
	now, most int
}

func (p *peak) Hold(bytes int) error {
	p.now += bytes
	p.most = max(p.most, p.now)
	return nil
}

func TestValuesAreBounded(t *testing.T) {
	list := func(values int) string { return "[" + strings.Repeat("0,", values-2) + "0]" }
	for _, test := range []struct {
		text string
		want error
	}{
		{list(maxValues), nil},
		{list(maxValues + 1), ErrTooLarge},
		{`["` + strings.Repeat(`,[{\"`, maxValues) + `\\",0]`, nil},
		{`{"a":"\\","b":` + list(maxValues) + `}`, ErrTooLarge},
		{`[` + strings.Repeat(`{"":0},`, maxValues/2) + `0]`, ErrTooLarge},
	} {
		b := NewBody(io.NopCloser(strings.NewReader(test.text)))
		_, err := b.Whole(nil)
		if !errors.Is(err, test.want) {
			t.Errorf("whole %.20s: %v, want %v", test.text, err, test.want)
		}
		_, err = b.Parse([]byte(test.text))
		if !errors.Is(err, test.want) {
			t.Errorf("parsed %.20s: %v, want %v", test.text, err, test.want)
		}
		b.Close()
	}
}

func TestValuesAreNeverCountedTooLow(t *testing.T) {
	for _, text := range []string{"0", "[]", "{}", `[{},[],""]`, `{"a":1,"b":[{"c":"\"]"},"\\"]}`, `["\\\"",1,{"\\":2}]`} {
		if n, want := valuesOf([]byte(text)), countValues(text); n < want {
			t.Errorf("%s: %d, has %d", text, n, want)
		}
	}
}

func countValues(text string) int {
	b := NewBody(io.NopCloser(strings.NewReader("")))
	defer b.Close()
	v, err := b.Parse([]byte(text))
	if err != nil {
		panic(fmt.Sprint(text, err))
	}
	return countOf(v)
}

func countOf(v *fastjson.Value) int {
	n := 1
	for _, item := range v.GetArray() {
		n += countOf(item)
	}
	v.GetObject().Visit(func(_ []byte, member *fastjson.Value) { n += countOf(member) })
	return n
}

func BenchmarkWhole(b *testing.B) {
	for _, size := range []int{1000, 10_000, 100_000, 1 << 20} {
		text := []byte(`{"a":"` + strings.Repeat("x", size-8) + `"}`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body := NewBody(io.NopCloser(bytes.NewReader(text)))
				whole, err := body.Whole(nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := body.Parse(whole); err != nil {
					b.Fatal(err)
				}
				body.Close()
			}
		})
	}
}
