package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// all reads every event, as "name|data".
func all(r io.Reader, limit int) ([]string, error) {
	events := NewEventReader(r, limit)
	var got []string
	for {
		e, err := events.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, string(e.Name)+"|"+string(e.Data))
	}
}

func TestEventReader(t *testing.T) {
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []string{"|a"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"mixed line ends", "data: a\r\n\ndata: b\n\r\ndata: c\r\n\r", []string{"|a", "|b", "|c"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"|a"}},
		{"byte order mark later is text", "data: \xef\xbb\xbfa\n\n", []string{"|\xef\xbb\xbfa"}},
		{"comments", ": hi\n\n:\n\ndata: a\n: in between\ndata: b\n\n", []string{"|a\nb"}},
		{"multi-line", "data: a\ndata:\ndata:  b\n\n", []string{"|a\n\n b"}},
		{"no space", "data:a\n\n", []string{"|a"}},
		{"no colon", "data\n\n", []string{"|"}},
		{"name", "event: error\ndata: a\n\ndata: b\n\n", []string{"error|a", "|b"}},
		{"name without data", "event: ping\n\ndata: b\n\n", []string{"|b"}},
		{"id, retry and unknown fields", "id: 1\nretry: 5\nfoo: bar\ndatax: no\ndata: a\n\n", []string{"|a"}},
		{"no blank line at the end", "data: a\n\ndata: [DONE]\n", []string{"|a", "|[DONE]"}},
		{"no line end at the end", "data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"byte order mark and no line end", "\xef\xbb\xbfdata: a", []string{"|a"}},
		{"half a byte order mark", "\xef\xbb", nil},
		{"split UTF-8", "data: wörld 🌍\n\n", []string{"|wörld 🌍"}},
		{"blank lines", "\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		{"large", "data: " + strings.Repeat("x", 1<<20) + "\n\n", []string{"|" + strings.Repeat("x", 1<<20)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			readers := map[string]io.Reader{
				"whole":      strings.NewReader(test.input),
				"data error": iotest.DataErrReader(strings.NewReader(test.input)),
			}
			if len(test.input) < 1<<16 {
				readers["bytes"] = iotest.OneByteReader(strings.NewReader(test.input))
			}
			for name, r := range readers {
				got, err := all(r, MaxEvent)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
		})
	}
}

func TestEventReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name  string
		r     io.Reader
		limit int
		want  []string
		err   error
	}{
		{"read error drops what is unfinished", io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100, []string{"|a"}, broken},
		{"long line", strings.NewReader("data: " + strings.Repeat("x", 200) + "\n\n"), 100, nil, ErrTooLarge},
		{"long comment", strings.NewReader("data: a\n\n:" + strings.Repeat("x", 200) + "\n\n"), 100, []string{"|a"}, ErrTooLarge},
		{"many lines", strings.NewReader(strings.Repeat("data: xxxxxxxxx\n", 50) + "\n"), 100, nil, ErrTooLarge},
		{"no end of nothing", iotest.ErrReader(io.ErrUnexpectedEOF), 100, nil, io.ErrUnexpectedEOF},
		{"no progress", stuck{}, 100, nil, io.ErrNoProgress},
	} {
		t.Run(test.name, func(t *testing.T) {
			events := NewEventReader(test.r, test.limit)
			var got []string
			for {
				e, err := events.Next()
				if err == nil {
					got = append(got, "|"+string(e.Data))
					continue
				}
				if !errors.Is(err, test.err) {
					t.Errorf("error %v, want %v", err, test.err)
				}
				if _, again := events.Next(); !errors.Is(again, test.err) {
					t.Errorf("then %v, want the same again", again)
				}
				break
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// limited fails the test when it is read while it must not be.
type limited struct {
	t      *testing.T
	r      io.Reader
	closed bool
}

func (l *limited) Read(p []byte) (int, error) {
	if l.closed {
		l.t.Error("read although an event was buffered")
	}
	return l.r.Read(p)
}

func TestBuffered(t *testing.T) {
	const first = "data: 1\n\n"
	for _, test := range []struct {
		rest string
		want bool
	}{
		{"", false},
		{"data: 2", false},
		{"data: 2\n", false},
		{"data: 2\n\n", true},
		{"data: 2\r\n\r\n", true},
		{"data: 2\r\r", true},
		{": comment\n\n", false},
		{": comment\n\ndata: 2\n\n", true},
		{"event: ping\n\n", false},
		{"event: ping\n\ndata: 2\n", false},
		{"\n\n\n", false},
		{"data\n\n", true},
		{"id: 1\ndata: 2\n\nda", true},
	} {
		l := &limited{t: t, r: io.MultiReader(strings.NewReader(first+test.rest), blocked{})}
		events := NewEventReader(l, 1000)
		if _, err := events.Next(); err != nil {
			t.Fatal(err)
		}
		if got := events.Buffered(); got != test.want {
			t.Errorf("%q: %v, want %v", test.rest, got, test.want)
		}
		if test.want {
			l.closed = true
			if _, err := events.Next(); err != nil {
				t.Errorf("%q: %v", test.rest, err)
			}
		}
	}
}

// blocked is a connection on which nothing arrives.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { return 0, errors.New("a read that would wait") }

// FuzzEventReader compares reading in random pieces with reading at once, and
// with a plain reading of the standard.
func FuzzEventReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "data: a\r\n\r\ndata: b\r\rdata: c\n\n", "\xef\xbb\xbf: c\n\nevent: e\ndata: x\ndata: y\n\n",
		"data", "data:\r", "\r\n\r\n", "event: error\ndata: {}\n\n", "data: \xff\xfe\n\n", "data: a\n\ndata: [DONE]",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, input []byte, seed uint64) {
		const limit = 1 << 12
		want, wantErr := all(bytes.NewReader(input), limit)
		got, gotErr := all(&chunks{data: input, random: rand.New(rand.NewPCG(seed, 1))}, limit)
		if diff := cmp.Diff(want, got); diff != "" || !errors.Is(gotErr, wantErr) {
			t.Errorf("in pieces: error %v, whole: %v\n%s", gotErr, wantErr, diff)
		}
		if wantErr == nil {
			if diff := cmp.Diff(plainly(string(input)), want); diff != "" {
				t.Errorf("by the standard (-) and read (+):\n%s", diff)
			}
		}
	})
}

// chunks reads in random pieces.
type chunks struct {
	data   []byte
	random *rand.Rand
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:1+c.random.IntN(len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

// plainly reads events without regard to speed.
func plainly(s string) []string {
	s = strings.TrimPrefix(s, "\xef\xbb\xbf")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	var got, data []string
	name := ""
	dispatch := func() {
		if data != nil {
			got = append(got, name+"|"+strings.Join(data, "\n"))
		}
		name, data = "", nil
	}
	for line := range strings.SplitSeq(s, "\n") {
		if line == "" {
			dispatch()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimPrefix(value, " "); field {
		case "data":
			data = append(data, value)
		case "event":
			name = value
		}
	}
	dispatch()
	return got
}

// repeat reads the same bytes for ever.
type repeat struct {
	data []byte
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := copy(p, r.data[r.at:])
	r.at = (r.at + n) % len(r.data)
	return n, nil
}

func BenchmarkEventReader(b *testing.B) {
	for _, size := range []int{330, 4000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			events := NewEventReader(&repeat{data: []byte("data: " + strings.Repeat("x", size-8) + "\n\n")}, MaxEvent)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := events.Next(); err != nil {
					b.Fatal(err)
				}
				events.Buffered()
			}
		})
	}
}
