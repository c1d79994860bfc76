package gateway_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// cutIn returns the place before the first content at which the answer to an attempt breaks
// off, which 30 of 100 do; -1 for a whole answer. It is the same in every run.
func cutIn(question string, attempt int) int {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", question, attempt))
	if dice := binary.BigEndian.Uint64(sum[:]) % 1000; dice < 300 {
		return int(dice % 4)
	}
	return -1
}

// TestThirtyPercentCutsOfStreams has a single target that cuts 30 of 100 streams before their
// first content, and answers the others slowly: a caller with attempts left gets an answer.
func TestThirtyPercentCutsOfStreams(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("makes 640 calls with waits between their attempts")
	}
	const requests, attempts = 640, 6
	var mu sync.Mutex
	asked := make(map[string]int)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
			t.Errorf("request: %v", err)
			return
		}
		question := body.Messages[len(body.Messages)-1].Content
		mu.Lock()
		asked[question]++
		attempt := asked[question]
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(text string) {
			io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		place := cutIn(question, attempt)
		switch place {
		case 1:
			say("") // the headers
		case 2:
			say(chunk("", ""))
		case 3:
			say(chunk("fine", "")[:40])
		}
		if place >= 0 {
			panic(http.ErrAbortHandler)
		}
		time.Sleep(300 * time.Millisecond)
		say(chunk("fi", ""))
		time.Sleep(300 * time.Millisecond)
		say(chunk("ne", "stop") + "data: [DONE]\n\n")
	})
	files := single()
	files["definitions/endpoints/chat.yaml"] = fmt.Sprintf("prompt: reply\nmax_attempts: %d\nretry: { count: %d }\nlog: none\n", attempts, attempts-1)
	g := startGateway(t, files, fakeProvider(u.URL))
	g.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64

	var wait sync.WaitGroup
	next := make(chan string)
	for range 64 {
		wait.Go(func() {
			for question := range next {
				hopeless := true
				for attempt := 1; attempt <= attempts; attempt++ {
					hopeless = hopeless && cutIn(question, attempt) >= 0
				}
				a := g.post("/v1/endpoints", ask(question, true))
				if whole := strings.Contains(string(a.body), `"fi"`) && strings.HasSuffix(string(a.body), "data: [DONE]\n\n"); whole == hopeless {
					t.Errorf("%s: %d %s", question, a.status, a.body)
				}
			}
		})
	}
	for n := range requests {
		if n < 64 {
			// Together, twenty would fail before the first answer: the target would be left alone.
			time.Sleep(20 * time.Millisecond)
		}
		next <- fmt.Sprint("item ", n)
	}
	close(next)
	wait.Wait()
}
