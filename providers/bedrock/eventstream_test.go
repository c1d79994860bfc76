package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/smithy-go/eventstream"
	"pgregory.net/rapid"

	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The sizes of the prelude and the checksum around the headers and the payload of
// a message, in bytes.
const (
	preludeSize = 12
	crcSize     = 4
)

// AWS's test vectors of the format.
var vectors = []struct {
	name, message string
	payload       string
	err           error
}{
	{"empty", "000000100000000005c248eb7d98c8ff", "", nil},
	{"payload", "0000001d00000000fd528c5a7b27666f6f273a27626172277dc3653936", "{'foo':'bar'}", nil},
	{"int32 header", "0000002d0000001041c424b80a6576656e742d74797065040000a00c7b27666f6f273a27626172277d36f480a0", "{'foo':'bar'}", nil},
	{"string header", "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1", "{'foo':'bar'}", nil},
	{"all headers", "000000cc000000af0fae64ca0a6576656e742d74797065040000a00c0c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0a626f6f6c2066616c73650109626f6f6c207472756500046279746502cf08627974652062756606001449276d2061206c6974746c6520746561706f74210974696d657374616d70080000000000845fed05696e74313603002a05696e7436340500000000028757b20475756964090102030405060708090a0b0c0d0e0f107b27666f6f273a27626172277daba5f10c", "{'foo':'bar'}", nil},
	{"corrupted header length", "0000003d0000002107fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1", "", errMessage},
	{"corrupted headers", "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b61666f6f273a27626172277d8d9c08b1", "", errMessage},
	{"corrupted length", "0000003e0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a27626172277d8d9c08b1", "", errMessage},
	{"corrupted payload", "0000001d00000000fd528c5a5b27666f6f273a27626172277dc3653936", "", errMessage},
}

func TestVectors(t *testing.T) {
	for _, test := range vectors {
		t.Run(test.name, func(t *testing.T) {
			text, err := hex.DecodeString(test.message)
			if err != nil {
				t.Fatal(err)
			}
			r := newMessageReader(bytes.NewReader(text), 1<<20)
			msg, err := r.Next()
			if err != test.err || string(msg.payload) != test.payload {
				t.Errorf("payload %q, error %v", msg.payload, err)
			}
			if test.err == nil {
				test.err = io.EOF
			}
			for range 2 {
				if _, err := r.Next(); err != test.err {
					t.Errorf("then: %v, want %v", err, test.err)
				}
			}
		})
	}
}

