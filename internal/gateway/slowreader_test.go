package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// pacedWriter records the write deadline of each part of an answer.
type pacedWriter struct {
	*httptest.ResponseRecorder
	deadline time.Time
	pieces   []pacedPiece
}

type pacedPiece struct {
	bytes  int
	within time.Duration
}

func (w *pacedWriter) SetWriteDeadline(t time.Time) error { w.deadline = t; return nil }

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.pieces = append(w.pieces, pacedPiece{len(p), time.Until(w.deadline)})
	return w.ResponseRecorder.Write(p)
}

// fullWriter is a writer whose client no longer reads.
type fullWriter struct{ *httptest.ResponseRecorder }

func (fullWriter) Write([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// TestAnswerThatIsNotTakenIsCut checks that the connection is cut if the client does
// not read the answer.
func TestAnswerThatIsNotTakenIsCut(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	request := httptest.NewRequest(http.MethodPost, "/v1/prompts", strings.NewReader(`{"keys":["hello"]}`))
	request.Header = bearer(testKey)
	defer func() {
		if problem := recover(); problem != http.ErrAbortHandler {
			t.Errorf("%v", problem)
		}
	}()
	g.serve(fullWriter{httptest.NewRecorder()}, request)
	t.Error("it ended in good order")
}

// TestWholeAnswersHaveAWriteDeadline checks that each part of an answer has a deadline by
// its size, on every route, for new and for repeated answers.
func TestWholeAnswersHaveAWriteDeadline(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("0123456789abcdef", 60<<10) // just below the cache's maximum
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "little") {
			completion(w, "a little")
			return
		}
		completion(w, content)
	})
	files := endpointWith("cache: { ttl: 1h }\nidempotency: true\n")
	maps.Copy(files, map[string]string{
		"definitions/prompts/large.yaml":       "messages: [ { role: user, content: \"" + content + "\" } ]\n",
		"definitions/remoteconfigs/large.yaml": "type: string\ndefault: \"" + content + "\"\n",
	})
	g := startGateway(t, files, fakeProvider(u.URL))
	for _, test := range []struct {
		name, path, body, key string
		large                 bool
	}{
		{"prompts", "/v1/prompts", `{"keys":["large"]}`, "", true},
		{"configurations", "/v1/remoteconfigs", `{"keys":["large"]}`, "", true},
		{"metrics", "/v1/metrics", `{"score":1}`, "", false},
		{"an endpoint", "/v1/endpoints", ask("?", false), "", true},
		{"a remembered answer", "/v1/endpoints", ask("?", false), "", true},
		{"a remembered answer as a stream", "/v1/endpoints", ask("?", true), "", true},
		{"a small answer", "/v1/endpoints", ask("little", false), "", false},
		{"a small remembered answer as a stream", "/v1/endpoints", ask("little", true), "", false},
		{"an answer with a key", "/v1/endpoints", ask("!", false), "k", true},
		{"the answer of that key", "/v1/endpoints", ask("!", false), "k", true},
	} {
		request := httptest.NewRequest(http.MethodPost, test.path, strings.NewReader(test.body))
		request.Header = bearer(testKey)
		if test.key != "" {
			request.Header.Set("Idempotency-Key", test.key)
		}
		w := &pacedWriter{ResponseRecorder: httptest.NewRecorder()}
		g.serve(w, request)
		if w.Code != http.StatusOK || test.large != (w.Body.Len() > len(content)) {
			t.Fatalf("%s: %d with %d bytes", test.name, w.Code, w.Body.Len())
		}
		for _, piece := range w.pieces {
			low, high := wire.WriteTime(piece.bytes)-5*time.Second, wire.WriteTime(piece.bytes+1000)
			if test.large && strings.Contains(test.name, "stream") {
				high = wire.WriteTime(256<<10) + 5*time.Second // all share a deadline
			}
			if piece.bytes > 256<<10 || piece.within < low || piece.within > high {
				t.Errorf("%s: its client has %s for %d bytes", test.name, piece.within, piece.bytes)
			}
		}
		if length := w.Header().Get("Content-Length"); test.large && !strings.Contains(test.name, "stream") && length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%s: a length of %q announces %d bytes", test.name, length, w.Body.Len())
		}
	}
}

// TestStalledLeaderKeepsNobodyWaiting has a caller that asks for a stream and does not
// read it. Callers with the same question are still answered, whether the answer is
// small enough for the cache or not.
//
// It does not run in parallel with other tests: its answers take much of the memory for
// answers of upstreams that the process is reading.
func TestStalledLeaderKeepsNobodyWaiting(t *testing.T) {
	piece := strings.Repeat("0123456789abcdef", 1<<12) // 64 KiB
	for _, pieces := range []int{15, 128} {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"stream":true`) {
				completion(w, strings.Repeat(piece, pieces))
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for range pieces {
				if _, err := io.WriteString(w, chunk(piece, "")); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, chunk("", "stop")+"data: [DONE]\n\n")
		})
		g := startGateway(t, endpointWith("cache: { ttl: 1h }\n"), fakeProvider(u.URL))
		connection, reader := g.dial(t)
		body := ask(fmt.Sprint(pieces), true)
		fmt.Fprintf(connection, "POST /v1/endpoints HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
		began := time.Now()
		a := g.post("/v1/endpoints", ask(fmt.Sprint(pieces), false))
		if n := strings.Count(string(a.body), piece); a.status != http.StatusOK || n != pieces {
			t.Errorf("%d with %d of %d pieces", a.status, n, pieces)
		}
		if took := time.Since(began); took > patience {
			t.Errorf("%d pieces: answered after %s", pieces, took)
		}
		connection.Close()
	}
}
