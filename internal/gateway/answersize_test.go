package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// manyPrompts returns prompts of one variable, and their keys as a request has them.
func manyPrompts(n int, message string) (files map[string]string, keys string) {
	files = maps.Clone(workspace)
	var list []string
	for i := range n {
		key := fmt.Sprintf("many%d", i)
		files["definitions/prompts/"+key+".yaml"] = "variables: { text: { required: true } }\nmessages: [ { role: user, content: \"" + message + "\" } ]\n"
		list = append(list, `"`+key+`"`)
	}
	return files, "[" + strings.Join(list, ",") + "]"
}

// TestAnswerSizeIsBounded sets the bound to the exact size of an answer, and to one
// byte less: the size is that of the sent bytes, over all keys.
func TestAnswerSizeIsBounded(t *testing.T) {
	t.Parallel()
	files, keys := manyPrompts(3, `It \"says\": {{text}}, {{text}}`)
	g := startGateway(t, files, options)
	for _, request := range []struct{ path, body, param string }{
		{"/v1/prompts", `{"keys":` + keys + `,"variables":{"text":"\"a\"\n\u0001\u2028é"}}`, "keys"},
		{"/v1/prompts", `{"keys":["hello","nothing","many0","reply"],"variables":{"text":{"n":[1,"\n"]},"question":"?"}}`, "keys"},
		{"/v1/remoteconfigs", `{"keys":["limits","nothing","checkout"],"context":{"environment":"production"}}`, "keys"},
		{"/v1/decisions", `{"prompts":["many0","nothing","hello"],"remoteconfigs":["limits","nothing","checkout"],"variables":{"text":"\"é"}}`, ""},
		{"/v1/decisions", `{"prompts":["hello"],"remoteconfigs":["nothing"]}`, ""},
		{"/v1/decisions", `{"remoteconfigs":["limits"]}`, ""},
	} {
		g.load()
		a := g.post(request.path, request.body).ok(t, request.path)
		for less, want := range []int{http.StatusOK, http.StatusBadRequest} {
			limit := len(a.body) - less
			g.load(with(func(c *gw.WorkspaceConfig) { c.MaxAnswerSize = int64(limit) }))
			got := g.post(request.path, request.body)
			if got.status != want {
				t.Errorf("%s: an answer of %d bytes where %d are allowed: %d %s", request.path, len(a.body), limit, got.status, got.body)
			}
			if want != http.StatusOK {
				checkError(t, got, "invalid_request", request.param)
				if says := fmt.Sprintf("would have %d bytes, at most %d", len(a.body), limit); !strings.Contains(string(got.body), says) {
					t.Errorf("%s: %s, want %q", request.path, got.body, says)
				}
			}
		}
	}
}