// raw frames a message whose headers are given as bytes, with sound checksums.
func raw(headersLength uint32, headers, payload string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(preludeSize+len(headers)+len(payload)+crcSize))
	b = binary.BigEndian.AppendUint32(b, headersLength)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(b, headers+payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func TestBrokenMessages(t *testing.T) {
	tooLong := binary.BigEndian.AppendUint32(nil, 1<<31)
	tooLong = binary.BigEndian.AppendUint32(tooLong, 0)
	tooLong = binary.BigEndian.AppendUint32(tooLong, crc32.ChecksumIEEE(tooLong))
	for _, test := range []struct {
		name, message string
		err           error
	}{
		{"nothing", "", io.EOF},
		{"a part of the prelude", raw(0, "", "x")[:7], io.ErrUnexpectedEOF},
		{"a part of the lengths", raw(0, "", "x")[:3], io.ErrUnexpectedEOF},
		{"no payload", raw(0, "", "payload")[:14], io.ErrUnexpectedEOF},
		{"a part of the checksum", raw(0, "", "x")[:16], io.ErrUnexpectedEOF},
		{"headers longer than the message", raw(2, "", ""), errMessage},
		{"huge headers", raw(maxHeaders+1, "", ""), upstream.ErrTooLarge},
		{"a huge message", string(tooLong), upstream.ErrTooLarge},
		{"a header without its name", raw(2, "\x05a", ""), errMessage},
		{"a header without its type", raw(2, "\x01a", ""), errMessage},
		{"a header of an unknown type", raw(3, "\x01a\x0a", ""), errMessage},
		{"a header without its value", raw(4, "\x01a\x04\x00", ""), errMessage},
		{"a string without its length", raw(4, "\x01a\x07\x00", ""), errMessage},
		{"a string beyond the headers", raw(6, "\x01a\x07\x00\x09x", "yyyyyyyyyyyy"), errMessage},
	} {
		r := newMessageReader(strings.NewReader(test.message), 1<<20)
		for range 2 {
			if _, err := r.Next(); err != test.err {
				t.Errorf("%s: %v, want %v", test.name, err, test.err)
			}
		}
	}
}

func TestTheLimitOfAMessage(t *testing.T) {
	const limit = 1000
	fits := raw(0, "", strings.Repeat("x", limit-preludeSize-crcSize))
	r := newMessageReader(strings.NewReader(fits+raw(0, "", strings.Repeat("x", limit-preludeSize-crcSize+1))), limit)
	if msg, err := r.Next(); err != nil || len(msg.payload) != limit-preludeSize-crcSize {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := r.Next(); err != upstream.ErrTooLarge {
		t.Errorf("over the limit: %v", err)
	}
}

func TestAReaderThatGivesNothing(t *testing.T) {
	r := newMessageReader(nothing{}, 100)
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Error(err)
	}
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }

func TestWhatAWSEncodesIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type sent struct{ kind, name, payload string }
		var wire bytes.Buffer
		var messages []sent
		encoder := eventstream.NewEncoder()
		for range rapid.IntRange(0, 5).Draw(t, "messages") {
			s := sent{
				rapid.SampledFrom([]string{"event", "exception", "error"}).Draw(t, "kind"),
				rapid.StringN(0, 20, 60).Draw(t, "name"),
				rapid.StringN(0, 9000, 9000).Draw(t, "payload"),
			}
			headers := eventstream.Headers{
				{Name: "x", Value: eventstream.BytesValue(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "bytes"))},
				{Name: ":message-type", Value: eventstream.StringValue(s.kind)},
				{Name: "n", Value: eventstream.Int64Value(rapid.Int64().Draw(t, "int"))},
				{Name: "b", Value: eventstream.BoolValue(rapid.Bool().Draw(t, "bool"))},
				{Name: ":event-type", Value: eventstream.StringValue(s.name)},
			}
			if err := encoder.Encode(&wire, eventstream.Message{Headers: headers, Payload: []byte(s.payload)}); err != nil {
				t.Fatal(err)
			}
			messages = append(messages, s)
		}
		var source io.Reader = bytes.NewReader(wire.Bytes())
		if rapid.Bool().Draw(t, "byte by byte") {
			source = iotest.OneByteReader(source)
		}
		r := newMessageReader(source, 1<<20)
		for _, want := range messages {
			msg, err := r.Next()
			if err != nil || msg.kind != want.kind || msg.name != want.name || string(msg.payload) != want.payload {
				t.Fatalf("%q %q %q, %v; want %q", msg.kind, msg.name, msg.payload, err, want)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	})
}

// waits fails the test when it is read although nothing may wait.
type waits struct {
	t     *testing.T
	ready io.Reader
	may   bool
}

func (w *waits) Read(p []byte) (int, error) {
	n, err := w.ready.Read(p)
	if err == io.EOF && !w.may {
		w.t.Error("Next waited although Buffered said that it would not")
	}
	return n, err
}

func TestBufferedSaysWhetherNextWaits(t *testing.T) {
	whole := join(wholeStream("a", "b"))
	for cut := range len(whole) + 1 {
		source := &waits{t: t, ready: strings.NewReader(whole[:cut]), may: true}
		r := newMessageReader(source, 1<<20)
		r.Peek() // all there is comes with the first read
		for r.Buffered() && r.err == nil {
			source.may = false
			if _, err := r.Next(); err != nil {
				t.Fatalf("cut at %d: %v", cut, err)
			}
			source.may = true
		}
	}
}

// FuzzMessages compares our reader with AWS's own, byte for byte.
func FuzzMessages(f *testing.F) {
	for _, v := range vectors {
		text, err := hex.DecodeString(v.message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(join(wholeStream("a", "b"))))
	f.Add([]byte(exception("throttlingException", `{"message":"Too many requests"}`)))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := newMessageReader(iotest.HalfReader(bytes.NewReader(wire)), 1<<20)
		theirs, source := eventstream.NewDecoder(), bytes.NewReader(wire)
		for {
			msg, err := r.Next()
			want, wantErr := theirs.Decode(source, nil)
			if err != nil {
				if wantErr == nil && !errors.Is(err, upstream.ErrTooLarge) {
					t.Fatalf("%v, but AWS's decoder reads %q", err, want.Payload)
				}
				return
			}
			if wantErr != nil {
				t.Fatalf("AWS's decoder: %v; ours reads %q", wantErr, msg.payload)
			}
			if !bytes.Equal(msg.payload, want.Payload) {
				t.Fatalf("payload %q, want %q", msg.payload, want.Payload)
			}
		}
	})
}
