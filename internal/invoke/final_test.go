package invoke

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestFinalFailures has calls fail, and looks whether a repetition is
// said to be in vain.
func TestFinalFailures(t *testing.T) {
	gone := Policy{Total: time.Minute, Retries: retries(0)}
	refused := &providers.Error{Kind: providers.Refused, Status: 200}
	for _, test := range []struct {
		name    string
		before  []error // failures in an earlier call; nil: not called
		targets []error // failures in this call; nil: an answer
		skips   []int   // targets that the purse refuses
		code    wire.Code
		final   bool
	}{
		{"a policy refuses the answer", nil, []error{refused}, nil, wire.UpstreamRefused, true},
		{"a policy refuses it, and the next target is not asked", nil, []error{refused, nil}, nil, wire.UpstreamRefused, true},
		{"a policy refuses it, after a target that failed", nil, []error{status(500), refused}, nil, wire.UpstreamError, false},
		{"the request is rejected", nil, []error{status(422)}, nil, wire.UpstreamRejected, true},
		{"a redirect", nil, []error{status(302)}, nil, wire.UpstreamRejected, true},
		{"too many tokens", nil, []error{status(413)}, nil, wire.ContextLengthExceeded, true},
		{"no such model", nil, []error{status(404)}, nil, wire.UpstreamRejected, true},
		{"a bad key", nil, []error{status(401)}, nil, wire.UpstreamCredentials, true},
		{"a spent quota", nil, []error{status(402)}, nil, wire.UpstreamCredentials, true},
		{"JSON that was cut", nil, []error{&providers.Error{Kind: providers.Invalid, Status: 200, Code: "length"}}, nil, wire.UpstreamInvalidResponse, true},
		{"no answer", nil, []error{&providers.Error{Kind: providers.Truncated, Status: 200}}, nil, wire.UpstreamInvalidResponse, false},
		{"a hiccup", nil, []error{status(500)}, nil, wire.UpstreamError, false},
		{"a fault that the provider says will stay", nil, []error{&providers.Error{Status: 500, Advice: providers.DoNotRetry}}, nil, wire.UpstreamError, true},
		{"a limited rate", nil, []error{status(429)}, nil, wire.UpstreamRateLimited, false},
		{"no connection", nil, []error{&providers.ConnectError{Err: errors.New("refused")}}, nil, wire.UpstreamUnavailable, false},
		{"a bad certificate", nil, []error{&providers.ConnectError{Permanent: true, Err: errors.New("x")}}, nil, wire.UpstreamUnavailable, false},

		{"both targets fail for good", nil, []error{status(401), status(422)}, nil, wire.UpstreamCredentials, true},
		{"the second had a hiccup", nil, []error{status(401), status(500)}, nil, wire.UpstreamCredentials, false},
		{"the second was unreachable", nil, []error{status(422), &providers.ConnectError{Err: errors.New("refused")}}, nil, wire.UpstreamRejected, false},
		{"the second is too dear at present", nil, []error{status(422), nil}, []int{1}, wire.UpstreamRejected, false},
		{"the first is left alone, as it limits the rate", []error{&providers.Error{Status: 429, RetryAfter: time.Minute}, nil}, []error{nil, status(422)}, nil, wire.UpstreamRejected, false},
		{"the first is left alone, as it takes no such key", []error{status(401), nil}, []error{nil, status(422)}, nil, wire.UpstreamRejected, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := NewEngine()
				call := func(failures []error, p *purse) *Error {
					c := &Call{Policy: gone}
					if p != nil {
						c.Purse = p
					}
					for i, failure := range failures {
						s := says("fine")
						if failure != nil {
							s = fails(failure)
						}
						c.Targets = append(c.Targets, target(string(rune('a'+i)), scripted(s)))
					}
					_, err, _ := runOn(t, engine, c)
					return err
				}
				if test.before != nil {
					call(test.before, nil)
				}
				err := call(test.targets, &purse{dear: test.skips})
				if err == nil || err.Code != test.code || err.Final != test.final {
					t.Errorf("%+v, want %s, final: %t", err, test.code.Name, test.final)
				}
			})
		})
	}
}

// TestFinalFailuresWithoutKeys has no target with a key.
func TestFinalFailuresWithoutKeys(t *testing.T) {
	missing := target("a", unavailable{scripted(says("never"))})
	for name, test := range map[string]struct {
		targets []Target
		code    wire.Code
		final   bool
	}{
		"all":  {[]Target{missing, missing}, wire.UpstreamCredentials, true},
		"one":  {[]Target{missing, target("b", scripted(fails(status(422))))}, wire.UpstreamRejected, true},
		"none": {nil, wire.Internal, false},
	} {
		if _, err, _ := run(t, &Call{Targets: test.targets}); err == nil || err.Code != test.code || err.Final != test.final {
			t.Errorf("%s: %+v, want %s, final: %t", name, err, test.code.Name, test.final)
		}
	}
}