// TestLargeAnswerIsRefusedUnrendered asks for a hundred megabytes in a request of
// one megabyte, and checks that they are never allocated.
// No other test runs at the same time, because it counts the process's allocations.
func TestLargeAnswerIsRefusedUnrendered(t *testing.T) {
	files, keys := manyPrompts(100, "{{text}}")
	g := startGateway(t, files, options)
	body := `{"keys":` + keys + `,"variables":{"text":"` + strings.Repeat("x", 1<<20-2000) + `"}}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	a := g.post("/v1/prompts", body)
	runtime.ReadMemStats(&after)
	if a.status != http.StatusBadRequest {
		t.Fatalf("%d, with %d bytes", a.status, len(a.body))
	}
	checkError(t, a, "invalid_request", "keys")
	if took := after.TotalAlloc - before.TotalAlloc; took > 32<<20 {
		t.Errorf("it took %d bytes of memory", took)
	}
	// A request for fewer prompts, which fit, is answered.
	fitting := strings.Replace(body, keys, `["many0","many1","many2","many3","many4","many5","many6"]`, 1)
	if a := g.post("/v1/prompts", fitting); a.status != http.StatusOK || len(a.body) < 6<<20 {
		t.Errorf("%d, with %d bytes", a.status, len(a.body))
	}
}

// stall asks for an answer with status 200, and does not read it.
func (g *gateway) stall(t *testing.T, key, path, body string) net.Conn {
	t.Helper()
	connection, reader := g.dial(t)
	fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", path, key, len(body), body)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	return connection
}

// checkNoRoom checks that an answer is a refusal for lack of memory.
func checkNoRoom(t *testing.T, what string, a answer) {
	t.Helper()
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(string(a.body), "Too many large answers") {
		t.Errorf("%s: %d, Retry-After %q, with %d bytes", what, a.status, a.header.Get("Retry-After"), len(a.body))
		return
	}
	checkError(t, a, "overloaded", "")
}

// TestLargeAnswersTakeTurns makes callers of three workspaces ask for large answers and not
// read them. One workspace gets half of the memory for them and no more; two get all of it.
// Small answers are still sent, and large ones again when some of the callers have left.
//
// It does not run in parallel with other tests: a caller that does not read is cut off after
// half a minute, in which all others must have their answers.
func TestLargeAnswersTakeTurns(t *testing.T) {
	files, keys := manyPrompts(7, "{{text}}")
	const thirdKey = "cadenza-third-key-0003"
	g := startGateway(t, files,
		withWorkspace("other", map[string]string{"app": otherKey}), withWorkspace("third", map[string]string{"app": thirdKey}))
	body := `{"keys":` + keys + `,"variables":{"text":"` + strings.Repeat("x", 1<<20-2000) + `"}}`
	const fit = 9 // answers of 7.3 MB in 64 MiB, and twice as many in 128 MiB
	open := make(map[string][]net.Conn)
	for _, key := range []string{testKey, otherKey} {
		for range fit {
			open[key] = append(open[key], g.stall(t, key, "/v1/prompts", body))
		}
		checkNoRoom(t, "one more of a workspace", g.postAs(key, "/v1/prompts", body))
	}
	checkNoRoom(t, "a third workspace", g.postAs(thirdKey, "/v1/prompts", body))
	for _, key := range []string{testKey, thirdKey} {
		g.postAs(key, "/v1/prompts", `{"keys":["hello"]}`).ok(t, "a small one")
	}
	for _, left := range []string{otherKey, testKey} {
		for _, connection := range open[left] {
			connection.Close()
		}
		// Each workspace has its whole half again, but no more.
		for _, key := range []string{left, thirdKey} {
			eventually(t, "there is room again", func() bool { return g.postAs(key, "/v1/prompts", body).status == http.StatusOK })
		}
	}
	// Who has read a large answer may ask again before the gateway has given its room back.
	eventually(t, "all room is given back", func() bool {
		return g.memory["default"].HeldByAnswers()+g.memory["other"].HeldByAnswers()+g.memory["third"].HeldByAnswers() == 0
	})
	for range fit {
		g.stall(t, thirdKey, "/v1/prompts", body)
	}
	checkNoRoom(t, "one more of the third", g.postAs(thirdKey, "/v1/prompts", body))
}

// TestLargeAnswersOfEndpointsTakeTurns makes callers not read the answers of models:
// new answers, cached ones and replies to an idempotency key. All of them count. A
// refusal is recorded as one, and a repetition gets the answer that was paid for.
//
// It does not run in parallel with other tests: its model's answers take most of the
// memory for answers of upstreams that the process is reading.
func TestLargeAnswersOfEndpointsTakeTurns(t *testing.T) {
	const half = 64 << 20
	content := strings.Repeat("x", 15<<20) // too large for the cache
	lesser := strings.Repeat("\x01", 1<<20-1000)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "less") {
			completion(w, lesser)
			return
		}
		completion(w, content)
	})
	g := startGateway(t, endpointWith("cache: { ttl: 1h }\nidempotency: true\n"), fakeProvider(u.URL))
	keyed := func(question, key string) answer { return g.keyed(key, "/v1/endpoints", ask(question, false)) }
	for question, key := range map[string]string{"less": "lesser", "more": "larger"} {
		if a := keyed(question, key); a.status != http.StatusOK {
			t.Fatalf("%s: %d", question, a.status)
		}
	}

	var connections []net.Conn
	for n := range half / len(content) {
		connections = append(connections, g.stall(t, testKey, "/v1/endpoints", ask(fmt.Sprint(n), false)))
	}
	refused := g.post("/v1/endpoints", ask("another", false))
	checkNoRoom(t, "one more", refused)
	record := g.ended(t, refused.header.Get("Cadenza-Trace-Id"))
	if record.Status != http.StatusServiceUnavailable || record.Code != "overloaded" || record.TotalTokens != 10 {
		t.Errorf("recorded: %+v", record)
	}
	checkNoRoom(t, "one with a key", keyed("kept", "kept"))
	checkNoRoom(t, "a remembered one", g.post("/v1/endpoints", ask("less", false)))
	checkNoRoom(t, "one that is given again", keyed("more", "larger"))

	for _, connection := range connections {
		connection.Close()
	}
	calls := u.Calls.Load()
	for question, key := range map[string]string{"less": "lesser", "more": "larger", "kept": "kept"} {
		eventually(t, "there is room again", func() bool {
			a := keyed(question, key)
			return a.status == http.StatusOK && a.header.Get("Idempotent-Replayed") == "true"
		})
	}
	if n := u.Calls.Load(); n != calls {
		t.Errorf("the model was asked %d times more", n-calls)
	}
}

// TestAnswersHaveALength asks for answers around the size above which net/http would
// send them in chunks.
func TestAnswersHaveALength(t *testing.T) {
	t.Parallel()
	g := startGateway(t, workspace, options)
	ask := func(question int) *http.Response {
		t.Helper()
		response, err := g.send(t.Context(), "POST", "/v1/prompts", `{"keys":["reply"],"variables":{"question":"`+strings.Repeat("?", question)+`"}}`, bearer(testKey))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || response.ContentLength != int64(len(body)) || len(response.TransferEncoding) > 0 {
			t.Errorf("%d, %v: the length %d announces %d bytes, in %q", response.StatusCode, err, response.ContentLength, len(body), response.TransferEncoding)
		}
		return response
	}
	rest := 2048 - int(ask(0).ContentLength)
	for _, size := range []int{rest - 1, rest, rest + 1, 10_000} {
		ask(size)
	}
}
