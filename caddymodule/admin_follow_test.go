package caddymodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// followedLine is a line of a following answer.
type followedLine struct {
	Traces []struct {
		ID string `json:"trace_id"`
	} `json:"traces"`
	Follow int64 `json:"follow"`
}

func (l *followedLine) has(id string) bool {
	for _, one := range l.Traces {
		if one.ID == id {
			return true
		}
	}
	return false
}

// followLines asks for the traces written from now on.
func followLines(t *testing.T, ctx context.Context, url string) *json.Decoder {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s", response.Status)
	}
	return json.NewDecoder(response.Body)
}

func nextLine(t *testing.T, lines *json.Decoder) (line followedLine) {
	t.Helper()
	if err := lines.Decode(&line); err != nil {
		t.Fatal(err)
	}
	return line
}

// lastSeq returns the number from which a request follows all new traces.
func lastSeq(t *testing.T, address string) string {
	t.Helper()
	_, answer := callAdmin(t, "GET", address, "/cadenza/traces?limit=1", "")
	n, err := json.Marshal(answer["follow"])
	if err != nil {
		t.Fatal(err)
	}
	return string(n)
}

// TestFollowWaits checks that one request gets the traces recorded while it
// waits, until the configuration is replaced.
func TestFollowWaits(t *testing.T) {
	g, address, _ := startRecorded(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	lines := followLines(t, ctx, "http://"+address+"/cadenza/traces?key=hello&wait=1m&follow="+lastSeq(t, address))
	if first := nextLine(t, lines); len(first.Traces) != 0 {
		t.Errorf("at once: %v", first)
	}
	for range 2 {
		g.post("/v1/prompts", `{"keys":["reply"],`+question+`}`) // does not pass the filter
		id := g.post("/v1/prompts", `{"keys":["hello"]}`).header.Get("Cadenza-Trace-Id")
		if line := nextLine(t, lines); len(line.Traces) != 1 || !line.has(id) {
			t.Errorf("%v, want %s", line, id)
		}
	}
	// Caddy ignores an identical configuration.
	if err := g.loadText(withAdmin(g, options+"log none\n", address)); err != nil {
		t.Fatal(err)
	}
	for {
		var line followedLine
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the end of a configuration: %v", err)
		}
	}
}

// TestFollowEndsWithItsWait checks that the last line says where to continue, also
// if no recorded trace passes the filter.
func TestFollowEndsWithItsWait(t *testing.T) {
	g, address, _ := startRecorded(t)
	since := lastSeq(t, address)
	lines := followLines(t, t.Context(), "http://"+address+"/cadenza/traces?wait=5s&key=none&follow="+since)
	last := nextLine(t, lines).Follow
	g.post("/v1/prompts", `{"keys":["hello"]}`)
	if line := nextLine(t, lines); len(line.Traces) != 0 || line.Follow <= last {
		t.Errorf("after %d: %v", last, line)
	}
	if err := lines.Decode(new(followedLine)); !errors.Is(err, io.EOF) {
		t.Errorf("after the wait: %v", err)
	}
}

func TestFollowWaitsForAMinuteAtMost(t *testing.T) {
	_, address, _ := startRecorded(t)
	for _, query := range []string{"follow=0&wait=61s", "follow=0&wait=-1s", "follow=0&wait=long", "wait=1s"} {
		if status, answer := callAdmin(t, "GET", address, "/cadenza/traces?"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %v", query, status, answer)
		}
	}
}
