package providertest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// CheckHeaders checks all headers of a request in JSON but its length. Want has
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
	// Name says what is wrong with it, Want is part of the error's reason.
	Name, Want string
	Request    providers.Request
}

// CheckUnsendable checks that requests are refused as such before they are
// sent.
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

// CheckUnsendableParameters checks that parameters that the service does not
// have, and that change what is asked for, are refused and not left out, also when
// requests are prepared. They are by a part of the error's reason.
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

// Translation is what becomes of a request's parameters.
type Translation = struct {
	Name, Model string
	Parameters  providers.Parameters
	// Extra are names and JSON texts by turns.
	Extra []string
	// Want is the request's body, LeftOut the names of the parameters that it
	// lacks.
	Want    string
	LeftOut []string
}

// CheckParameters checks the bodies of requests with parameters. Reply is any
// answer; short makes a body short to read: the tests have it so.
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
