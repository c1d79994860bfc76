package wire

import (
	"net/url"
	"strings"
	"testing"
)

// metadataOf is compact metadata of this many bytes.
func metadataOf(bytes int) string {
	const frame = `{"n":""}`
	return `{"n":"` + strings.Repeat("x", bytes-len(frame)) + `"}`
}

// parsers are all that takes metadata, each given its JSON.
var parsers = map[string]func(r *Request, metadata string) *Error{
	"prompts": func(r *Request, metadata string) *Error {
		r.body = []byte(`{"keys":["a"],"metadata":` + metadata + `}`)
		_, err := r.Prompts()
		return err
	},
	"remote configurations": func(r *Request, metadata string) *Error {
		r.body = []byte(`{"keys":["a"],"metadata":` + metadata + `}`)
		_, err := r.RemoteConfigs()
		return err
	},
	"endpoint": func(r *Request, metadata string) *Error {
		r.body = []byte(`{"key":"a","metadata":` + metadata + `}`)
		_, err := r.Endpoint()
		return err
	},
	"metrics": func(r *Request, metadata string) *Error {
		r.body = []byte(`{"metadata":` + metadata + `}`)
		_, err := r.Metrics()
		return err
	},
	"metrics of a trace": func(r *Request, metadata string) *Error {
		r.body = []byte(`{"metadata":` + metadata + `}`)
		_, err := r.TraceMetrics("")
		return err
	},
	"metrics in a query": func(r *Request, metadata string) *Error {
		r.body = nil
		_, err := r.TraceMetrics(url.QueryEscape(`{"metadata":` + metadata + `}`))
		return err
	},
}

func TestMetadataCeiling(t *testing.T) {
	for name, parse := range parsers {
		for _, test := range []struct {
			what     string
			limit    int64
			metadata string
			refused  bool
		}{
			{"at the default", 0, metadataOf(DefaultMetadataLimit), false},
			{"past the default", 0, metadataOf(DefaultMetadataLimit + 1), true},
			{"at a limit", 100, metadataOf(100), false},
			{"past a limit", 100, metadataOf(101), true},
			{"spaces are not counted", 100, strings.Replace(metadataOf(100), ":", ":"+strings.Repeat(" ", 500), 1), false},
			{"what storing it adds is", 100, `{"n":"` + strings.Repeat("\x7f", 20) + `"}`, true},
			{"empty", 1, `{}`, false},
		} {
			r := AcquireRequest()
			r.SetMetadataLimit(test.limit)
			err := parse(r, test.metadata)
			switch {
			case !test.refused && err != nil:
				t.Errorf("%s, %s: %v", name, test.what, err)
			case test.refused && (err == nil || err.Code != InvalidRequest || err.Param != "metadata" || !strings.Contains(err.Message, "max_metadata_size")):
				t.Errorf("%s, %s: %v, want invalid_request of metadata, with the option", name, test.what, err)
			}
			r.Release()
		}
	}
}

func TestMetadataCeilingOfPairs(t *testing.T) {
	const frame = len(`{"n":""}`)
	for size, refused := range map[int]bool{DefaultMetadataLimit: false, DefaultMetadataLimit + 1: true} {
		_, err := parsed(t, "").TraceMetrics("metadata[n]=" + strings.Repeat("x", size-frame))
		if refused != (err != nil) || err != nil && (err.Code != InvalidRequest || err.Param != "metadata") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// A pooled request must not keep another workspace's limit.
func TestMetadataLimitIsOfOneRequest(t *testing.T) {
	r := AcquireRequest()
	r.SetMetadataLimit(10)
	r.Release()
	if got := r.metadataLimit(); got != DefaultMetadataLimit {
		t.Errorf("the limit is %d after the release", got)
	}
}

func TestReportTextCeilings(t *testing.T) {
	for name, most := range map[string]int{"llm_response": maxLLMResponse, "chain_id": maxIDLength, "conversation_id": maxIDLength} {
		text := strings.Repeat("x", most)
		if _, err := parsed(t, `{"`+name+`":"`+text+`"}`).Metrics(); err != nil {
			t.Errorf("%s at its ceiling: %v", name, err)
		}
		if _, err := parsed(t, `{"`+name+`":"`+text+`x"}`).Metrics(); err == nil || err.Code != InvalidRequest || err.Param != name {
			t.Errorf("%s past its ceiling: %v", name, err)
		}
	}
}
