package cadenza

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGateway asks the gateway that cmd/caddy starts for its own test of the clients.
func TestGateway(t *testing.T) {
	address, folder := os.Getenv("CADENZA_CLIENTS_URL"), os.Getenv("CADENZA_CLIENTS_DEFINITIONS")
	if address == "" {
		t.Skip("no gateway: go test ./cmd/caddy -run TestSmallClients starts one")
	}
	spool := filepath.Join(t.TempDir(), "spool")
	config := Config{URL: address, Key: os.Getenv("CADENZA_API_KEY"), Timeout: time.Minute, Spool: spool, OnError: func(err error) { t.Log(err) }}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	prompt := c.Prompt(t.Context(), "support_reply", Object{"locale": "nl-BE"}, Object{"question": "Waar?"}, Object{"page": "help"})
	if prompt.Err != nil || prompt.Value["name"] != "nl" || prompt.TraceID == "" {
		t.Fatalf("%+v", prompt)
	}
	if none := c.Prompt(t.Context(), "none", nil, nil, nil); none.Value != nil || none.Err == nil {
		t.Errorf("%+v", none)
	}
	for _, record := range []Object{{"score": 85}, {"values": Object{"resolved": 1}}, {"score": "much"}} {
		if err := c.Report(prompt.TraceID, record); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(t.Context()); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "much") || len(c.queue) != 0 {
		t.Errorf("%d are left: %v", len(c.queue), err)
	}

	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+evaluate, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+config.Key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode == http.StatusNotFound {
		t.Skip("NOT TESTED: values and flags, since the gateway has no " + evaluate)
	}
	if c, err = New(config); err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	staff := Object{"environment": "production", "tags": []string{"employee"}}
	value := Evaluate(t.Context(), c, "new_checkout", false, staff)
	if !value.Value || value.Err != nil || value.TraceID == "" || value.Reason == "" {
		t.Errorf("%+v", value)
	}
	if err := errors.Join(c.Report(value.TraceID, Object{"values": Object{"bought": 1}}), c.Flush(t.Context())); err != nil || len(c.queue) != 0 {
		t.Errorf("the report: %v", err)
	}
	if none := Evaluate(t.Context(), c, "none", 5, nil); none.Value != 5 || none.Err == nil {
		t.Errorf("%+v", none)
	}
	changed := make(chan []string, 10)
	flags := c.Follow(t.Context(), staff, func(keys []string) { changed <- keys })
	if !get(flags, "new_checkout", false) || get(flags, "small_client_go", "none") != "none" {
		t.Errorf("%+v", flags.now.Load())
	}
	if !bytes.Contains(all, []byte(`"sse"`)) {
		t.Skip("NOT TESTED: that an edit arrives, since the gateway has no events")
	}
	err = os.WriteFile(filepath.Join(folder, "remoteconfigs/small_client_go.yaml"), []byte("type: string\ndefault: here\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(50 * time.Second): // it is an event that tells of it
		t.Fatal("the edit does not arrive")
	}
	if found := get(flags, "small_client_go", "none"); found != "here" {
		t.Error(found)
	}
}
