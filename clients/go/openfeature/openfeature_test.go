package openfeature

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	cadenza "github.com/cadenza-gateway/cadenza/clients/go"
	of "github.com/open-feature/go-sdk/openfeature"
)

func TestProvider(t *testing.T) {
	values := map[string]any{"boolean": true, "string": "x", "float": 1.5, "int": 7, "object": map[string]any{"a": []any{1.0}}}
	var down atomic.Bool
	var asked atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Store(string(body))
		key := path.Base(r.URL.Path)
		value, ok := values[key]
		switch {
		case down.Load():
			w.WriteHeader(http.StatusUnauthorized)
		case key == "context":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"errorCode":"INVALID_CONTEXT","errorDetails":"no"}`)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"errorCode":"FLAG_NOT_FOUND"}`)
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"key": key, "value": value, "reason": "SPLIT", "variant": "b", "metadata": map[string]any{"trace_id": "t1"}})
		}
	}))
	defer server.Close()
	client, err := cadenza.New(cadenza.Config{URL: server.URL, Key: "key", Timeout: time.Minute, OnError: func(error) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	if err := of.SetProviderAndWait(Provider{client}); err != nil {
		t.Fatal(err)
	}
	defer of.Shutdown()
	features, ann := of.NewClient("test"), of.NewEvaluationContext("ann", map[string]any{"plan": "pro"})
	ctx := t.Context()
	boolean, err := features.BooleanValueDetails(ctx, "boolean", false, ann)
	if err != nil || !boolean.Value || boolean.Reason != of.SplitReason || boolean.Variant != "b" || boolean.FlagMetadata["trace_id"] != "t1" {
		t.Errorf("%+v, %v", boolean, err)
	}
	if body := asked.Load(); body != `{"context":{"plan":"pro","targetingKey":"ann"}}` {
		t.Error(body)
	}
	if value, err := features.StringValue(ctx, "string", "", ann); err != nil || value != "x" {
		t.Error(value, err)
	}
	if value, err := features.FloatValue(ctx, "float", 0, ann); err != nil || value != 1.5 {
		t.Error(value, err)
	}
	if value, err := features.IntValue(ctx, "int", 0, ann); err != nil || value != 7 {
		t.Error(value, err)
	}
	if value, err := features.ObjectValue(ctx, "object", nil, ann); err != nil || !reflect.DeepEqual(value, values["object"]) {
		t.Error(value, err)
	}
	check := func(key, want string, reason of.Reason, code of.ErrorCode) {
		t.Helper()
		if found, _ := features.StringValueDetails(ctx, key, "default", ann); found.Value != want || found.Reason != reason || found.ErrorCode != code {
			t.Errorf("%+v", found)
		}
	}
	check("int", "default", of.ErrorReason, of.TypeMismatchCode)
	check("none", "default", of.ErrorReason, of.FlagNotFoundCode)
	check("context", "default", of.ErrorReason, of.InvalidContextCode)
	down.Store(true)
	check("string", "x", "STALE", "")
	check("int", "default", of.ErrorReason, of.TypeMismatchCode)
	check("other", "default", of.ErrorReason, of.GeneralCode)
}
