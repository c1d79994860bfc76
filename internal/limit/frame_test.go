package limit

import (
	"bytes"
	"maps"
	"testing"
	"time"
)

// FuzzReadState reads any file: what was written is found, and the rest is passed over.
func FuzzReadState(f *testing.F) {
	l := openOn(Options{}, osDisk)
	frame := func(named bool, subject string) []byte {
		a := l.add(l.book("w", "l", true), 0, subject)
		l.cell(a, &Ceiling{Money, 9, Window{time.Hour}}, noon.UnixNano()).used = 7
		l.cell(a, &Ceiling{Tokens, 9, Month}, noon.UnixNano()).reserved = 5
		a.calls = 1
		text := l.appendAccount(make([]byte, frameSize), a, named, noon.UnixNano())
		seal(text, 0, 42)
		return text
	}
	header := appendHeader(nil, 3, 42)
	f.Add([]byte(nil), true)
	f.Add(frame(false, "a"), false)
	f.Add(frame(true, "a"), true)
	f.Add(frame(false, "a")[:20], true)
	f.Fuzz(func(t *testing.T, text []byte, sealed bool) {
		text = bytes.Clone(text)
		if sealed && len(text) >= frameSize {
			seal(text, 0, 42) // and so what the frame has is read
		}
		s := readState(bytes.Join([][]byte{header, frame(false, "first"), text, frame(false, "last")}, nil))
		if s.generation != 3 {
			t.Errorf("generation %d", s.generation)
		}
		first, last := s.accounts[name{bookName{"w", "l"}, "first"}], s.accounts[name{bookName{"w", "l"}, "last"}]
		if last == nil || last.calls != 1 || len(last.cells) != 2 || last.cells[0].used != 7 || last.cells[1].reserved != 5 || first == nil && !bytes.Contains(text, []byte{frameMark}) {
			t.Errorf("%+v", maps.Collect(maps.All(s.accounts)))
		}
	})
}
