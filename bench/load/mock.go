//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// The models of the mock, each with a different form of answer.
const (
	modelWhole  = "mock-whole"  // one JSON answer
	modelBurst  = "mock-burst"  // 102 events, each in its own write, without a pause
	modelOnce   = "mock-once"   // 102 events in one write
	modelShort  = "mock-short"  // 12 events, each in its own write
	modelGentle = "mock-gentle" // 52 events, one each 10 ms
	modelStuck  = "mock-stuck"  // 60 events, one each second
	modelVector = "mock-vector" // a vector of 1,536 numbers
)

// gentlePace is the time between two events of a gentle stream.
const gentlePace = 10 * time.Millisecond

// mock is an upstream with OpenAI's chat completions and embeddings over HTTP/1.1. Its answers are prepared
// once, so that it uses little CPU time of the processor that it shares with the generator.
type mock struct {
	listener net.Listener
	whole    []byte
	vector   []byte
	streams  map[string]stream
}

// stream is an answer of server-sent events, each in its own chunk, like OpenAI's.
type stream struct {
	events [][]byte
	writes [][]byte // the events over HTTP/1.1, the first one with the headers
	pace   time.Duration
}

func startMock() (*mock, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	body := `{"id":"chatcmpl-CfQ2wEo0mJ7pJ6XhKkT1p4vW","object":"chat.completion","created":1763800000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		words(40) + `","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":250,"completion_tokens":40,"total_tokens":290,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default","system_fingerprint":"fp_51db84afab"}`
	whole := func(body string) []byte {
		return []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	}
	m := &mock{
		listener: listener,
		whole:    whole(body),
		vector: whole(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[` + strings.Repeat("-0.021484375,", 1535) +
			`0.0078125]}],"model":"mock","usage":{"prompt_tokens":250,"total_tokens":250}}`),
		streams: map[string]stream{
			modelBurst:  newStream(102, 0),
			modelOnce:   {writes: [][]byte{bytes.Join(newStream(102, 0).writes, nil)}},
			modelShort:  newStream(12, 0),
			modelGentle: newStream(52, gentlePace),
			modelStuck:  newStream(60, time.Second),
		},
	}
	go m.serve()
	return m, nil
}

func (m *mock) address() string { return m.listener.Addr().String() }

func (m *mock) url() string { return "http://" + m.address() }

// newStream makes an answer with this number of events: the role, the words, and the
// finish reason with the usage. [DONE] is not counted.
func newStream(events int, pace time.Duration) stream {
	s := stream{pace: pace}
	add := func(delta, end, usage string) {
		s.events = append(s.events, []byte(`data: {"id":"chatcmpl-CfQ2wEo0mJ7pJ6XhKkT1p4vW","object":"chat.completion.chunk","created":1763800000,"model":"mock","service_tier":"default","system_fingerprint":"fp_51db84afab","choices":[{"index":0,"delta":`+
			delta+`,"logprobs":null,"finish_reason":`+end+`}],"usage":`+usage+"}\n\n"))
	}
	add(`{"role":"assistant","content":"","refusal":null}`, "null", "null")
	for range events - 2 {
		add(`{"content":" word"}`, "null", "null")
	}
	add("{}", `"stop"`, fmt.Sprintf(`{"prompt_tokens":250,"completion_tokens":%d,"total_tokens":%d}`, events-2, events+248))
	// [DONE] is sent with the last event, like by a server whose handler returns.
	s.events[len(s.events)-1] = append(s.events[len(s.events)-1], doneEvent...)
	for _, event := range s.events {
		s.writes = append(s.writes, []byte(fmt.Sprintf("%x\r\n%s\r\n", len(event), event)))
	}
	s.writes[0] = append([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"), s.writes[0]...)
	s.writes[len(s.writes)-1] = append(s.writes[len(s.writes)-1], "0\r\n\r\n"...)
	return s
}

// words returns a text of n words.
func words(n int) string { return strings.Repeat(" word", n)[1:] }

func (m *mock) serve() {
	for {
		conn, err := m.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			// If a caller leaves and that matters, the generator reports it.
			_ = m.answer(conn)
		}()
	}
}

// answer serves one connection until it ends.
func (m *mock) answer(conn net.Conn) error {
	r := bufio.NewReaderSize(conn, 4<<10)
	var body []byte
	for {
		length := -1
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return err
			}
			if len(line) <= 2 {
				break
			}
			if value, ok := header(line, "content-length:"); ok {
				if length, err = strconv.Atoi(string(value)); err != nil {
					return err
				}
			}
		}
		if length < 0 {
			_, err := io.WriteString(conn, "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return err
		}
		body = append(body[:0], make([]byte, length)...)
		if _, err := io.ReadFull(r, body); err != nil {
			return err
		}
		if err := m.respond(conn, body); err != nil {
			return err
		}
	}
}

func (m *mock) respond(conn net.Conn, body []byte) error {
	if bytes.Contains(body, []byte(`"`+modelWhole+`"`)) {
		_, err := conn.Write(m.whole)
		return err
	}
	if bytes.Contains(body, []byte(`"`+modelVector+`"`)) {
		_, err := conn.Write(m.vector)
		return err
	}
	for model, s := range m.streams {
		if !bytes.Contains(body, []byte(`"`+model+`"`)) {
			continue
		}
		for _, event := range s.writes {
			if _, err := conn.Write(event); err != nil {
				return err
			}
			if s.pace > 0 {
				time.Sleep(s.pace)
			}
		}
		return nil
	}
	_, err := io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
	return err
}

// header returns the value in a line if the line has the header. The name is in
// lower case and ends with a colon.
func header(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}
