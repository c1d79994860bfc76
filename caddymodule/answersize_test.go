package caddymodule_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// manyPrompts are prompts of one variable, with the text of a request's keys
// for all of them.
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

// TestAnswerSizeIsBounded allows answers exactly as large as they are, and one
// byte less: the size is counted as it is sent, over all keys.
func TestAnswerSizeIsBounded(t *testing.T) {
	files, keys := manyPrompts(3, `It \"says\": {{text}}, {{text}}`)
	g := startGateway(t, files, options)
	for _, request := range []struct{ path, body string }{
		{"/v1/prompts", `{"keys":` + keys + `,"variables":{"text":"\"a\"\n\u0001\u2028é"}}`},
		{"/v1/prompts", `{"keys":["hello","nothing","many0","reply"],"variables":{"text":{"n":[1,"\n"]},"question":"?"}}`},
		{"/v1/remoteconfigs", `{"keys":["limits","nothing","checkout"],"context":{"environment":"production"}}`},
	} {
		if err := g.load(options); err != nil {
			t.Fatal(err)
		}
		a := g.post(request.path, request.body)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", request.path, a.status, a.body)
		}
		for less, want := range []int{http.StatusOK, http.StatusBadRequest} {
			limit := len(a.body) - less
			if err := g.load(options + fmt.Sprintf("max_answer_size %d\n", limit)); err != nil {
				t.Fatal(err)
			}
			got := g.post(request.path, request.body)
			if got.status != want {
				t.Errorf("%s: an answer of %d bytes where %d are allowed: %d %s", request.path, len(a.body), limit, got.status, got.body)
			}
			if want != http.StatusOK {
				checkError(t, got, "invalid_request", "keys")
				if says := fmt.Sprintf("would have %d bytes, at most %d", len(a.body), limit); !strings.Contains(string(got.body), says) {
					t.Errorf("%s: %s, want %q", request.path, got.body, says)
				}
			}
		}
	}
}

// TestLargeAnswerIsRefusedUnrendered asks for a hundred megabytes with one, and
// sees that they never come to be.
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
	// As many as fit are answered.
	fitting := strings.Replace(body, keys, `["many0","many1","many2","many3","many4","many5","many6"]`, 1)
	if a := g.post("/v1/prompts", fitting); a.status != http.StatusOK || len(a.body) < 6<<20 {
		t.Errorf("%d, with %d bytes", a.status, len(a.body))
	}
}

func TestAnswerSizeOption(t *testing.T) {
	for _, wrong := range []string{"0", "65MiB", "many", "1MiB 2MiB", "1MiB\nmax_answer_size 1MiB"} {
		if got := adapt("{\ncadenza {\nmax_answer_size " + wrong + "\n}\n}\n"); !strings.Contains(got, "max_answer_size") && !strings.Contains(got, "argument") {
			t.Errorf("%s: %s", wrong, got)
		}
	}
	g := startGateway(t, workspace, options)
	for _, wrong := range []string{"-1", "67108865"} {
		if err := g.loadJSON(options, `"definitions"`, `"max_answer_size":`+wrong+`,"definitions"`); err == nil || !strings.Contains(err.Error(), "max_answer_size") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// TestLargeAnswersTakeTurns has callers ask for large answers and not read them,
// until there is no room for another. Small ones are answered all the same, and
// large ones once some of the callers have left.
func TestLargeAnswersTakeTurns(t *testing.T) {
	files, keys := manyPrompts(7, "{{text}}")
	g := startGateway(t, files, options)
	body := `{"keys":` + keys + `,"variables":{"text":"` + strings.Repeat("x", 1<<20-2000) + `"}}`
	const fit = 18 // of 7.3 MB in 128 MiB
	var connections []net.Conn
	for range fit {
		connection, from := g.dial(t)
		connections = append(connections, connection)
		fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
		if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q, %v", line, err)
		}
	}
	connection, from := g.dial(t)
	fmt.Fprintf(connection, "POST /v1/prompts HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", testKey, len(body), body)
	a, closes := read(t, from)
	if !closes {
		t.Error("who is turned away keeps its connection")
	}
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
		t.Errorf("one more: %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	checkError(t, a, "overloaded", "")
	if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != http.StatusOK {
		t.Errorf("a small one: %d %s", a.status, a.body)
	}
	for _, connection := range connections {
		connection.Close()
	}
	eventually(t, "there is room again", func() bool { return g.post("/v1/prompts", body).status == http.StatusOK })
}
