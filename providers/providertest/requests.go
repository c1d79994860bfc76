package providertest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// CheckHeaders checks all headers of a request in JSON except its length. want has
// neither User-Agent nor Content-Type.
func CheckHeaders(t testing.TB, r Request, want map[string]string) {
	t.Helper()
	if !strings.HasPrefix(r.Header.Get("User-Agent"), "Cadenza/") {
		t.Errorf("User-Agent %q", r.Header.Get("User-Agent"))
	}
	want["Content-Type"] = MediaJSON
	got := map[string]string{}
	for name, values := range r.Header {
		if name != "User-Agent" && name != "Content-Length" {
			got[name] = strings.Join(values, ",")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Unsendable is a request that the service would reject.
type Unsendable = struct {
	// Name names the mistake. Want is a part of the error's reason.
	Name, Want string
	Request    providers.Request
}

// CheckUnsendable checks that these requests are refused before they are sent.
func (s *Subject) CheckUnsendable(t *testing.T, tests []Unsendable) {
	t.Helper()
	p := s.Connect(t, "http://localhost:1")
	for _, test := range tests {
		_, err := p.Invoke(t.Context(), &test.Request)
		e, ok := errors.AsType[*providers.Error](err)
		if !ok || e.Kind != providers.Status || e.Status != http.StatusBadRequest || e.Reason == "" || !strings.Contains(e.Reason, test.Want) {
			t.Errorf("%s: error %v", test.Name, err)
		}
	}
}

// CheckUnsendableParameters checks that parameters that the service does not have and
// that change the meaning of the request are refused, not omitted, also when requests
// are prepared. The keys are parts of the errors' reasons.
func (s *Subject) CheckUnsendableParameters(t *testing.T, parameters map[string]providers.Parameters) {
	t.Helper()
	for reason, p := range parameters {
		for _, stream := range []bool{false, true} {
			req := s.request(stream)
			req.Parameters = p
			s.CheckUnsendable(t, []Unsendable{{reason, reason, *req}})
			_, err := providers.Prepare(s.Connect(t, "http://localhost:1"), req)
			if e, ok := errors.AsType[*providers.Error](err); !ok || !strings.Contains(e.Reason, reason) {
				t.Errorf("%s: preparing fails with %v", reason, err)
			}
		}
	}
}

// Translation is the expected form of a request's parameters.
type Translation = struct {
	Name, Model string
	Parameters  providers.Parameters
	// Extra has pairs of a name and a JSON text.
	Extra []string
	// Want is the request's body. LeftOut has the names of the omitted parameters.
	Want    string
	LeftOut []string
}

// CheckParameters checks the bodies of requests with parameters. reply is any answer;
// short abbreviates a body to the form in tests.
func (s *Subject) CheckParameters(t *testing.T, reply Reply, short func(body, model string) string, tests []Translation) {
	t.Helper()
	for _, test := range tests {
		req := s.request(false)
		req.Model, req.Parameters, req.Extra = test.Model, test.Parameters, Extra(test.Extra...)
		got, result := Sent(t, reply, req, func(base string) providers.Provider { return s.Connect(t, base) })
		if diff := cmp.Diff(test.Want, short(got.Body, test.Model)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.Name, diff)
		}
		if diff := cmp.Diff(test.LeftOut, result.LeftOut); diff != "" {
			t.Errorf("%s: left out (-want +got):\n%s", test.Name, diff)
		}
	}
}

// Body is a request and the body that the service gets for it. If Change is not nil, it
// changes the client's configuration.
type Body[C any] = struct {
	Name    string
	Request providers.Request
	Change  func(*C)
	Want    string
}

// CheckBodies checks the bodies of requests of clients made by client. reply is any
// answer. If unordered is set, the members may have any order.
func CheckBodies[C any, P providers.Provider](t *testing.T, client func(t testing.TB, base string, change ...func(*C)) P, reply Reply, unordered bool, tests []Body[C]) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			got, _ := Sent(t, reply, &test.Request, func(base string) providers.Provider {
				if test.Change == nil {
					return client(t, base)
				}
				return client(t, base, test.Change)
			})
			diff := cmp.Diff(test.Want, got.Body)
			if unordered {
				diff = cmp.Diff(parsed(t, test.Want), parsed(t, got.Body))
			}
			if diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}
